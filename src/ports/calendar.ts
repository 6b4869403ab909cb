import type { Period, Span } from "../core/budget.ts";

/** Windows and days of one IANA time zone. */
export interface Calendar {
  readonly timeZone: string;
  /**
   * Returns the half-open window of a period that contains an instant (milliseconds since 1970 UTC). The window of the
   * period `total` starts at 0.
   */
  spanOf(period: Period, at: number): Span;
  /** Returns the local date of an instant, such as "2026-11-20". */
  dateOf(at: number): string;
  /** Returns the instant at which a local date, such as "2026-11-20", begins. */
  startOfDate(date: string): number;
}
