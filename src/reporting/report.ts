import { add, formatUsd, noMoney, subtract, type PicoUsd } from "../core/money.ts";
import { ceilingPrice } from "../core/price.ts";
import { noTokens, tokenClasses, type TokenCounts } from "../core/tokens.ts";
import type { Ledger, ReportDimension, ReportQuery, ReportRow } from "../ports/ledger.ts";
import { isoTime, type NameOf } from "./names.ts";
import type { FiguresJson, ReportJson } from "./shapes/figures.ts";
import { quarterHours } from "./span.ts";

/** Adds up posted charges. The span is widened to the ledger's quarter hours, so that the answer states what it covers. */
export async function runReport(
  tools: { readonly ledger: Ledger; readonly nameOf: NameOf },
  query: ReportQuery,
): Promise<ReportJson> {
  const span = quarterHours(query.since, query.until);
  const rows = await tools.ledger.report({ by: query.by, ...span });
  return {
    since: isoTime(span.since),
    until: isoTime(span.until),
    by: query.by,
    rows: rows.map((row) => ({ ...dimensionsOf(row, tools.nameOf), ...figuresOf(row) })),
    total: figuresOf(rows.reduce(together, nothing)),
    ceiling_price: await ceilingOf(tools.ledger, span),
    raw_units: (await tools.ledger.rawUnits(span)).map(({ type, units, tasks }) => ({ unit_type: type, units, tasks })),
  };
}

async function ceilingOf(
  ledger: Ledger,
  span: Pick<ReportQuery, "since" | "until">,
): Promise<ReportJson["ceiling_price"]> {
  const row = (await ledger.report({ by: ["group"], ...span })).find(
    ({ dimensions }) => dimensions.group === ceilingPrice,
  );
  return row === undefined ? null : { requests: row.requests, cost_usd: formatUsd(row.cost) };
}

/** What rows have in common with their total. */
export type Sums = Omit<ReportRow, "dimensions">;

export const nothing: Sums = {
  requests: 0,
  unpricedRequests: 0,
  retries: 0,
  tokens: noTokens,
  cost: noMoney,
  listCost: noMoney,
  inDoubt: noMoney,
  bySource: {},
};

export function together(total: Sums, row: Sums): Sums {
  const bySource: Record<string, { requests: number; cost: PicoUsd }> = { ...total.bySource };
  for (const [source, { requests, cost }] of Object.entries(row.bySource)) {
    const before = bySource[source];
    bySource[source] = { requests: (before?.requests ?? 0) + requests, cost: add(before?.cost ?? noMoney, cost) };
  }
  return {
    requests: total.requests + row.requests,
    unpricedRequests: total.unpricedRequests + row.unpricedRequests,
    retries: total.retries + row.retries,
    tokens: Object.fromEntries(
      tokenClasses.map((name) => [name, total.tokens[name] + row.tokens[name]]),
    ) as TokenCounts,
    cost: add(total.cost, row.cost),
    listCost: add(total.listCost, row.listCost),
    inDoubt: add(total.inDoubt, row.inDoubt),
    bySource,
  };
}

export function dimensionsOf(row: ReportRow, nameOf: NameOf): Partial<Record<ReportDimension, string | null>> {
  const { key } = row.dimensions;
  return key === undefined || key === null ? row.dimensions : { ...row.dimensions, key: nameOf(key) };
}

export function figuresOf(sums: Sums): FiguresJson {
  const bySource = Object.entries(sums.bySource).map(([source, { requests, cost }]) => [
    source,
    { requests, cost_usd: formatUsd(cost) },
  ]);
  return {
    requests: sums.requests,
    tokens: sums.tokens,
    cost_usd: formatUsd(sums.cost),
    list_cost_usd: formatUsd(sums.listCost),
    saving_usd: formatUsd(subtract(sums.listCost, sums.cost)),
    by_source: Object.fromEntries(bySource),
    unpriced_requests: sums.unpricedRequests,
    retries: sums.retries,
    cost_in_doubt_usd: formatUsd(sums.inDoubt),
  };
}
