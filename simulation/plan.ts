import { formatScope, type BudgetMode, type Period, type Scope } from "../src/core/budget.ts";
import { usd } from "../src/core/money.ts";
import { soundCommits, type CommitFaults } from "./commits.ts";
import type { Manner } from "./pieces.ts";
import { models, taskModel, unknownModel } from "./prices.ts";
import type { Chance } from "./world.ts";

/** Plan of one run. Each seed has only some of the troubles, so that those meet more often. */
export interface Plan {
  readonly startsAt: number;
  readonly zone: string;
  /** For so long requests come. Milliseconds. */
  readonly lastsMs: number;
  /** For so long after that things go wrong. Milliseconds. */
  readonly troublesMs: number;
  readonly requests: number;
  readonly commits: CommitFaults;
  /** Probability that the gateway does something else than answer. */
  readonly gatewayFaults: number;
  readonly busyCounter: number;
  readonly slowClients: number;
  readonly leavingClients: number;
  readonly failingWebhooks: number;
  /** Probability that a step is a crash's. */
  readonly crashes: number;
  /** Number of changes of each kind during the run. */
  readonly changes: Readonly<Record<Change, number>>;
  readonly streamUsage: "auto" | "pass" | "inject";
  /** True if the gateway refuses every request that asks for stream usage. */
  readonly refusesUsage: boolean;
  /** True if the gateway makes an answer before it writes it, all at once. */
  readonly bursts: boolean;
  readonly sliceTokens: number;
  readonly hasFloor: boolean;
  readonly outputCap: number | null;
  /** The least maximum of requests whose answer must be whole; null where nothing is fitted. */
  readonly fitTokensMin: number | null;
}

export const changeKinds = ["clock", "budget", "removal", "prices", "revocation", "restart"] as const;
export type Change = (typeof changeKinds)[number];

export const zones = ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/New_York"] as const;

/** Just before something turns: an hour, a day, a month, a clock set forwards, a clock set back. */
const beginnings = [
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
    startsAt: Date.parse(chance.pick(beginnings)),
    zone: chance.pick(zones),
    lastsMs: chance.pick([20, 2_000, 30_000, 600_000]),
    troublesMs: chance.pick([100, 5_000, 40_000, 320_000]),
    requests: chance.between(3, 16),
    commits: chance.happens(0.5) ? faultyCommits(chance) : soundCommits,
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

/** Keys of a run, by the number of each. */
export const keyNames = ["alice", "bob", "carol"] as const;
export const teams: Readonly<Record<string, string | null>> = { alice: "red", bob: "red", carol: null };

/** The whole text of a key. */
export function secretOf(name: string): string {
  return `sk-fb-${name}-${"s".repeat(43)}`;
}

const scopes: readonly [Scope, ...Scope[]] = [
  { kind: "all" },
  { kind: "team", team: "red" },
  { kind: "key", key: "alice" },
  { kind: "eachKey", team: null },
  { kind: "eachKey", team: "red" },
];
const periods: readonly [Period, ...Period[]] = ["total", "1h", "1d", "1w", "1mo"];

export function budgetOf(chance: Chance) {
  const limit = usd((chance.between(2, 120) / 10_000).toFixed(4));
  const mode: BudgetMode = chance.happens(0.85) ? "hard" : "soft";
  const warnPercent = chance.happens(0.5) ? 80 : null;
  return { ...subjectIn(chance), mode, limit, warnPercent };
}

/** Alice's session of `farebox run`, in which she makes some of her requests. */
export const session = { id: "run_simulated", key: "alice" } as const;

/** A scope and a period. For some periods, what is alice's is her session's: not by chance, so that a seed stays what it was. */
function subjectIn(chance: Chance): { readonly scope: Scope; readonly period: Period } {
  const scope = chance.pick(scopes);
  const period = chance.pick(periods);
  const isSession = scope.kind === "key" && (period === "total" || period === "1d");
  return { scope: isSession ? { ...scope, session: session.id } : scope, period };
}

export function removalOf(chance: Chance): { readonly scope: string; readonly period: Period } {
  const { scope, period } = subjectIn(chance);
  return { scope: formatScope(scope), period };
}

/** A request's body; its `user` is the marker by which the gateway's books know it. */
export function bodyOf(chance: Chance, marker: string, { bursts }: Pick<Plan, "bursts">): Buffer {
  // Streams of one model show whether its bursts are remembered.
  const isOfOne = bursts && chance.happens(0.7);
  const model = isOfOne ? "plain" : chance.happens(0.06) ? unknownModel : chance.pick(models);
  const stream = isOfOne || chance.happens(0.6);
  const content = "please tell me of the sea and all its ships ".repeat(chance.between(1, 8));
  return Buffer.from(
    JSON.stringify({
      model,
      user: marker,
      messages: [{ role: "user", content }],
      ...(stream && { stream }),
      ...(stream && chance.happens(0.5) && { stream_options: { include_usage: true } }),
      ...(!isOfOne && chance.happens(0.5) && { max_tokens: chance.between(1, 120) }),
      ...(chance.happens(0.1) && { n: 2 }),
      ...(chance.happens(0.1) && { response_format: { type: "json_object" } }),
      ...(chance.happens(0.05) && { web_search_options: {} }),
    }),
  );
}

/** The creation of a task; on its family's own path the body itself is the input. */
export function taskBodyOf(chance: Chance, marker: string, isFamily: boolean): Buffer {
  const duration = chance.pick([undefined, 2, 5, 10, 30, "unclear"]);
  const input = { prompt: "a ship", ...(duration !== undefined && { duration }) };
  return Buffer.from(
    JSON.stringify(
      isFamily ? { ...input, user: marker } : { model: taskModel, task_type: "video", user: marker, input },
    ),
  );
}

/** Draws how the gateway treats a request. */
export function mannerOf(chance: Chance, faults: number, model: string): Manner {
  if (!chance.happens(faults)) return { kind: "answers", usage: chance.happens(0.75) ? "reported" : "none" };
  const billed = chance.happens(0.5);
  return chance.pick<Manner>([
    { kind: "answers", usage: "nonsense" },
    { kind: "answers", usage: "beyond" },
    { kind: "unreadable" },
    { kind: "status", status: chance.pick([400, 401, 404, 429]), billed: false },
    { kind: "status", status: chance.pick([500, 502, 503]), billed: model === "dear-errors" && billed },
    { kind: "status", status: chance.pick([408, 504, 520, 524]), billed },
    { kind: "redirect", home: billed },
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
