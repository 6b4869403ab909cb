import { didYouMean } from "../core/fault.ts";
import { parseDuration } from "../core/time.ts";
import type { Period } from "../core/budget.ts";
import type { Calendar } from "../ports/calendar.ts";

type Days = Pick<Calendar, "spanOf" | "startOfDate">;

type InstantResult = { readonly ok: true; readonly at: number } | { readonly ok: false; readonly problem: string };

/** Words that name the start of a period. Each has its period, and the number of periods before the current one. */
const words = new Map<string, readonly [Period, ago: number]>([
  ["today", ["1d", 0]],
  ["yesterday", ["1d", 1]],
  ["week", ["1w", 0]],
  ["month", ["1mo", 0]],
  ["last-month", ["1mo", 1]],
]);

/** Accepted forms of an instant, for help and error texts. */
export const instantForms =
  "a span such as 24h or 7d, today, yesterday, week, month or last-month (their beginning), a date such as 2026-11-20, or an instant such as 2026-11-20T08:00:00Z";

/** Returns `; did you mean "last-month"?` for a mistyped word; "" for other texts. */
export function meantWord(text: unknown): string {
  return didYouMean(text, [...words.keys()]);
}

/**
 * Parses an instant that a person wrote. Accepts a span before now such as "7d", a word such as "yesterday", a date in
 * the time zone, or an ISO instant with its zone. Replaces an instant before 1970 by the start of 1970.
 */
export function parseInstant(name: string, text: string, now: number, calendar: Days): InstantResult {
  const ago = parseDuration(text);
  if (ago !== undefined) return { ok: true, at: Math.max(now - ago, 0) };
  const word = words.get(text);
  if (word !== undefined) return { ok: true, at: beginningOf(word, now, calendar) };
  if (isDate(text)) return { ok: true, at: calendar.startOfDate(text) };
  const at = /^\d{4}-\d{2}-\d{2}T[\d:.]+(Z|[+-]\d{2}:\d{2})$/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(at)) return { ok: true, at: Math.max(at, 0) };
  return { ok: false, problem: `${name} must be ${instantForms}, not "${text}"${meantWord(text)}` };
}

/** Time span as a person wrote it. Each end may be missing. */
export interface SpanTexts {
  readonly since?: string | undefined;
  readonly until?: string | undefined;
}

type EndOf<Text> = Text extends string ? number : number | undefined;
type SpanOf<Texts extends SpanTexts> = { readonly since: EndOf<Texts["since"]>; readonly until: EndOf<Texts["until"]> };

export type SpanResult<Texts extends SpanTexts> =
  | ({ readonly ok: true } & SpanOf<Texts>)
  | { readonly ok: false; readonly param: keyof SpanTexts; readonly problem: string };

/**
 * Parses a time span. Returns a problem if a text is not an instant, or if the span ends before it begins. `prefix`:
 * text before the names of parameters in problems, such as "--".
 */
export function parseSpan<Texts extends SpanTexts>(
  given: Texts,
  prefix: string,
  now: number,
  calendar: Days,
): SpanResult<Texts> {
  const span: { since?: number; until?: number } = {};
  for (const param of ["since", "until"] as const) {
    const text = given[param];
    if (text === undefined) continue;
    const read = parseInstant(prefix + param, text, now, calendar);
    if (!read.ok) return { ok: false, param, problem: read.problem };
    span[param] = read.at;
  }
  const { since, until } = span;
  if (since === undefined || until === undefined || since <= until)
    return { ok: true, ...({ since, until } as SpanOf<Texts>) };
  const [first, last] = [given.since, given.until].map((text) => (text === "0s" ? "now" : `"${text}"`));
  const problem = `${prefix}until must not be before ${prefix}since: ${last} is before ${first}`;
  return { ok: false, param: "until", problem };
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
