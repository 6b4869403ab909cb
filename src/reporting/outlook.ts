import { forecastOf, spentAtThisRate } from "../core/forecast.ts";
import { sum, type PicoUsd } from "../core/money.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { LedgerQueries } from "../ports/ledger.ts";
import type { SpendRow } from "../ports/spend.ts";
import type { SpendMemory } from "./spend-memory.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const quarterMs = 900_000;

export interface OutlookTools {
  readonly ledger: LedgerQueries;
  readonly memory: SpendMemory;
  readonly calendar: Calendar;
}

export interface Sums {
  readonly requests: number;
  readonly unpricedRequests: number;
  readonly cost: PicoUsd;
  readonly listCost: PicoUsd;
  readonly inDoubt: PicoUsd;
}

/** Spending today and this month, and a forecast for the whole month. Times are in milliseconds since 1970 UTC. */
export interface Outlook {
  readonly today: { readonly start: number; readonly sums: Sums };
  readonly month: { readonly start: number; readonly end: number; readonly sums: Sums };
  /** Forecast at the hourly rate since `from`; null if nothing was spent in the last seven days. */
  readonly forecast: { readonly monthEnd: PicoUsd; readonly perHour: PicoUsd; readonly from: number } | null;
}

/** Computes the outlook. `key` limits it to the spending of the key with this id. */
export async function runOutlook(
  { ledger, memory, calendar }: OutlookTools,
  now: number,
  key?: string,
): Promise<Outlook> {
  const of = key === undefined ? {} : { key };
  const today = calendar.spanOf("1d", now);
  const month = calendar.spanOf("1mo", now);
  const weekStart = daysBefore(calendar, today.start, 7);
  const until = today.end ?? now + 1;
  const days = await memory.spend(
    { by: [], each: "day", since: Math.min(month.start, weekStart), until, ...of },
    today.start,
  );
  const sums = sumsOf(days.filter(({ start }) => start >= month.start));
  const end = month.end ?? now;
  const recent = await recentSpending(
    { ledger, calendar },
    days.filter(({ start }) => start >= weekStart),
    { since: weekStart, now, of },
  );
  return {
    today: { start: today.start, sums: sumsOf(days.filter(({ start }) => start >= today.start)) },
    month: { start: month.start, end, sums },
    forecast: recent && {
      monthEnd: forecastOf(sums.cost, recent, end - now),
      perHour: spentAtThisRate(recent, hourMs),
      from: recent.from,
    },
  };
}

/**
 * Returns spending since this day a week ago, or since the first charge if that is later. A day is not counted whole before
 * its first charge, because that would lower the hourly rate. Null if nothing was spent.
 */
async function recentSpending(
  { ledger, calendar }: Pick<OutlookTools, "ledger" | "calendar">,
  days: readonly SpendRow[],
  { since, now, of }: { readonly since: number; readonly now: number; readonly of: { readonly key?: string } },
) {
  const first = days.find(({ requests }) => requests > 0);
  if (first === undefined) return null;
  const { end } = calendar.spanOf("1d", first.start);
  const isWholeWeek = first.start === since;
  const hours = isWholeWeek
    ? []
    : await ledger.spend({ by: [], each: "hour", since: first.start, until: end ?? quarterUp(now), ...of });
  const from = hours.find(({ requests }) => requests > 0)?.start ?? first.start;
  return { from, spent: sumsOf(days).cost, overMs: Math.max(now - from, hourMs) };
}

export function sumsOf(rows: readonly SpendRow[]): Sums {
  return {
    requests: rows.reduce((total, row) => total + row.requests, 0),
    unpricedRequests: rows.reduce((total, row) => total + row.unpricedRequests, 0),
    cost: sum(rows.map(({ cost }) => cost)),
    listCost: sum(rows.map(({ listCost }) => listCost)),
    inDoubt: sum(rows.map(({ inDoubt }) => inDoubt)),
  };
}

/** Returns the start of the day that is `count` days before the day that begins at `start`. Days are 23 to 25 hours long. */
export function daysBefore(calendar: Calendar, start: number, count: number): number {
  return calendar.spanOf("1d", start - count * dayMs + dayMs / 2).start;
}

export function quarterUp(at: number): number {
  return Math.ceil(at / quarterMs) * quarterMs;
}
