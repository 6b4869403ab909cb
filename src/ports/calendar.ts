import type { Period, Span } from "../core/budget.ts";

/** Windows and days of one IANA time zone. */
export interface Calendar {
  readonly timeZone: string;
  /** The half-open window of this period that holds the instant (milliseconds since 1970 UTC). `total` starts at 0. */
  spanOf(period: Period, at: number): Span;
  /** The local date of an instant, "2026-11-20". */
  dateOf(at: number): string;
  /** The instant at which a local date ("2026-11-20") begins. */
  startOfDate(date: string): number;
}
