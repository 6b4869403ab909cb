import { add, formatUsd, noMoney, subtract, type PicoUsd } from "../core/money.ts";
import { ceilingPrice } from "../core/price.ts";
import { noTokens, tokenClasses, type TokenCounts } from "../core/usage.ts";
import {
  isTagDimension,
  reportDimensions,
  tagNameOf,
  type LedgerQueries,
  type ReportDimension,
  type ReportQuery,
  type ReportRow,
} from "../ports/ledger.ts";
import { isoTime, type NameOf } from "./names.ts";
import type { FiguresJson, ReportJson } from "./shapes/figures.ts";
import { isTagName } from "../core/keys.ts";

/** Adds up posted charges. Widens the span to the ledger's quarter hours; the answer states the span it covers. */
export async function runReport(
  tools: { readonly ledger: LedgerQueries; readonly nameOf: NameOf },
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
  ledger: LedgerQueries,
  span: Pick<ReportQuery, "since" | "until">,
): Promise<ReportJson["ceiling_price"]> {
  const row = (await ledger.report({ by: ["group"], ...span })).find(
    ({ dimensions }) => dimensions.group === ceilingPrice,
  );
  return row === undefined ? null : { requests: row.requests, cost_usd: formatUsd(row.cost) };
}

/** Sums that rows and their total both contain. */
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

/** Returns cost, list cost, and the saving, which is their difference. */
export function costsJson({ cost, listCost }: Pick<Sums, "cost" | "listCost">) {
  return {
    cost_usd: formatUsd(cost),
    list_cost_usd: formatUsd(listCost),
    saving_usd: formatUsd(subtract(listCost, cost)),
  };
}

export function figuresOf(sums: Sums): FiguresJson {
  const bySource = Object.entries(sums.bySource).map(([source, { requests, cost }]) => [
    source,
    { requests, cost_usd: formatUsd(cost) },
  ]);
  return {
    requests: sums.requests,
    tokens: sums.tokens,
    ...costsJson(sums),
    by_source: Object.fromEntries(bySource),
    unpriced_requests: sums.unpricedRequests,
    retries: sums.retries,
    cost_in_doubt_usd: formatUsd(sums.inDoubt),
  };
}

const quarterHourMs = 15 * 60_000;

/** Widens a span to the quarter hours that the ledger sums by. Times are in milliseconds since 1970 UTC. */
export function quarterHours(since: number, until: number): { readonly since: number; readonly until: number } {
  return {
    since: Math.floor(since / quarterHourMs) * quarterHourMs,
    until: Math.ceil(until / quarterHourMs) * quarterHourMs,
  };
}

/** Reads dimensions from names separated by commas. Returns undefined if a name is unknown or repeated. */
export function readDimensions(text: string): ReportDimension[] | undefined {
  const names = text.split(",").map((name) => name.trim());
  const found = names.map((name) =>
    isTagDimension(name) && isTagName(tagNameOf(name)) ? name : reportDimensions.find((one) => one === name),
  );
  return new Set(names).size === names.length && found.every((name) => name !== undefined) ? found : undefined;
}
