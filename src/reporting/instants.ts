import { parseDuration } from "../core/duration.ts";
import type { Calendar } from "../ports/calendar.ts";

export type InstantResult =
  | { readonly ok: true; readonly at: number }
  | { readonly ok: false; readonly problem: string };

/** An instant as people write it: "7d" ago, a date in the time zone (its beginning), or an ISO instant with its zone. */
export function parseInstant(name: string, text: string, now: number, calendar: Calendar): InstantResult {
  const ago = parseDuration(text);
  if (ago !== undefined) return { ok: true, at: Math.max(now - ago, 0) };
  if (isDate(text)) return { ok: true, at: calendar.startOfDate(text) };
  const at = /^\d{4}-\d{2}-\d{2}T[\d:.]+(Z|[+-]\d{2}:\d{2})$/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(at)) return { ok: true, at };
  return {
    ok: false,
    problem: `${name} must be a span such as 24h or 7d, a date such as 2026-11-20, or an instant such as 2026-11-20T08:00:00Z`,
  };
}

/** Whether the text is a day that exists, such as "2026-11-20". */
export function isDate(text: string): boolean {
  if (!/^(19[7-9]\d|[2-9]\d{3})-\d{2}-\d{2}$/.test(text)) return false;
  const parsed = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(parsed.getTime()) && parsed.toISOString().startsWith(text);
}
