import { add, formatUsd, noMoney, type PicoUsd } from "../core/money.ts";
import { frameOf, isInMonths, previousSpan, type AskedSpan, type Frame } from "./frame.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { KeyStore } from "../ports/stores.ts";
import type { LedgerQueries, TimeSpan } from "../ports/ledger.ts";
import { otherNames, type SpendDimension, type SpendFilter, type SpendRow } from "../ports/spend.ts";
import type { Refusals } from "../ports/refusals.ts";
import { dayMs, isoTime } from "../core/time.ts";
import { keyNamesOf, type NameOf } from "./names.ts";
import { daysBefore, nextQuarterHour, runOutlook, sumsOf, type Sums } from "./outlook.ts";
import { costsJson } from "./report.ts";
import type { OverviewJson } from "./shapes/figures.ts";
import type { SpendMemory } from "./spend-memory.ts";

/** Largest number of names with a separate series. One more series contains the sum of all other names. */
const seriesMax = 8;
/** Largest number of top spenders in the list. */
const topMax = 10;
/** Largest number of parts into which `thenBy` splits a series. */
const partsMax = 8;

interface OverviewTools {
  readonly ledger: LedgerQueries;
  readonly memory: SpendMemory;
  readonly keys: KeyStore;
  readonly refusals: Pick<Refusals, "count">;
  readonly calendar: Calendar;
}

export interface OverviewParams {
  readonly span: AskedSpan;
  readonly by: SpendDimension;
  /** Second dimension. Splits each series of `by`. */
  readonly thenBy?: SpendDimension | undefined;
  /** True to compare the span with the previous one. */
  readonly compares: boolean;
  readonly now: number;
  /** Spending to include. */
  readonly filter: SpendFilter;
}

/** Returns an overview: today, this month with its forecast, and a span in buckets. */
export async function runOverview(
  tools: OverviewTools,
  params: OverviewParams,
): Promise<Omit<OverviewJson, "balance" | "at_risk">> {
  const { calendar } = tools;
  const { now, filter, thenBy } = params;
  const asked = await withinLedger(tools, params);
  const frame = frameOf(calendar, asked, now);
  const spentBy = (by: readonly SpendDimension[], { since, until }: TimeSpan = frame) =>
    tools.memory.spend({ by, each: "all", since, until, ...filter }, frame.currentStart);
  const keyRows = spentBy(["key", "team"]);
  const previous = params.compares ? previousSpan(calendar, asked, frame, now) : null;
  const [{ today, month, forecast }, yesterday, series, byKey, byModel, byBoth, inPrevious, refused] =
    await Promise.all([
      runOutlook(tools, now, filter),
      tools.ledger.spend({ by: [], each: "all", ...yesterdayByNow(calendar, now), ...filter }),
      seriesRows(tools, params, frame, keyRows),
      keyRows,
      params.by === "model" ? null : spentBy(["model"]),
      thenBy === undefined ? null : spentBy([params.by, thenBy]),
      previous && spentBy([], previous),
      refusedToday(tools, params),
    ]);
  const inSpan = sumsOf(series);
  const keysTop = mostExpensive(byKey, topMax);
  const lines = mostExpensive(params.by === "key" ? byKey : series, Infinity);
  const parts = byBoth && partsOf(byBoth, lines.slice(0, seriesMax));
  const keyIds = [
    ...keysTop.map(({ name }) => name),
    ...(params.by === "key" ? lines.slice(0, seriesMax).map(({ name }) => name) : []),
    ...(thenBy === "key" ? [...(parts?.values() ?? [])].flat().map(({ name }) => name) : []),
  ];
  const nameOf = await keyNamesOf(tools.keys, keyIds);
  const nameIn = (dimension: SpendDimension | undefined) => (name: string) =>
    dimension === "key" ? nameOf(name) : name;
  return {
    now: isoTime(now),
    time_zone: calendar.timeZone,
    today: {
      since: isoTime(today.start),
      ...spentJson(today.sums),
      yesterday_by_now_usd: formatUsd(sumsOf(yesterday).cost),
    },
    month: { since: isoTime(month.start), until: isoTime(month.end), ...spentJson(month.sums) },
    forecast: forecast && {
      month_end_usd: formatUsd(forecast.monthEnd),
      usd_per_hour: formatUsd(forecast.perHour),
      from: isoTime(forecast.from),
    },
    refused_today: refused,
    span: {
      name: typeof params.span === "string" ? params.span : null,
      since: isoTime(frame.since),
      until: isoTime(Math.min(now, frame.until)),
      ...spentJson(inSpan),
      unpriced_requests: inSpan.unpricedRequests,
      cost_in_doubt_usd: formatUsd(inSpan.inDoubt),
      previous: previous && inPrevious && previousJson(previous, sumsOf(inPrevious)),
    },
    series: {
      by: params.by,
      then_by: thenBy ?? null,
      bucket: frame.each,
      starts: frame.starts.map(isoTime),
      ...seriesOf(lines, series, frame.starts, nameIn(params.by), (name) =>
        parts === null ? {} : { parts: (parts.get(name) ?? []).map((part) => partJson(part, nameIn(thenBy))) },
      ),
    },
    top: {
      keys: keysTop.map(({ name, own, sums }) => ({
        name: name === null ? null : nameOf(name),
        team: own.at(-1)?.names[1] ?? null,
        ...spenderJson(sums),
      })),
      models: mostExpensive(byModel ?? series, topMax).map(({ name, sums }) => ({ name, ...spenderJson(sums) })),
    },
    empty: await emptyLists(tools, now, inSpan.requests + month.sums.requests),
  };
}

