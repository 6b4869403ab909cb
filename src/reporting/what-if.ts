import { formatUsd, subtract, sum } from "../core/money.ts";
import { notRecomputed, recomputeUnder, type NotRecomputed, type PriceAt } from "../core/what-if.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { LedgerQueries, ReportQuery, RequestsAndCost, WhatIfRow } from "../ports/ledger.ts";
import { isoTime } from "../core/time.ts";
import type { NameOf } from "./names.ts";
import { dimensionsOf, addSums, figuresOf, noSums, quarterHours } from "./report.ts";
import type { LeftoversJson, WhatIfJson } from "./shapes/commands.ts";

/**
 * Returns the rows of a report with their cost under a catalogue. Each charge is recomputed at the price in force at
 * its time.
 */
export function rowsUnder(
  ledger: LedgerQueries,
  catalogue: Catalogue,
  query: ReportQuery,
  onProgress?: (share: number) => void,
): Promise<readonly WhatIfRow[]> {
  const priceAt: PriceAt = (model, at) => {
    const found = catalogue.find(model, at);
    if (found === undefined) return "unknown_model";
    return found.price?.version ?? "no_price";
  };
  return ledger.whatIf(query, (charge) => recomputeUnder(charge, priceAt), onProgress);
}

/** Reports the cost of the same traffic under other prices. Widens the span as `runReport` does. */
export async function runWhatIf(
  tools: { readonly ledger: LedgerQueries; readonly nameOf: NameOf; readonly catalogue: Catalogue },
  query: ReportQuery,
  onProgress?: (share: number) => void,
): Promise<WhatIfJson> {
  const span = quarterHours(query.since, query.until);
  const rows = await rowsUnder(tools.ledger, tools.catalogue, { by: query.by, ...span }, onProgress);
  return {
    since: isoTime(span.since),
    until: isoTime(span.until),
    by: query.by,
    prices: tools.catalogue.digest,
    rows: rows.map((row) => ({ ...dimensionsOf(row, tools.nameOf), ...figuresOf(row), what_if: whatIfOf([row]) })),
    total: { ...figuresOf(rows.reduce(addSums, noSums)), what_if: whatIfOf(rows) },
    ...leftoversOf(rows),
  };
}

export function leftoversOf(rows: readonly WhatIfRow[]): LeftoversJson {
  return {
    not_recomputed: { ...requestsAndCost(sumsNotRecomputed(rows)), by_reason: reasonsOf(rows) },
    newly_priced: requestsAndCost(rows.map(({ whatIf }) => whatIf.newlyPriced)),
  };
}

/** Returns the cost of rows under other prices. */
function whatIfOf(rows: readonly WhatIfRow[]) {
  const cost = sum(rows.map(({ whatIf }) => whatIf.cost));
  return {
    cost_usd: formatUsd(cost),
    list_cost_usd: formatUsd(sum(rows.map(({ whatIf }) => whatIf.listCost))),
    difference_usd: formatUsd(subtract(cost, sum(rows.map((row) => row.cost)))),
    not_recomputed: requestsAndCost(sumsNotRecomputed(rows)),
  };
}

function sumsNotRecomputed(
  rows: readonly WhatIfRow[],
  reasons: readonly NotRecomputed[] = notRecomputed,
): RequestsAndCost[] {
  return rows.flatMap(({ whatIf }) => reasons.flatMap((reason) => whatIf.notRecomputed[reason] ?? []));
}

function reasonsOf(rows: readonly WhatIfRow[]) {
  const found = notRecomputed
    .map((reason) => [reason, sumsNotRecomputed(rows, [reason])] as const)
    .filter(([, left]) => left.length > 0);
  return Object.fromEntries(found.map(([reason, left]) => [reason, requestsAndCost(left)]));
}

function requestsAndCost(parts: readonly RequestsAndCost[]) {
  const requests = parts.reduce((total, part) => total + part.requests, 0);
  return { requests, cost_usd: formatUsd(sum(parts.map(({ cost }) => cost))) };
}
