import { formatUsd, subtract, sum } from "../core/money.ts";
import type { Catalogue, ModelHistory } from "../ports/catalogue.ts";
import type { LedgerQueries, WhatIfRow } from "../ports/ledger.ts";
import { changesOf, dayOf, type Change } from "./model-diff.ts";
import { isoTime } from "./names.ts";
import { quarterHours } from "./report.ts";
import { leftoversOf, rowsUnder, type Leftovers } from "./what-if.ts";

/** Number of days whose traffic is compared. */
const trafficDays = 30;
const dayMs = 86_400_000;

export interface PricesDiff {
  /** Digest of the first catalogue. It equals `after` if nothing differs. */
  readonly before: string;
  readonly after: string;
  readonly added: readonly ModelPresence[];
  readonly removed: readonly ModelPresence[];
  readonly changes: readonly Change[];
}

/** A model that only one catalogue has, with the day of its first price. */
interface ModelPresence {
  readonly model: string;
  readonly group: string | null;
  readonly from: string | null;
}

/** Compares two catalogues. Changes are in the order of the first. */
export function diffPrices(before: Catalogue, after: Catalogue): PricesDiff {
  const [old, present] = [byId(before), byId(after)];
  const only = (one: ReadonlyMap<string, ModelHistory>, other: ReadonlyMap<string, ModelHistory>) =>
    [...one.values()].filter(({ id }) => !other.has(id)).map(presence);
  return {
    before: before.digest,
    after: after.digest,
    added: only(present, old),
    removed: only(old, present),
    changes: [...old.values()].flatMap((model) => {
      const other = present.get(model.id);
      return other === undefined ? [] : changesOf(model, other);
    }),
  };
}

function byId(catalogue: Catalogue): ReadonlyMap<string, ModelHistory> {
  return new Map(catalogue.histories().map((model) => [model.id, model]));
}

function presence({ id, spans, tasks = [] }: ModelHistory): ModelPresence {
  const priced = [
    spans.find(({ model }) => model.price !== null),
    ...tasks.map((task) => task.spans.find(({ price }) => price !== null)),
  ];
  const starts = priced.flatMap((span) => (span === undefined ? [] : [span.start]));
  return {
    model: id,
    group: spans[0]?.model.group ?? null,
    from: starts.length === 0 ? null : dayOf(Math.min(...starts)),
  };
}

/** Cost of the same traffic under two catalogues, by the model named in the request. */
export interface TrafficDiff {
  readonly since: string;
  readonly until: string;
  readonly rows: readonly TrafficRow[];
  readonly total: TrafficFigures;
  readonly left_over: { readonly before: Leftovers; readonly after: Leftovers };
}

export interface TrafficFigures {
  readonly requests: number;
  /** Cost as it was charged. */
  readonly cost_usd: string;
  readonly before_usd: string;
  readonly after_usd: string;
  /** `after_usd` minus `before_usd`. */
  readonly difference_usd: string;
}

export interface TrafficRow extends TrafficFigures {
  readonly model: string;
}

/** Computes the cost of the last 30 days under each catalogue. `now` is in milliseconds since 1970 UTC. */
export async function diffTraffic(
  ledger: LedgerQueries,
  before: Catalogue,
  after: Catalogue,
  now: number,
): Promise<TrafficDiff> {
  const span = quarterHours(now - trafficDays * dayMs, now);
  const query = { by: ["model" as const], ...span };
  const old = new Map((await rowsUnder(ledger, before, query)).map((row) => [row.dimensions.model, row]));
  const pairs = (await rowsUnder(ledger, after, query)).flatMap((row): Pair[] => {
    const other = old.get(row.dimensions.model);
    return other === undefined ? [] : [{ model: row.dimensions.model ?? "", before: other, after: row }];
  });
  return {
    since: isoTime(span.since),
    until: isoTime(span.until),
    rows: pairs.map((pair) => ({ model: pair.model, ...figuresOf([pair]) })),
    total: figuresOf(pairs),
    left_over: {
      before: leftoversOf(pairs.map((pair) => pair.before)),
      after: leftoversOf(pairs.map((pair) => pair.after)),
    },
  };
}

interface Pair {
  readonly model: string;
  readonly before: WhatIfRow;
  readonly after: WhatIfRow;
}

function figuresOf(pairs: readonly Pair[]): TrafficFigures {
  const before = sum(pairs.map((pair) => pair.before.whatIf.cost));
  const after = sum(pairs.map((pair) => pair.after.whatIf.cost));
  return {
    requests: pairs.reduce((total, pair) => total + pair.after.requests, 0),
    cost_usd: formatUsd(sum(pairs.map((pair) => pair.after.cost))),
    before_usd: formatUsd(before),
    after_usd: formatUsd(after),
    difference_usd: formatUsd(subtract(after, before)),
  };
}
