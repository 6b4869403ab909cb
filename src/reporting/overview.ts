import { forecastOf } from "../core/forecast.ts";
import { add, formatUsd, noMoney, subtract, sum, type PicoUsd } from "../core/money.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { Ledger } from "../ports/ledger.ts";
import { otherNames, type SpendDimension, type SpendRow } from "../ports/spend.ts";
import { isoTime } from "../core/iso-time.ts";
import { keyNamesOf, type NameOf } from "./names.ts";
import type { SpendMemory } from "./spend-memory.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const quarterMs = 900_000;

/** The spans of an overview, with the buckets that they are drawn in: hours, or days of the time zone. */
export const overviewSpans = { "24h": { hours: 24 }, "7d": { hours: 168 }, "30d": { days: 30 }, "90d": { days: 90 } } as const;
export type OverviewSpan = keyof typeof overviewSpans;

/** Names that are drawn by themselves; the others are one more. */
const rowsMax = 8;
/** Top spenders that are listed. */
const topMax = 10;

export interface OverviewTools {
  readonly ledger: Pick<Ledger, "spend" | "charges" | "prunedUntil">;
  readonly memory: SpendMemory;
  readonly keys: KeyStore;
  readonly calendar: Calendar;
}

export interface OverviewWish {
  readonly span: OverviewSpan;
  readonly by: SpendDimension;
  readonly now: number;
  /** Only what this key's id spent. */
  readonly key?: string;
}

/** Everything that an overview shows of the ledger: today, this month and its end, and a span in buckets. */
export async function runOverview(tools: OverviewTools, wish: OverviewWish) {
  const { calendar } = tools;
  const { now } = wish;
  const today = calendar.spanOf("1d", now).start;
  const month = calendar.spanOf("1mo", now);
  const frame = await frameOf(tools, wish);
  const of = wish.key === undefined ? {} : { key: wish.key };
  const tomorrow = calendar.spanOf("1d", now).end ?? now + 1;
  const weekStart = daysBefore(calendar, today, 7);
  const daysSince = Math.min(month.start, weekStart);
  const yesterday = daysBefore(calendar, today, 1);
  const inFrame = { since: frame.since, until: frame.until, ...of };
  const keyRows = tools.memory.spend({ by: ["key", "team"], each: "all", ...inFrame }, frame.over);
  const [days, before, series, byKey, byModel] = await Promise.all([
    tools.memory.spend({ by: [], each: "day", since: daysSince, until: tomorrow, ...of }, today),
    tools.ledger.spend({ by: [], each: "all", since: yesterday, until: quarterUp(Math.max(yesterday, now - dayMs)), ...of }),
    seriesRows(tools, wish, { ...frame, ...of }, keyRows),
    keyRows,
    wish.by === "model" ? null : tools.memory.spend({ by: ["model"], each: "all", ...inFrame }, frame.over),
  ]);
  const monthDays = days.filter(({ start }) => start >= month.start);
  const recent = await recentRate(tools, days.filter(({ start }) => start >= weekStart), { since: weekStart, now, ...of });
  const monthSums = sumsOf(monthDays);
  const inSpan = sumsOf(series);
  const keysTop = dearest(byKey, topMax);
  const lines = dearest(wish.by === "key" ? byKey : series, Infinity);
  const nameOf = await keyNamesOf(tools.keys, [...keysTop, ...(wish.by === "key" ? lines.slice(0, rowsMax) : [])].flatMap(({ name }) => name ?? []));
  return {
    now: isoTime(now),
    time_zone: calendar.timeZone,
    today: {
      since: isoTime(today),
      ...figures(sumsOf(days.filter(({ start }) => start >= today))),
      yesterday_by_now_usd: formatUsd(sumsOf(before).cost),
    },
    month: { since: isoTime(month.start), until: isoTime(month.end ?? now), ...figures(monthSums) },
    forecast: recent && {
      month_end_usd: formatUsd(forecastOf(monthSums.cost, recent, (month.end ?? now) - now)),
      usd_per_hour: formatUsd(((recent.spent * BigInt(hourMs)) / BigInt(recent.overMs)) as PicoUsd),
      from: isoTime(recent.from),
    },
    span: { name: wish.span, since: isoTime(frame.since), until: isoTime(now), ...figures(inSpan), unpriced_requests: inSpan.unpricedRequests },
    series: { by: wish.by, bucket: frame.each, starts: frame.starts.map(isoTime), ...seriesOf(lines, series, frame.starts, wish.by === "key" ? nameOf : (name) => name) },
    top: {
      keys: keysTop.map(({ name, own, sums }) => ({ name: name === null ? null : nameOf(name), team: own.at(-1)?.names[1] ?? null, ...spenderJson(sums) })),
      models: dearest(byModel ?? series, topMax).map(({ name, sums }) => ({ name, ...spenderJson(sums) })),
    },
    empty: await emptiness(tools, inSpan.requests + monthSums.requests),
  };
}

