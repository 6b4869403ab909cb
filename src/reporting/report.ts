import { didYouMean } from "../core/fault.ts";
import { add, formatUsd, noMoney, subtract, type PicoUsd } from "../core/money.ts";
import { ceilingPrice } from "../core/price.ts";
import { noTokens, tokenClasses, type TokenCounts } from "../core/usage.ts";
import {
  isOfCharges,
  namedDimension,
  reportDimensions,
  type LedgerQueries,
  type ReportDimension,
  type ReportQuery,
  type ReportRow,
  type TimeSpan,
} from "../ports/ledger.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { RefusalColumn, Refusals } from "../ports/refusals.ts";
import { isoTime, quarterHourMs } from "../core/time.ts";
import type { NameOf } from "./names.ts";
import type { FiguresJson, ReportJson } from "./shapes/figures.ts";
import { isTagName } from "../core/keys.ts";

/**
 * Returns the sums of posted charges. Widens the span to the ledger's quarter hours. The report states the widened
 * span.
 */
export async function runReport(tools: ReportTools, query: ReportQuery): Promise<ReportJson> {
  const span = quarterHours(query.since, query.until);
  const { by } = query;
  const [charged, refused, [all]] = await Promise.all([
    tools.ledger.report({ by, ...span }),
    refusedBy(tools, by, span),
    tools.refusals.count({ by: [], ...span }),
  ]);
  const rows = withRefused(by, charged, refused);
  return {
    since: isoTime(span.since),
    until: isoTime(span.until),
    by: query.by,
    rows: rows.map((row) => ({
      ...dimensionsOf(row, tools.nameOf),
      ...figuresOf(row),
      refused_requests: row.refused,
    })),
    total: { ...figuresOf(rows.reduce(addSums, noSums)), refused_requests: all?.count ?? 0 },
    ceiling_price: await ceilingOf(tools.ledger, span),
    raw_units: (await tools.ledger.rawUnits(span)).map(({ type, units, tasks }) => ({ unit_type: type, units, tasks })),
  };
}

interface ReportTools {
  readonly ledger: LedgerQueries;
  readonly refusals: Pick<Refusals, "count">;
  readonly calendar: Calendar;
  readonly nameOf: NameOf;
}

type Dimensions = ReportRow["dimensions"];

interface RefusedRow {
  readonly dimensions: Dimensions;
  readonly refused: number;
}

/** Counts refusals by a report's dimensions. Returns null if refusals lack one of the dimensions. */
async function refusedBy(
  { refusals, calendar }: ReportTools,
  by: readonly ReportDimension[],
  span: TimeSpan,
): Promise<readonly RefusedRow[] | null> {
  const columns = by.map((dimension) => (isOfCharges(dimension) ? undefined : refusalColumnOf[dimension]));
  if (!columns.every((column) => column !== undefined)) return null;
  const counts = await refusals.count({ by: [...new Set(columns)], ...span });
  return counts.map(({ count, quarter = 0, ...values }) => {
    const valueOf = (dimension: ReportDimension) => {
      if (dimension === "day") return calendar.dateOf(quarter);
      if (dimension === "hour") return isoTime(calendar.spanOf("1h", quarter).start);
      return values[dimension as keyof typeof values] || null;
    };
    return { dimensions: Object.fromEntries(by.map((name) => [name, valueOf(name)])), refused: count };
  });
}

const refusalColumnOf: Readonly<Record<Exclude<(typeof reportDimensions)[number], "user">, RefusalColumn | undefined>> =
  {
    key: "key",
    team: "team",
    model: "model",
    group: undefined,
    day: "quarter",
    hour: "quarter",
  };

/** Adds the counts of refusals to the rows of charges. Adds a row where there are refusals but no charges. */
function withRefused(
  by: readonly ReportDimension[],
  rows: readonly ReportRow[],
  refused: readonly RefusedRow[] | null,
): readonly (ReportRow & { readonly refused: number | null })[] {
  if (refused === null) return rows.map((row) => ({ ...row, refused: null }));
  const nameOf = (dimensions: Dimensions) => by.map((name) => dimensions[name] ?? "").join("\0");
  const merged = new Map(rows.map((row) => [nameOf(row.dimensions), { ...row, refused: 0 }]));
  for (const { dimensions, refused: count } of refused) {
    const name = nameOf(dimensions);
    const row = merged.get(name) ?? { ...noSums, dimensions, refused: 0 };
    merged.set(name, { ...row, refused: row.refused + count });
  }
  return [...merged].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}

/** Returns the sum of charges at the ceiling price of unknown models; null if there are none. */
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

export const noSums: Sums = {
  requests: 0,
  unpricedRequests: 0,
  retries: 0,
  tokens: noTokens,
  cost: noMoney,
  listCost: noMoney,
  inDoubt: noMoney,
  bySource: {},
};

export function addSums(total: Sums, row: Sums): Sums {
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

/**
 * Widens a span to whole quarter hours, because the ledger stores its sums by quarter hours. Times are in milliseconds
 * since 1970 UTC.
 */
export function quarterHours(since: number, until: number): { readonly since: number; readonly until: number } {
  return {
    since: Math.floor(since / quarterHourMs) * quarterHourMs,
    until: Math.ceil(until / quarterHourMs) * quarterHourMs,
  };
}

/** Returns `; did you mean "key"?` for the first unknown name of a list of dimensions; "" if none is similar. */
export function meantDimension(text: unknown): string {
  const names = typeof text === "string" ? text.split(",").map((name) => name.trim()) : [];
  return didYouMean(
    names.find((name) => readDimensions(name) === undefined),
    reportDimensions,
  );
}

/** Reads dimensions from names separated by commas. Returns undefined if a name is unknown or repeated. */
export function readDimensions(text: string): ReportDimension[] | undefined {
  const names = text.split(",").map((name) => name.trim());
  const found = names.map((name) => {
    const named = namedDimension(name);
    if (named === undefined) return reportDimensions.find((one) => one === name);
    return isTagName(named.name) ? (name as ReportDimension) : undefined;
  });
  return new Set(names).size === names.length && found.every((name) => name !== undefined) ? found : undefined;
}
