import { add, formatUsd, noMoney, type PicoUsd } from "../core/money.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { LedgerQueries } from "../ports/ledger.ts";
import { otherNames, type SpendDimension, type SpendRow } from "../ports/spend.ts";
import { isoTime } from "../core/time.ts";
import { keyNamesOf, type NameOf } from "./names.ts";
import { daysBefore, quarterUp, runOutlook, sumsOf, type Sums } from "./outlook.ts";
import { costsJson } from "./report.ts";
import type { OverviewJson, SpanName } from "./shapes/figures.ts";
import type { SpendMemory } from "./spend-memory.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** Buckets that a span is divided into: hours, or days in the time zone. */
const bucketsOf = {
  "24h": { hours: 24 },
  "7d": { hours: 168 },
  "30d": { days: 30 },
  "90d": { days: 90 },
} as const satisfies Record<SpanName, object>;

/** Largest number of names with their own series. All other names share one more series. */
const rowsMax = 8;
/** Largest number of top spenders in the list. */
const topMax = 10;

export interface OverviewTools {
  readonly ledger: LedgerQueries;
  readonly memory: SpendMemory;
  readonly keys: KeyStore;
  readonly calendar: Calendar;
}

export interface OverviewParams {
  readonly span: SpanName;
  readonly by: SpendDimension;
  readonly now: number;
  /** Id of a key, to include only its spending. */
  readonly key?: string;
}

/** Returns an overview: today, this month with its forecast, and a span in buckets. */
export async function runOverview(
  tools: OverviewTools,
  params: OverviewParams,
): Promise<Omit<OverviewJson, "balance">> {
  const { calendar } = tools;
  const { now } = params;
  const frame = await frameOf(tools, params);
  const of = params.key === undefined ? {} : { key: params.key };
  const yesterday = daysBefore(calendar, calendar.spanOf("1d", now).start, 1);
  const inFrame = { since: frame.since, until: frame.until, ...of };
  const keyRows = tools.memory.spend({ by: ["key", "team"], each: "all", ...inFrame }, frame.over);
  const [{ today, month, forecast }, before, series, byKey, byModel] = await Promise.all([
    runOutlook(tools, now, params.key),
    tools.ledger.spend({
      by: [],
      each: "all",
      since: yesterday,
      until: quarterUp(Math.max(yesterday, now - dayMs)),
      ...of,
    }),
    seriesRows(tools, params, { ...frame, ...of }, keyRows),
    keyRows,
    params.by === "model" ? null : tools.memory.spend({ by: ["model"], each: "all", ...inFrame }, frame.over),
  ]);
  const inSpan = sumsOf(series);
  const keysTop = mostExpensive(byKey, topMax);
  const lines = mostExpensive(params.by === "key" ? byKey : series, Infinity);
  const nameOf = await keyNamesOf(
    tools.keys,
    [...keysTop, ...(params.by === "key" ? lines.slice(0, rowsMax) : [])].flatMap(({ name }) => name ?? []),
  );
  return {
    now: isoTime(now),
    time_zone: calendar.timeZone,
    today: {
      since: isoTime(today.start),
      ...spentJson(today.sums),
      yesterday_by_now_usd: formatUsd(sumsOf(before).cost),
    },
    month: { since: isoTime(month.start), until: isoTime(month.end), ...spentJson(month.sums) },
    forecast: forecast && {
      month_end_usd: formatUsd(forecast.monthEnd),
      usd_per_hour: formatUsd(forecast.perHour),
      from: isoTime(forecast.from),
    },
    span: {
      name: params.span,
      since: isoTime(frame.since),
      until: isoTime(now),
      ...spentJson(inSpan),
      unpriced_requests: inSpan.unpricedRequests,
      cost_in_doubt_usd: formatUsd(inSpan.inDoubt),
    },
    series: {
      by: params.by,
      bucket: frame.each,
      starts: frame.starts.map(isoTime),
      ...seriesOf(lines, series, frame.starts, params.by === "key" ? nameOf : (name) => name),
    },
    top: {
      keys: keysTop.map(({ name, own, sums }) => ({
        name: name === null ? null : nameOf(name),
        team: own.at(-1)?.names[1] ?? null,
        ...spenderJson(sums),
      })),
      models: mostExpensive(byModel ?? series, topMax).map(({ name, sums }) => ({ name, ...spenderJson(sums) })),
    },
    empty: await emptiness(tools, inSpan.requests + month.sums.requests),
  };
}

