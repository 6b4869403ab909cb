import { quartersKeptMs } from "../core/charge.ts";
import { dayMs, hourMs } from "../core/time.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { SpanName } from "./shapes/figures.ts";
import { daysBefore, nextQuarterHour } from "./outlook.ts";

/**
 * Longest span that is divided into hours, in hours, and longest span that is divided into days, in days. Longer spans
 * are divided into months.
 */
const hoursMax = 8 * 24;
const daysMax = 400;

/** Number of hours or days of each named span. It includes the current hour or day. */
const lengthOf = {
  "24h": { hours: 24 },
  "7d": { hours: 168 },
  "30d": { days: 30 },
  "90d": { days: 90 },
} as const satisfies Record<SpanName, object>;

/** Span of an overview in milliseconds since 1970 UTC: half-open, and rounded outwards to whole buckets. */
export interface Frame {
  readonly each: "hour" | "day" | "month";
  readonly since: number;
  readonly until: number;
  /** Start of the bucket that contains the present. Sums before it rarely change. */
  readonly currentStart: number;
  /** Start of each bucket. */
  readonly starts: readonly number[];
}

/** Either a named span that ends now, or a half-open span of instants. */
export type AskedSpan = SpanName | { readonly since: number; readonly until: number };

/**
 * Returns the start of the first day whose hours are certainly in the ledger, even if the ledger once had another time
 * zone.
 */
function hoursFrom(calendar: Calendar, now: number): number {
  return calendar.spanOf("1d", now - quartersKeptMs + dayMs).start;
}

/**
 * Divides a span into hours, days or months of the time zone. Does not divide a span into hours if it starts more than
 * 34 days ago, because retention may have removed the hourly sums.
 */
export function frameOf(calendar: Calendar, asked: AskedSpan, now: number): Frame {
  const { since, until, each } =
    typeof asked === "string" ? namedSpan(calendar, asked, now) : givenSpan(calendar, asked, now);
  if (each === "hour" && since >= hoursFrom(calendar, now)) {
    const count = Math.ceil((until - since) / hourMs);
    const starts = Array.from({ length: count }, (_, index) => since + index * hourMs);
    const currentStart = since + Math.floor(Math.max(now - since, 0) / hourMs) * hourMs;
    return { each, since, until: since + count * hourMs, currentStart, starts };
  }
  const bucket = each === "month" ? "month" : "day";
  const period = bucket === "month" ? "1mo" : "1d";
  const starts: number[] = [];
  let end = calendar.spanOf(period, since).start;
  while (end < until) {
    starts.push(end);
    end = calendar.spanOf(period, end).end ?? until;
  }
  return {
    each: bucket,
    since: starts[0] ?? since,
    until: end,
    currentStart: calendar.spanOf(period, now).start,
    starts,
  };
}

interface Span extends Pick<Frame, "each" | "since" | "until"> {}

function namedSpan(calendar: Calendar, name: SpanName, now: number): Span {
  const length = lengthOf[name];
  if ("hours" in length) {
    const { start } = calendar.spanOf("1h", now);
    return { each: "hour", since: start - (length.hours - 1) * hourMs, until: start + hourMs };
  }
  const today = calendar.spanOf("1d", now);
  return { each: "day", since: daysBefore(calendar, today.start, length.days - 1), until: today.end ?? now + 1 };
}

/** Returns a given span without the part that is in the future, and the size of its buckets. */
function givenSpan(calendar: Calendar, asked: Exclude<AskedSpan, SpanName>, now: number): Span {
  const { since } = asked;
  const until = Math.min(asked.until, now + 1);
  const hour = calendar.spanOf("1h", since).start;
  if (until - hour <= hoursMax * hourMs + dstMs) return { each: "hour", since: hour, until };
  return { each: isInMonths(asked, now) ? "month" : "day", since, until };
}

/** Returns true if a given span is too long to be divided into days. */
export function isInMonths({ since, until }: Exclude<AskedSpan, SpanName>, now: number): boolean {
  return Math.min(until, now + 1) - since > daysMax * dayMs + dstMs;
}

/** Largest time that a clock change can add to a span of days, in milliseconds. */
const dstMs = hourMs;

/**
 * Returns the span before a frame, for a comparison. It is as long as the part of the frame that has passed. A given
 * span that starts with a month, and ends with a month or now, is compared with the same number of months. Any other
 * span is compared with the same number of hours or days.
 */
export function previousSpan(
  calendar: Calendar,
  asked: AskedSpan,
  frame: Frame,
  now: number,
): { readonly since: number; readonly until: number } {
  const { since } = frame;
  const before = shiftOf(calendar, asked, frame, now);
  const start = before(since);
  const end = isOver(asked, now) ? since : Math.min(since, nextQuarterHour(before(now)));
  // Where retention may have removed the hours, only whole days have sums.
  const isPruned = (at: number) => at < hoursFrom(calendar, now);
  return {
    since: isPruned(start) ? calendar.spanOf("1d", start).start : start,
    until: isPruned(end) ? (calendar.spanOf("1d", end - 1).end ?? end) : end,
  };
}

function isOver(asked: AskedSpan, now: number): boolean {
  return typeof asked !== "string" && asked.until < now;
}

/** Returns the function that maps an instant of a frame to the corresponding instant of the span before it. */
function shiftOf(
  calendar: Calendar,
  asked: AskedSpan,
  { each, since, until, starts }: Frame,
  now: number,
): (at: number) => number {
  const startOfMonth = (at: number) => calendar.spanOf("1mo", at).start;
  const endsWithMonthOrNow = startOfMonth(until) === until || !isOver(asked, now);
  if (typeof asked !== "string" && startOfMonth(since) === since && endsWithMonthOrNow) {
    const months = monthsBetween(calendar, since, until);
    return (at) => {
      const first = monthsBefore(calendar, startOfMonth(at), months);
      const day = calendar.spanOf("1d", at).start;
      const days = Math.round((day - startOfMonth(at)) / dayMs);
      const end = calendar.spanOf("1mo", first).end ?? at;
      return Math.min(daysBefore(calendar, first, -days) + (at - day), end);
    };
  }
  if (each === "hour") return (at) => at - starts.length * hourMs;
  const days = Math.round((until - since) / dayMs);
  return (at) => {
    const day = calendar.spanOf("1d", at).start;
    return daysBefore(calendar, day, days) + (at - day);
  };
}

function monthsBetween(calendar: Calendar, since: number, until: number): number {
  let count = 0;
  for (let at = since; at < until; at = calendar.spanOf("1mo", at).end ?? until) count += 1;
  return count;
}

function monthsBefore(calendar: Calendar, start: number, count: number): number {
  let at = start;
  for (let left = count; left > 0; left -= 1) at = calendar.spanOf("1mo", at - 1).start;
  return at;
}