/** Returns the span from the start of yesterday to 24 hours ago, rounded up to a quarter hour. */
function yesterdayByNow(calendar: Calendar, now: number): TimeSpan {
  const since = daysBefore(calendar, calendar.spanOf("1d", now).start, 1);
  return { since, until: nextQuarterHour(Math.max(since, now - dayMs)) };
}

/**
 * Removes the time before the ledger's first day from a span that is long enough to be divided into months. Returns any
 * other span unchanged.
 */
async function withinLedger({ ledger, calendar }: OverviewTools, { span, now }: OverviewParams): Promise<AskedSpan> {
  if (typeof span === "string" || !isInMonths(span, now)) return span;
  const lastDay = calendar.spanOf("1d", Math.min(span.until - 1, now)).start;
  const firstDay = Math.min((await ledger.firstDay()) ?? lastDay, lastDay);
  return { ...span, since: Math.max(span.since, firstDay) };
}

/** Returns the number of requests that were refused since the start of the day. */
async function refusedToday({ refusals, calendar }: OverviewTools, { filter, now }: OverviewParams): Promise<number> {
  const filters = (["team", "model"] as const).filter((name) => filter[name] !== undefined);
  const counts = await refusals.count({
    by: filters,
    ...(filter.key !== undefined && { key: filter.key }),
    since: calendar.spanOf("1d", now).start,
    until: now + 1,
  });
  const wanted = counts.filter((row) => filters.every((name) => row[name] === filter[name]));
  return wanted.reduce((sum, { count }) => sum + count, 0);
}

/**
 * Returns the rows of the series. There may be many keys, so the ledger sums the keys that have no series of their own.
 */
async function seriesRows(
  tools: OverviewTools,
  { by, filter }: OverviewParams,
  { each, since, until, currentStart }: Frame,
  keyRows: Promise<readonly SpendRow[]>,
) {
  const apart = by === "key" ? { apart: mostExpensive(await keyRows, seriesMax).map(({ name }) => name) } : {};
  return tools.memory.spend({ by: [by], each, since, until, ...filter, ...apart }, currentStart);
}

/** Spending under one name. */
interface Spender {
  readonly name: string | null;
  readonly own: readonly SpendRow[];
  readonly sums: Sums;
}

/** Sums rows by their first name. Returns at most `count` names, the most expensive first. */
function mostExpensive(rows: readonly SpendRow[], count: number): readonly Spender[] {
  return [...Map.groupBy(rows, ({ names: [name] }) => name ?? null)]
    .map(([name, own]) => ({ name, own, sums: sumsOf(own) }))
    .sort(({ sums: a }, { sums: b }) => (a.cost === b.cost ? b.requests - a.requests : a.cost < b.cost ? 1 : -1))
    .slice(0, count);
}

function spentJson(sums: Sums) {
  return { requests: sums.requests, ...costsJson(sums) };
}

function spenderJson(sums: Sums) {
  const { list_cost_usd: _list, ...spent } = spentJson(sums);
  return spent;
}

/** Returns the most expensive names of the second dimension for each name in `lines`. */
function partsOf(rows: readonly SpendRow[], lines: readonly Spender[]): ReadonlyMap<string | null, readonly Spender[]> {
  const rowsOf = Map.groupBy(rows, ({ names: [name] }) => name ?? null);
  const second = (own: readonly SpendRow[]) => own.map((row) => ({ ...row, names: row.names.slice(1) }));
  return new Map(lines.map(({ name }) => [name, mostExpensive(second(rowsOf.get(name) ?? []), partsMax)]));
}

function partJson({ name, sums }: Spender, nameOf: NameOf) {
  return { name: name === null ? null : nameOf(name), cost_usd: formatUsd(sums.cost) };
}

function previousJson(span: TimeSpan, { requests, cost }: Sums) {
  return { since: isoTime(span.since), until: isoTime(span.until), requests, cost_usd: formatUsd(cost) };
}

function seriesOf(
  lines: readonly Spender[],
  rows: readonly SpendRow[],
  starts: readonly number[],
  nameOf: NameOf,
  partsJson: (name: string | null) => Pick<OverviewJson["series"]["rows"][number], "parts">,
) {
  const rowsOf = Map.groupBy(rows, ({ names: [name] }) => name ?? null);
  const line = (names: readonly (string | null)[]) => {
    const own = names.flatMap((name) => rowsOf.get(name) ?? []);
    const at = new Map<number, PicoUsd>();
    for (const { start, cost } of own) at.set(start, add(at.get(start) ?? noMoney, cost));
    const { requests, cost } = sumsOf(own);
    return { cost_usd: formatUsd(cost), requests, values: starts.map((start) => formatUsd(at.get(start) ?? noMoney)) };
  };
  const others = lines.slice(seriesMax);
  return {
    rows: lines
      .slice(0, seriesMax)
      .map(({ name }) => ({ name: name === null ? null : nameOf(name), ...line([name]), ...partsJson(name) })),
    other:
      others.length === 0 ? null : { count: others.length, ...line([otherNames, ...others.map(({ name }) => name)]) },
  };
}

/**
 * Returns true for `keys` if there is no live key, and for `charges` if the ledger has no charge. Without a charge, the
 * dashboard shows the first steps.
 */
async function emptyLists({ ledger, keys }: OverviewTools, now: number, requests: number) {
  if (requests > 0) return { keys: false, charges: false };
  const [page, live] = await Promise.all([
    ledger.charges({ limit: 1 }),
    keys.page({ limit: 1, state: "live", at: now }),
  ]);
  return { keys: live.keys.length === 0, charges: page.charges.length === 0 };
}