interface Frame {
  readonly each: "hour" | "day";
  readonly since: number;
  readonly until: number;
  /** Start of the present bucket. */
  readonly over: number;
  readonly starts: readonly number[];
}

/**
 * Returns the buckets of a span. The last one is the present hour or day. They are days if retention has removed the hours.
 */
async function frameOf({ calendar, ledger }: OverviewTools, { span, now }: OverviewParams): Promise<Frame> {
  const buckets = bucketsOf[span];
  if ("hours" in buckets) {
    const over = calendar.spanOf("1h", now).start;
    const since = over - (buckets.hours - 1) * hourMs;
    const starts = Array.from({ length: buckets.hours }, (_, index) => since + index * hourMs);
    const pruned = await ledger.prunedUntil();
    if (pruned === null || pruned <= since) return { each: "hour", since, until: over + hourMs, over, starts };
  }
  const today = calendar.spanOf("1d", now);
  const count = "days" in buckets ? buckets.days : buckets.hours / 24;
  const starts = Array.from({ length: count }, (_, index) => daysBefore(calendar, today.start, count - 1 - index));
  return { each: "day", since: starts[0] ?? today.start, until: today.end ?? now + 1, over: today.start, starts };
}

/** Reads the rows of the series. There may be many keys, so the ledger adds up those without their own series. */
async function seriesRows(
  tools: OverviewTools,
  { by }: OverviewParams,
  { each, since, until, over, key }: Frame & { readonly key?: string },
  keyRows: Promise<readonly SpendRow[]>,
) {
  const apart = by === "key" ? { apart: mostExpensive(await keyRows, rowsMax).map(({ name }) => name) } : {};
  return tools.memory.spend({ by: [by], each, since, until, ...(key !== undefined && { key }), ...apart }, over);
}

/** Spending under one name. */
interface Spender {
  readonly name: string | null;
  readonly own: readonly SpendRow[];
  readonly sums: Sums;
}

/** Sums rows by their first name, and returns the most expensive names first. */
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

function seriesOf(lines: readonly Spender[], rows: readonly SpendRow[], starts: readonly number[], nameOf: NameOf) {
  const rowsOf = Map.groupBy(rows, ({ names: [name] }) => name ?? null);
  const line = (names: readonly (string | null)[]) => {
    const own = names.flatMap((name) => rowsOf.get(name) ?? []);
    const at = new Map<number, PicoUsd>();
    for (const { start, cost } of own) at.set(start, add(at.get(start) ?? noMoney, cost));
    const { requests, cost } = sumsOf(own);
    return { cost_usd: formatUsd(cost), requests, values: starts.map((start) => formatUsd(at.get(start) ?? noMoney)) };
  };
  const others = lines.slice(rowsMax);
  return {
    rows: lines.slice(0, rowsMax).map(({ name }) => ({ name: name === null ? null : nameOf(name), ...line([name]) })),
    other:
      others.length === 0 ? null : { count: others.length, ...line([otherNames, ...others.map(({ name }) => name)]) },
  };
}

/** Reports whether keys and charges are still empty, for the first visit of the dashboard. */
async function emptiness({ ledger, keys }: OverviewTools, requests: number) {
  if (requests > 0) return { keys: false, charges: false };
  const [page, all] = await Promise.all([ledger.charges({ limit: 1 }), keys.page({ limit: 1, at: 0 })]);
  return { keys: all.keys.length === 0, charges: page.charges.length === 0 };
}
