import { forecastOf, costAtRecentRate } from "../core/forecast.ts";
import { sum } from "../core/money.ts";
import { dayMs, hourMs, quarterHourMs } from "../core/time.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { LedgerQueries } from "../ports/ledger.ts";
import type { SpendFilter, SpendRow } from "../ports/spend.ts";
import type { SpendMemory } from "./spend-memory.ts";

interface OutlookTools {
  readonly ledger: LedgerQueries;
  readonly memory: SpendMemory;
  readonly calendar: Calendar;
}

/**
 * Returns the spending of today and of this month, and a forecast for the whole month. `filter` selects the spending to
 * include. Times are in milliseconds since 1970 UTC.
 */
export async function runOutlook({ ledger, memory, calendar }: OutlookTools, now: number, filter: SpendFilter = {}) {
  const today = calendar.spanOf("1d", now);
  const month = calendar.spanOf("1mo", now);
  const weekStart = daysBefore(calendar, today.start, 7);
  const until = today.end ?? now + 1;
  const days = await memory.spend(
    { by: [], each: "day", since: Math.min(month.start, weekStart), until, ...filter },
    today.start,
  );
  const sums = sumsOf(days.filter(({ start }) => start >= month.start));
  const end = month.end ?? now;
  const recent = await recentSpending(
    { ledger, calendar },
    days.filter(({ start }) => start >= weekStart),
    { since: weekStart, now, filter },
  );
  return {
    today: { start: today.start, sums: sumsOf(days.filter(({ start }) => start >= today.start)) },
    month: { start: month.start, end, sums },
    /** Forecast at the hourly rate since `from`; null without requests in the last seven days. */
    forecast: recent && {
      monthEnd: forecastOf(sums.cost, recent, end - now),
      perHour: costAtRecentRate(recent, hourMs),
      from: recent.from,
    },
  };
}

/**
 * Returns the spending since the start of the day seven days ago. If the first request is on a later day, starts with
 * the hour of that request, because the empty hours before it would lower the hourly rate. Returns null if there are no
 * requests.
 */
async function recentSpending(
  { ledger, calendar }: Pick<OutlookTools, "ledger" | "calendar">,
  days: readonly SpendRow[],
  { since, now, filter }: { readonly since: number; readonly now: number; readonly filter: SpendFilter },
) {
  const first = days.find(({ requests }) => requests > 0);
  if (first === undefined) return null;
  const { end } = calendar.spanOf("1d", first.start);
  const isWholeWeek = first.start === since;
  const hours = isWholeWeek
    ? []
    : await ledger.spend({ by: [], each: "hour", since: first.start, until: end ?? nextQuarterHour(now), ...filter });
  const from = hours.find(({ requests }) => requests > 0)?.start ?? first.start;
  return { from, spent: sumsOf(days).cost, spanMs: Math.max(now - from, hourMs) };
}

export type Sums = ReturnType<typeof sumsOf>;

export function sumsOf(rows: readonly SpendRow[]) {
  return {
    requests: rows.reduce((total, row) => total + row.requests, 0),
    unpricedRequests: rows.reduce((total, row) => total + row.unpricedRequests, 0),
    cost: sum(rows.map(({ cost }) => cost)),
    listCost: sum(rows.map(({ listCost }) => listCost)),
    inDoubt: sum(rows.map(({ inDoubt }) => inDoubt)),
  };
}

/**
 * Returns the start of the day that is `count` days before the day that begins at `start`. Days are 23 to 25 hours
 * long.
 */
export function daysBefore(calendar: Calendar, start: number, count: number): number {
  return calendar.spanOf("1d", start - count * dayMs + dayMs / 2).start;
}

/** Rounds an instant up to a quarter hour. */
export function nextQuarterHour(at: number): number {
  return Math.ceil(at / quarterHourMs) * quarterHourMs;
}
