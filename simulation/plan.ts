import { type Budget, type BudgetMode, type Period } from "../src/core/budget.ts";
import {
  formatScope,
  subjectsOf,
  type Scope,
  eachKeyScope,
  everyRequest,
  keyScope,
  teamScope,
  keyOfScope,
  parseScope,
  sessionScope,
} from "../src/core/scope.ts";
import type { HostedToolPolicy } from "../src/core/keys.ts";
import { usd, type PicoUsd } from "../src/core/money.ts";
import type { Calendar } from "../src/ports/calendar.ts";
import type { NewRaise } from "../src/ports/ledger.ts";
import { faultlessCommits, type CommitFaults } from "./commits.ts";
import type { Behavior } from "./pieces.ts";
import { messagesModels, models, spelled, taskModel, unknownModel } from "./prices.ts";
import type { HeaderList } from "../src/ports/exchange.ts";
import type { Chance } from "./world.ts";

/** Plan of one run. Each seed has only some kinds of faults, because faults of the same kind then coincide more often. */
export interface Plan {
  readonly startsAt: number;
  readonly zone: string;
  /** Period in which requests arrive, in milliseconds. */
  readonly requestsMs: number;
  /** Period after `requestsMs` in which faults still occur, in milliseconds. */
  readonly faultsMs: number;
  readonly requests: number;
  readonly commits: CommitFaults;
  /** Probability that the gateway does not answer normally. */
  readonly gatewayFaults: number;
  /** Probability that the token counter is busy. */
  readonly busyCounter: number;
  /** Probability that a client does not read a write at once. */
  readonly slowClients: number;
  /** Probability that a client leaves before it has its answer. */
  readonly leavingClients: number;
  /** Probability that a webhook message is lost, and that its answer is lost. */
  readonly failingWebhooks: number;
  /** Probability of a crash after a step. */
  readonly crashes: number;
  /** Number of changes of each kind during the run. */
  readonly changes: Readonly<Record<Change, number>>;
  readonly streamUsage: "auto" | "pass" | "inject";
  /** True if the gateway refuses every request that asks for stream usage. */
  readonly refusesUsage: boolean;
  /** True if the gateway writes each stream at once, after it has generated all of it. */
  readonly bursts: boolean;
  readonly sliceTokens: number;
  readonly hasFloor: boolean;
  readonly outputCap: number | null;
  /** Smallest output maximum to which requests are fitted; null if requests are not fitted. */
  readonly fitTokensMin: number | null;
}

export const changeKinds = ["clock", "budget", "removal", "prices", "revocation", "restart"] as const;
export type Change = (typeof changeKinds)[number];

export const zones = ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/New_York"] as const;

/** Start times: one in the middle of a day, the others just before an hour, a day, a month or daylight saving time changes. */
const startTimes = [
  "2026-11-20T12:00:00Z",
  "2026-11-20T12:59:59Z",
  "2026-11-20T22:59:58Z",
  "2026-10-31T23:59:57Z",
  "2026-03-29T00:59:58Z",
  "2026-10-25T00:59:58Z",
] as const;

export function planOf(chance: Chance): Plan {
  const sometimes = (probability: number) => (chance.happens(0.5) ? probability : 0);
  const bursts = chance.happens(0.3);
  const changes = Object.fromEntries(changeKinds.map((kind) => [kind, chance.happens(0.4) ? chance.between(1, 3) : 0]));
  return {
    startsAt: Date.parse(chance.pick(startTimes)),
    zone: chance.pick(zones),
    requestsMs: chance.pick([20, 2_000, 30_000, 600_000]),
    faultsMs: chance.pick([100, 5_000, 40_000, 320_000]),
    requests: chance.between(3, 16),
    commits: chance.happens(0.5) ? faultyCommits(chance) : faultlessCommits,
    gatewayFaults: chance.pick([0, 0.2, 0.5, 0.9]),
    busyCounter: sometimes(0.3),
    slowClients: sometimes(0.2),
    leavingClients: chance.pick([0, 0.2, 0.6]),
    failingWebhooks: sometimes(0.4),
    crashes: chance.happens(0.4) ? chance.pick([0.002, 0.01]) : 0,
    changes: changes as Record<Change, number>,
    streamUsage: chance.pick(["auto", "auto", "pass", "inject"]),
    refusesUsage: chance.happens(0.3),
    bursts,
    sliceTokens: chance.pick([16, 64, 1024]),
    hasFloor: chance.happens(0.2),
    outputCap: !bursts && chance.happens(0.2) ? chance.pick([30, 90]) : null,
    fitTokensMin: chance.happens(0.8) ? chance.pick([40, 150]) : null,
  };
}

function faultyCommits(chance: Chance): CommitFaults {
  const often = () => (chance.happens(0.6) ? chance.pick([0.03, 0.15, 0.4]) : 0);
  return { unavailable: often(), lost: often(), unknown: often(), stalled: chance.happens(0.3) ? 0.05 : 0 };
}

/** Keys of every run. */
export const keyNames = ["alice", "bob", "carol"] as const;
export const teams: Readonly<Record<string, string | null>> = { alice: "red", bob: "red", carol: null };

