import { add, formatUsd, noMoney, subtract, sum, type PicoUsd } from "../core/money.ts";
import { notRecomputed, recomputeUnder, type NotRecomputed, type PriceAt } from "../core/what-if.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { LedgerQueries, ReportQuery, RequestsAndCost, WhatIfRow } from "../ports/ledger.ts";
import { isoTime, type NameOf } from "./names.ts";
import { dimensionsOf, figuresOf, nothing, quarterHours, together } from "./report.ts";
import type { FiguresJson, ReportJson, ReportRowJson } from "./shapes/figures.ts";

/** Cost of a row under other prices. */
export interface WhatIfFigures {
  /** Recomputed cost. It includes the stored amounts of charges that cannot be recomputed. */
  readonly cost_usd: string;
  readonly list_cost_usd: string;
  /** Difference to the charged cost; above zero if the other prices are higher. */
  readonly difference_usd: string;
  readonly not_recomputed: RequestsAndCostJson;
}

interface RequestsAndCostJson {
  readonly requests: number;
  readonly cost_usd: string;
}

/** Charges that the differences leave out. */
export interface Leftovers {
  /** Charges that keep their stored amounts, by reason. */
  readonly not_recomputed: RequestsAndCostJson & {
    readonly by_reason: Readonly<Partial<Record<NotRecomputed, RequestsAndCostJson>>>;
  };
  /** Charges without a price that the other prices cover. Their cost is included only in `what_if`. */
  readonly newly_priced: RequestsAndCostJson;
}

/** A report whose rows also state the cost of the same traffic under other prices. */
export interface WhatIfReport extends Pick<ReportJson, "since" | "until" | "by">, Leftovers {
  /** Digest of the other prices. */
  readonly prices: string;
  readonly rows: readonly (ReportRowJson & { readonly what_if: WhatIfFigures })[];
  readonly total: FiguresJson & { readonly what_if: WhatIfFigures };
}

/** Returns the rows of a report with their cost under this catalogue's prices in force at the time of each charge. */
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
): Promise<WhatIfReport> {
  const span = quarterHours(query.since, query.until);
  const rows = await rowsUnder(tools.ledger, tools.catalogue, { by: query.by, ...span }, onProgress);
  return {
    since: isoTime(span.since),
    until: isoTime(span.until),
    by: query.by,
    prices: tools.catalogue.digest,
    rows: rows.map((row) => ({ ...dimensionsOf(row, tools.nameOf), ...figuresOf(row), what_if: whatIfOf([row]) })),
    total: { ...figuresOf(rows.reduce(together, nothing)), what_if: whatIfOf(rows) },
    ...leftoversOf(rows),
  };
}

export function leftoversOf(rows: readonly WhatIfRow[]): Leftovers {
  return {
    not_recomputed: { ...requestsAndCost(leftOf(rows)), by_reason: reasonsOf(rows) },
    newly_priced: requestsAndCost(rows.map(({ whatIf }) => whatIf.newlyPriced)),
  };
}

function whatIfOf(rows: readonly WhatIfRow[]): WhatIfFigures {
  const cost = sum(rows.map(({ whatIf }) => whatIf.cost));
  return {
    cost_usd: formatUsd(cost),
    list_cost_usd: formatUsd(sum(rows.map(({ whatIf }) => whatIf.listCost))),
    difference_usd: formatUsd(subtract(cost, sum(rows.map((row) => row.cost)))),
    not_recomputed: requestsAndCost(leftOf(rows)),
  };
}

function leftOf(rows: readonly WhatIfRow[], reasons: readonly NotRecomputed[] = notRecomputed): RequestsAndCost[] {
  return rows.flatMap(({ whatIf }) => reasons.flatMap((reason) => whatIf.notRecomputed[reason] ?? []));
}

function reasonsOf(rows: readonly WhatIfRow[]): Partial<Record<NotRecomputed, RequestsAndCostJson>> {
  const found = notRecomputed
    .map((reason) => [reason, leftOf(rows, [reason])] as const)
    .filter(([, left]) => left.length > 0);
  return Object.fromEntries(found.map(([reason, left]) => [reason, requestsAndCost(left)]));
}

function requestsAndCost(parts: readonly RequestsAndCost[]): RequestsAndCostJson {
  let requests = 0;
  let cost: PicoUsd = noMoney;
  for (const part of parts) {
    requests += part.requests;
    cost = add(cost, part.cost);
  }
  return { requests, cost_usd: formatUsd(cost) };
}