interface Frame {
  readonly each: "hour" | "day";
  readonly since: number;
  readonly until: number;
  /** The beginning of the bucket that runs. */
  readonly over: number;
  readonly starts: readonly number[];
}

/** Hours that are drawn end with the present one; where retention has left days only, days are. */
async function frameOf({ calendar, ledger }: OverviewTools, { span, now }: OverviewWish): Promise<Frame> {
  const wished = overviewSpans[span];
  if ("hours" in wished) {
    const over = calendar.spanOf("1h", now).start;
    const since = over - (wished.hours - 1) * hourMs;
    const starts = Array.from({ length: wished.hours }, (_, index) => since + index * hourMs);
    const pruned = await ledger.prunedUntil();
    if (pruned === null || pruned <= since) return { each: "hour", since, until: over + hourMs, over, starts };
  }
  const today = calendar.spanOf("1d", now);
  const count = "days" in wished ? wished.days : wished.hours / 24;
  const starts = Array.from({ length: count }, (_, index) => daysBefore(calendar, today.start, count - 1 - index));
  return { each: "day", since: starts[0] ?? today.start, until: today.end ?? now + 1, over: today.start, starts };
}

/** The beginning of the day so many days before the one that begins here. Days are 23 to 25 hours long. */
function daysBefore(calendar: Calendar, start: number, count: number): number {
  return calendar.spanOf("1d", start - count * dayMs + dayMs / 2).start;
}

function quarterUp(at: number): number {
  return Math.ceil(at / quarterMs) * quarterMs;
}

/** Keys may be many: those that are not drawn by themselves are added up in the ledger. */
async function seriesRows(tools: OverviewTools, { by }: OverviewWish, { each, since, until, over, key }: Frame & { readonly key?: string }, keyRows: Promise<readonly SpendRow[]>) {
  const apart = by === "key" ? { apart: dearest(await keyRows, rowsMax).map(({ name }) => name) } : {};
  return tools.memory.spend({ by: [by], each, since, until, ...(key !== undefined && { key }), ...apart }, over);
}

interface Sums {
  readonly requests: number;
  readonly unpricedRequests: number;
  readonly cost: PicoUsd;
  readonly listCost: PicoUsd;
}

function sumsOf(rows: readonly SpendRow[]): Sums {
  return {
    requests: rows.reduce((total, row) => total + row.requests, 0),
    unpricedRequests: rows.reduce((total, row) => total + row.unpricedRequests, 0),
    cost: sum(rows.map(({ cost }) => cost)),
    listCost: sum(rows.map(({ listCost }) => listCost)),
  };
}

function figures({ requests, cost, listCost }: Sums) {
  return { requests, cost_usd: formatUsd(cost), list_cost_usd: formatUsd(listCost), saving_usd: formatUsd(subtract(listCost, cost)) };
}

/**
 * What was spent since this day a week ago, or since the first charge where that is later: somebody's first hour is no eighth
 * of a day's rate. Null where nothing was.
 */
async function recentRate({ ledger, calendar }: OverviewTools, days: readonly SpendRow[], { since, now, key }: { readonly since: number; readonly now: number; readonly key?: string }) {
  const first = days.find(({ requests }) => requests > 0);
  if (first === undefined) return null;
  const { end } = calendar.spanOf("1d", first.start);
  const isWholeWeek = first.start === since;
  const hours = isWholeWeek ? [] : await ledger.spend({ by: [], each: "hour", since: first.start, until: end ?? quarterUp(now), ...(key !== undefined && { key }) });
  const from = hours.find(({ requests }) => requests > 0)?.start ?? first.start;
  return { from, spent: sumsOf(days).cost, overMs: Math.max(now - from, hourMs) };
}

/** What was spent under one name. */
interface Spender {
  readonly name: string | null;
  readonly own: readonly SpendRow[];
  readonly sums: Sums;
}

/** By the first of their names, the dearest first. */
function dearest(rows: readonly SpendRow[], count: number): readonly Spender[] {
  return [...Map.groupBy(rows, ({ names: [name] }) => name ?? null)]
    .map(([name, own]) => ({ name, own, sums: sumsOf(own) }))
    .sort(({ sums: a }, { sums: b }) => (a.cost === b.cost ? b.requests - a.requests : a.cost < b.cost ? 1 : -1))
    .slice(0, count);
}

function spenderJson({ requests, cost, listCost }: Sums) {
  return { requests, cost_usd: formatUsd(cost), saving_usd: formatUsd(subtract(listCost, cost)) };
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
    other: others.length === 0 ? null : { count: others.length, ...line([otherNames, ...others.map(({ name }) => name)]) },
  };
}

/** What a first visit finds nothing of. */
async function emptiness({ ledger, keys }: OverviewTools, requests: number) {
  if (requests > 0) return { keys: false, charges: false };
  const [page, all] = await Promise.all([ledger.charges({ limit: 1 }), keys.page({ limit: 1, at: 0 })]);
  return { keys: all.keys.length === 0, charges: page.charges.length === 0 };
}
