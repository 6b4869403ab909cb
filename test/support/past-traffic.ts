import { updateKey } from "../../src/admin/key-changes.ts";
import { costOf } from "../../src/core/cost.ts";
import { noMoney, type PicoUsd } from "../../src/core/money.ts";
import { noTokens, type TokenCounts } from "../../src/core/usage.ts";
import { shippedPrices } from "../../src/server/package.ts";
import { loadCatalogue } from "../../src/catalogue/load.ts";
import type { Catalogue, CatalogueModel } from "../../src/ports/catalogue.ts";
import type { HoldRequest, Ledger, Posting } from "../../src/ports/ledger.ts";
import { systemClock } from "../../src/platform/clock.ts";
import type { RunningProxy } from "./running-proxy.ts";

/** Traffic profile of one key. */
interface TrafficProfile {
  readonly name: string;
  readonly team?: string;
  /** Requests on an ordinary day. */
  readonly daily: number;
  /** True for traffic at all hours and on weekends. Other keys are used mostly from 8:00 to 20:00 UTC on workdays. */
  readonly machine?: true;
  readonly models: readonly (readonly [model: string, weight: number])[];
  readonly tokens: readonly [input: number, output: number];
  readonly tags?: Readonly<Record<string, string>>;
}

export const trafficProfiles: readonly TrafficProfile[] = [
  {
    name: "alice",
    team: "research",
    daily: 34,
    models: [
      ["claude-sonnet-4-6", 5],
      ["gpt-5", 3],
      ["gemini-2.5-pro", 2],
    ],
    tokens: [5200, 900],
  },
  {
    name: "bob",
    team: "research",
    daily: 22,
    models: [
      ["gpt-5", 4],
      ["gpt-4.1", 3],
    ],
    tokens: [3400, 1100],
  },
  {
    name: "support-bot",
    team: "support",
    daily: 60,
    machine: true,
    models: [
      ["gpt-4o-mini", 6],
      ["gpt-4o", 1],
    ],
    tokens: [2100, 320],
    tags: { feature: "answers" },
  },
  {
    name: "carol",
    team: "product",
    daily: 18,
    models: [
      ["claude-sonnet-4-6", 2],
      ["gemini-2.5-flash", 5],
    ],
    tokens: [2600, 700],
  },
  {
    name: "search",
    team: "product",
    daily: 40,
    machine: true,
    models: [
      ["gemini-2.5-flash", 5],
      ["gpt-4.1-mini", 3],
    ],
    tokens: [1500, 180],
    tags: { feature: "search" },
  },
  {
    name: "nightly-eval",
    daily: 14,
    machine: true,
    models: [
      ["claude-opus-4-6", 1],
      ["gpt-5", 2],
    ],
    tokens: [7800, 1500],
    tags: { job: "eval" },
  },
  {
    name: "dave",
    team: "product",
    daily: 9,
    models: [
      ["gpt-4o", 3],
      ["claude-haiku-4-5", 4],
    ],
    tokens: [1200, 500],
  },
];

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const batch = 500;

/** Returns a generator of pseudorandom numbers from 0 to below 1, the same for each seed. */
function pseudorandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Writes the traffic of the days before `until` into the ledger, with holds and postings like a proxy's. Returns each
 * profile's key text by name.
 */
export async function writePastTraffic(
  proxy: RunningProxy,
  { until, days }: { readonly until: number; readonly days: number },
): Promise<ReadonlyMap<string, string>> {
  const { ledger, keys } = proxy.serving;
  const texts = new Map([["alice", proxy.key]]);
  for (const { name, team } of trafficProfiles.filter((profile) => !texts.has(profile.name)))
    texts.set(name, await proxy.addKey(name, team === undefined ? {} : { team }));
  await updateKey({ keys, clock: systemClock(), by: "test" }, "alice", { team: "research" });
  const ids = new Map((await keys.list()).map(({ name, id }) => [name, id]));
  const requests = await pastRequests((name) => ids.get(name) ?? "", { until, days });
  for (let from = 0; from < requests.length; from += batch) {
    const some = requests.slice(from, from + batch);
    await Promise.all(some.map(({ hold }) => ledger.hold(hold)));
    await Promise.all(some.map((request) => settle(ledger, request)));
  }
  return texts;
}

/**
 * Returns the requests of the days before `until`, oldest first and the same each time. `idOf` returns the id of a
 * key. `times` multiplies their number.
 */
export async function pastRequests(
  idOf: (name: string) => string,
  { until, days, times = 1 }: { readonly until: number; readonly days: number; readonly times?: number },
): Promise<PastRequest[]> {
  const loaded = await loadCatalogue({ shipped: shippedPrices, user: undefined });
  if (!loaded.ok) throw new Error("the shipped prices do not load");
  const { catalogue } = loaded;
  const chance = pseudorandom(7);
  const requests = trafficProfiles.flatMap((profile) =>
    timesOf({ ...profile, daily: profile.daily * times }, { until, days }, chance).map((at) =>
      requestOf({ profile, at, key: idOf(profile.name), catalogue, chance }),
    ),
  );
  return requests.sort((one, other) => one.hold.at - other.hold.at);
}