/** Returns the secret of a key. */
export function secretOf(name: string): string {
  return `sk-fb-${name}-${"s".repeat(43)}`;
}

const scopes: readonly [Scope, ...Scope[]] = [
  everyRequest,
  teamScope("red"),
  keyScope("alice"),
  eachKeyScope(),
  eachKeyScope("red"),
];
const periods: readonly [Period, ...Period[]] = ["total", "1h", "1d", "1w", "1mo"];

export function budgetOf(chance: Chance) {
  const limit = usd((chance.between(2, 120) / 10_000).toFixed(4));
  const mode: BudgetMode = chance.happens(0.85) ? "hard" : "soft";
  const warnPercent = chance.happens(0.5) ? 80 : null;
  return { ...scopeAndPeriod(chance), mode, limit, warnPercent };
}

/** Caller whose windows are raised. */
export const raisedCaller = {
  key: "alice",
  team: "red",
  labels: { env: "prod" },
  user: "u1",
  tags: { feature: "search" },
  models: ["plain"],
};

/** Raises every second budget, for its whole window or for 10 s. Draws nothing at random, because old seeds must stay valid. */
export function raiseOf(
  { scope, period, limit }: Budget,
  count: number,
  calendar: Calendar,
  now: number,
): NewRaise | null {
  if (count % 2 === 1) return null;
  const { start, end } = calendar.spanOf(period, now);
  const isWhole = count % 4 === 2;
  const until = isWhole ? end : Math.min(now + 10_000, end ?? Infinity);
  const [subject = ""] = subjectsOf(scope, raisedCaller);
  const amount = (limit / 2n) as PicoUsd;
  return { scope: formatScope(scope), period, subject, amount, from: start, until, why: "a busy day" };
}

/** Session of `farebox run` in which alice sends some of her requests. */
export const session = { id: "run_simulated", key: "alice" } as const;

/** Draws a scope and a period. For two of the periods, replaces a key's scope with that of its session. Narrows some other scopes. */
function scopeAndPeriod(chance: Chance): { readonly scope: Scope; readonly period: Period } {
  const scope = chance.pick(scopes);
  const period = chance.pick(periods);
  const key = period === "total" || period === "1d" ? keyOfScope(scope) : null;
  return { scope: key === null ? (narrowedScope(scope, period) ?? scope) : sessionScope(key, session.id), period };
}

/** Scopes with more conditions, which replace drawn scopes. They are not drawn at random, because old seeds must stay valid. */
const narrowed: Readonly<Record<string, string>> = {
  "all 1h": "each-user",
  "all 1d": "label:env=prod",
  "all 1w": "each-model",
  "all 1mo": "model:p* each-tag:feature",
  "team:red 1h": "team:red each-user",
  "team:red 1d": "team:red tag:feature=search",
  "key:alice 1h": "key:alice model:bill*",
  "key:alice 1w": "key:alice user:u1",
  "each-key total": "each-key each-user",
  "each-key 1d": "each-key each-model",
  "team:red each-key 1mo": "team:red each-key each-tag:feature",
};

function narrowedScope(scope: Scope, period: Period): Scope | undefined {
  const text = narrowed[`${formatScope(scope)} ${period}`];
  return text === undefined ? undefined : parseScope(text);
}

/** Returns the headers that name the user and the tags of a request. */
export function senderHeaders(count: number): HeaderList {
  const user = [null, "u1", "u 2", "u1"][count % 4];
  return [
    ...(user == null ? [] : [["x-farebox-user", user] as const]),
    ...(count % 3 === 1 ? [["x-farebox-tag", "feature=search"] as const] : []),
  ];
}

export function removalOf(chance: Chance): { readonly scope: string; readonly period: Period } {
  const { scope, period } = scopeAndPeriod(chance);
  return { scope: formatScope(scope), period };
}

/** Draws a request's body. Its `user` is the marker that identifies the request at the gateway. */
export function bodyOf(
  chance: Chance,
  marker: string,
  {
    bursts,
    hasModels,
    spelling,
  }: Pick<Plan, "bursts"> & {
    readonly hasModels: boolean;
    /** Number of the model's spelling. */
    readonly spelling: number;
  },
): Buffer {
  // The check that a model stays marked needs several bursts of the same model.
  const isBurst = bursts && chance.happens(0.7);
  const model = isBurst ? "plain" : chance.happens(0.06) ? unknownModel : chance.pick(models);
  const stream = isBurst || chance.happens(0.6);
  const content = "please tell me of the sea and all its ships ".repeat(chance.between(1, 8));
  return Buffer.from(
    JSON.stringify({
      model: spelled(model, spelling),
      user: marker,
      ...(hasModels && { models: [model, "plain", "bill-errors"] }),
      messages: [{ role: "user", content }],
      ...(stream && { stream }),
      ...(stream && chance.happens(0.5) && { stream_options: { include_usage: true } }),
      ...(!isBurst && chance.happens(0.5) && { max_tokens: chance.between(1, 120) }),
      ...(chance.happens(0.1) && { n: 2 }),
      ...(chance.happens(0.1) && { response_format: { type: "json_object" } }),
      ...(chance.happens(0.05) && { web_search_options: {} }),
    }),
  );
}

