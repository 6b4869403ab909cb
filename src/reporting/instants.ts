import { parseDuration } from "../core/time.ts";
import type { Period } from "../core/budget.ts";
import type { Calendar } from "../ports/calendar.ts";

type Days = Pick<Calendar, "spanOf" | "startOfDate">;

export type InstantResult =
  | { readonly ok: true; readonly at: number }
  | { readonly ok: false; readonly problem: string };

/** Words for the start of a period, each with the period and how many periods ago it is. */
const words = new Map<string, readonly [Period, ago: number]>([
  ["today", ["1d", 0]],
  ["yesterday", ["1d", 1]],
  ["week", ["1w", 0]],
  ["month", ["1mo", 0]],
  ["last-month", ["1mo", 1]],
]);

/** Describes the accepted forms of an instant, for help and error texts. */
export const instantForms =
  "a span such as 24h or 7d, today, yesterday, week, month or last-month (their beginning), a date such as 2026-11-20, or an instant such as 2026-11-20T08:00:00Z";

/**
 * Parses an instant as people write it: a span before now such as "7d", the start of a day such as "yesterday" or a date in
 * the time zone, or an ISO instant with its zone.
 */
export function parseInstant(name: string, text: string, now: number, calendar: Days): InstantResult {
  const ago = parseDuration(text);
  if (ago !== undefined) return { ok: true, at: Math.max(now - ago, 0) };
  const word = words.get(text);
  if (word !== undefined) return { ok: true, at: beginningOf(word, now, calendar) };
  if (isDate(text)) return { ok: true, at: calendar.startOfDate(text) };
  const at = /^\d{4}-\d{2}-\d{2}T[\d:.]+(Z|[+-]\d{2}:\d{2})$/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(at)) return { ok: true, at };
  return { ok: false, problem: `${name} must be ${instantForms}` };
}

function beginningOf([period, ago]: readonly [Period, number], now: number, calendar: Days): number {
  const { start } = calendar.spanOf(period, now);
  return ago === 0 ? start : beginningOf([period, ago - 1], start - 1, calendar);
}

/** Returns true if the text has one of the forms of `instantForms`. */
export function isInstant(text: string): boolean {
  const anywhere: Days = {
    spanOf: () => ({ start: 1, end: null }),
    startOfDate: () => 0,
  };
  return parseInstant("", text, 0, anywhere).ok;
}

/** Returns true if the text is an existing day such as "2026-11-20". */
export function isDate(text: string): boolean {
  if (!/^(19[7-9]\d|[2-9]\d{3})-\d{2}-\d{2}$/.test(text)) return false;
  const parsed = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(parsed.getTime()) && parsed.toISOString().startsWith(text);
}