/** Returns the times of a profile's requests, whose number grows from month to month. */
function timesOf(
  { daily, machine }: TrafficProfile,
  { until, days }: { readonly until: number; readonly days: number },
  chance: () => number,
): number[] {
  const times: number[] = [];
  for (let day = 0; day < days; day++) {
    const start = until - (day + 1) * dayMs;
    const weekend = [0, 6].includes(new Date(start + dayMs / 2).getUTCDay());
    const growth = 1 - 0.5 * (day / days) + 0.25 * Math.sin(day / 3);
    const wanted = daily * growth * (0.7 + 0.6 * chance()) * (weekend ? (machine ? 0.7 : 0.08) : 1);
    for (let made = 0; made < Math.round(wanted);) {
      const at = start + chance() * dayMs;
      const hour = new Date(at).getUTCHours();
      if (machine === undefined && (hour < 8 || hour > 19) && chance() < 0.93) continue;
      times.push(Math.floor(at));
      made++;
    }
  }
  return times;
}

export interface PastRequest {
  readonly profile: TrafficProfile;
  readonly hold: HoldRequest;
  readonly model: CatalogueModel;
  readonly tokens: TokenCounts;
  readonly luck: number;
  readonly durationMs: number;
}

interface PlannedRequest {
  readonly profile: TrafficProfile;
  readonly at: number;
  readonly key: string;
  readonly catalogue: Catalogue;
  readonly chance: () => number;
}

let made = 0;

function requestOf({ profile, at, key, catalogue, chance }: PlannedRequest): PastRequest {
  const name = pick(profile.models, chance());
  const model = catalogue.find(name, at);
  if (model?.price == null) throw new Error(`${name} has no price`);
  const size = 0.35 + chance() * chance() * 3;
  const [input, output] = profile.tokens.map((mean) => Math.round(mean * size * (0.7 + 0.6 * chance()))) as [
    number,
    number,
  ];
  const cached = chance() < 0.4 ? Math.floor(input * 0.6) : 0;
  const reasoning = model.reasons ? Math.round(output * 0.8) : 0;
  const tokens: TokenCounts = { ...noTokens, input: input - cached, cached_input: cached, output, reasoning };
  const { charged } = costOf(model.price.version, tokens);
  made++;
  return {
    profile,
    model,
    tokens,
    luck: chance(),
    durationMs: 400 + (output + reasoning) * (9 + 6 * chance()),
    hold: {
      id: `${at.toString(16).padStart(12, "0").slice(0, 8)}-${at.toString(16).padStart(12, "0").slice(8)}-7${made.toString(16).padStart(3, "0").slice(-3)}-8000-${(made * 2654435761).toString(16).padStart(12, "0").slice(-12)}`,
      kind: "request",
      at,
      caller: { key, team: profile.team ?? null },
      route: "chat/completions",
      model: model.id,
      group: model.group,
      stream: chance() < 0.6,
      price: { id: model.price.id, canonical: model.price.canonical },
      amount: (charged * 3n) as PicoUsd,
      bounded: true,
      tags: profile.tags ?? {},
      retry: chance() < 0.02 ? 1 : 0,
    },
  };
}

function pick(weighted: TrafficProfile["models"], at: number): string {
  let left = at * weighted.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [name, weight] of weighted) {
    left -= weight;
    if (left < 0) return name;
  }
  return weighted[0]?.[0] ?? "";
}

/** Settles a request. Most have reported tokens; some are counted, a few are cut off or fail. */
async function settle(ledger: Ledger, { hold, model, tokens, luck, durationMs }: PastRequest): Promise<void> {
  const end = {
    at: hold.at + Math.round(durationMs),
    status: 200,
    servedModel: model.id,
    gatewayRequestId: `gw-${hold.id.slice(-10)}`,
    durationMs,
    firstTokenMs: hold.stream ? 240 + luck * 500 : null,
  };
  if (luck < 0.012)
    return void (await ledger.void(hold.id, "gateway_error", {
      ...end,
      status: luck < 0.008 ? 502 : 429,
      firstTokenMs: null,
    }));
  const { charged, list, minimumApplied } =
    model.price === null
      ? { charged: noMoney, list: noMoney, minimumApplied: false }
      : costOf(model.price.version, tokens);
  const source = luck < 0.025 ? "partial" : luck < 0.1 ? "counted" : "reported";
  const posting: Posting = {
    kind: "post",
    cost: charged,
    listCost: list,
    tokens,
    formula: "tokens",
    source,
    minimumApplied,
    clamped: false,
    reason: source === "partial" ? "client_left" : null,
  };
  await ledger.post(hold.id, posting, end);
}