/** Headers of an agent's request, by its number: sessions, with sub-agents in every second one. */
export function agentHeaders(count: number): HeaderList {
  return [
    ["anthropic-version", "2023-06-01"],
    ...(count % 4 === 0 ? [] : [["x-claude-code-session-id", `session-${count % 2}`] as const]),
    ...(count % 2 === 0 ? [] : [["x-claude-code-agent-id", `agent-${count % 3}`] as const]),
    ...(count % 4 === 3 ? [["x-claude-code-parent-agent-id", "main"] as const] : []),
  ];
}

/** Budget of each session of an agent. */
export const agentBudget = {
  scope: { conditions: [{ dimension: "tag", name: "agent_session", value: null }] },
  period: "1d",
  mode: "hard",
  limit: usd("0.006"),
  warnPercent: null,
} as const;

/** Hosted-tool policies of the keys in runs with agents. */
export const toolPolicies: Readonly<Record<string, HostedToolPolicy | null>> = {
  alice: null,
  bob: "remove",
  carol: "allow",
};

/** Draws the body of a message. */
export function messageBodyOf(
  chance: Chance,
  marker: string,
  { bursts }: Pick<Plan, "bursts">,
  spelling: number,
): Buffer {
  const model = chance.happens(0.06) ? unknownModel : chance.pick(messagesModels);
  const said = (parts: number) => "please tell me of the sea and all its ships ".repeat(chance.between(1, parts));
  const marks = (): object => {
    if (!chance.happens(0.4)) return {};
    return { cache_control: { type: "ephemeral", ...(chance.happens(0.4) && { ttl: "1h" }) } };
  };
  const max_tokens = chance.happens(bursts ? 0.5 : 0.85) ? chance.between(1, 120) : undefined;
  const thinks = chance.happens(0.3) && (max_tokens === undefined || max_tokens > 1);
  const uses = chance.happens(0.75) && { max_uses: chance.between(1, 3) };
  const tools = [
    ...(chance.happens(0.3) ? [{ name: "find", input_schema: { type: "object" } }] : []),
    ...(chance.happens(0.35) ? [{ type: "web_search_20250305", name: "web_search", ...uses }] : []),
  ];
  return Buffer.from(
    JSON.stringify({
      model: spelled(model, spelling),
      metadata: { user_id: marker },
      ...(max_tokens !== undefined && { max_tokens }),
      ...(chance.happens(0.6) && { system: [{ type: "text", text: said(4), ...marks() }] }),
      messages: [{ role: "user", content: [{ type: "text", text: said(6), ...marks() }] }],
      ...(chance.happens(0.7) && { stream: true }),
      ...(tools.length > 0 && { tools }),
      ...(thinks && { thinking: { type: "enabled", budget_tokens: chance.between(1, (max_tokens ?? 60) - 1) } }),
      ...(chance.happens(0.4) && { speed: "fast" }),
      ...(chance.happens(0.2) && { inference_geo: "us" }),
    }),
  );
}

/** Draws the body that creates a task. On the task model's own path, the body itself is the input. */
export function taskBodyOf(chance: Chance, marker: string, isFamily: boolean): Buffer {
  const duration = chance.pick([undefined, 2, 5, 10, 30, "unclear"]);
  const input = { prompt: "a ship", ...(duration !== undefined && { duration }) };
  return Buffer.from(
    JSON.stringify(
      isFamily ? { ...input, user: marker } : { model: taskModel, task_type: "video", user: marker, input },
    ),
  );
}

/** Draws the gateway's behavior for a message. */
export function messageBehaviorOf(chance: Chance, faults: number, model: string): Behavior {
  const when = chance.pick(["before", "after"] as const);
  if (chance.happens(0.1)) return { kind: "refuses", when };
  return chance.happens(faults / 5) ? { kind: "errors", when } : behaviorOf(chance, faults, model);
}

/** Draws the gateway's behavior for a request. */
export function behaviorOf(chance: Chance, faults: number, model: string): Behavior {
  if (!chance.happens(faults)) return { kind: "answers", usage: chance.happens(0.75) ? "reported" : "none" };
  const billed = chance.happens(0.5);
  return chance.pick<Behavior>([
    { kind: "answers", usage: "nonsense" },
    { kind: "answers", usage: "excessive" },
    { kind: "unreadable" },
    { kind: "status", status: chance.pick([400, 401, 404, 429]), billed: false },
    { kind: "status", status: chance.pick([500, 502, 503]), billed: model === "bill-errors" && billed },
    { kind: "status", status: chance.pick([408, 504, 520, 524]), billed },
    { kind: "redirect", isSameOrigin: billed },
    { kind: "unreachable" },
    { kind: "never_connects" },
    { kind: "silent", when: chance.pick(["at_once", "after_head", "midway"]), billed },
    { kind: "reset", when: chance.pick(["at_once", "after_head", "midway"]), billed },
    { kind: "reset", when: "midway", billed },
    { kind: "cut" },
    { kind: "cut" },
    { kind: "repeats" },
    { kind: "reordered" },
  ]);
}
