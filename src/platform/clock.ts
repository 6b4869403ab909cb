import { performance } from "node:perf_hooks";
import type { Clock } from "../ports/clock.ts";
import { Temporal } from "temporal-polyfill";
import { assertNever, invariant } from "../core/assert.ts";
import type { Period, Span } from "../core/budget.ts";
import type { Calendar } from "../ports/calendar.ts";
import { hourMs } from "../core/time.ts";

/** Returns the machine's clock. Its timers do not keep the process running. */
export function systemClock(): Clock {
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    after(ms, callback) {
      const timer = setTimeout(callback, ms);
      timer.unref();
      return { cancel: () => clearTimeout(timer) };
    },
  };
}

/** Returns true for an IANA time zone that this runtime knows; false for bare offsets such as "+02:00". */
export function isTimeZone(text: string): boolean {
  if (!/^[A-Za-z]/.test(text)) return false;
  try {
    Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the windows and days of an IANA time zone. Throws RangeError if `isTimeZone` is false for the text.
 * Caches the latest span of each period, so that another instant inside that span costs only a comparison.
 */
export function calendarOf(timeZone: string): Calendar {
  return new ZoneCalendar(timeZone);
}

interface Day extends Span {
  readonly date: string;
  readonly end: number;
}

const allTime: Span = { start: 0, end: null };

class ZoneCalendar implements Calendar {
  readonly timeZone: string;
  readonly #last = new Map<Period, Span>();
  #lastDay: Day = { date: "", start: 0, end: 0 };

  constructor(timeZone: string) {
    if (!isTimeZone(timeZone)) throw new RangeError(`not a time zone: ${timeZone}`);
    this.timeZone = timeZone;
  }

  spanOf(period: Period, at: number): Span {
    if (period === "total") return allTime;
    const last = this.#last.get(period);
    if (last !== undefined && last.start <= at && (last.end === null || at < last.end)) return last;
    const span = this.#findSpan(period, at);
    invariant(span.start <= at && (span.end === null || at < span.end), `the span of ${at} contains it`);
    this.#last.set(period, span);
    return span;
  }

  dateOf(at: number): string {
    return this.#dayOf(at).date;
  }

  startOfDate(date: string): number {
    return this.#startOf(Temporal.PlainDate.from(date));
  }

  #findSpan(period: Exclude<Period, "total">, at: number): Span {
    switch (period) {
      case "1h":
        return this.#hourOf(at);
      case "1d": {
        const { start, end } = this.#dayOf(at);
        return { start, end };
      }
      case "1w": {
        const date = Temporal.PlainDate.from(this.dateOf(at));
        const monday = date.subtract({ days: date.dayOfWeek - 1 });
        return { start: this.#startOf(monday), end: this.#startOf(monday.add({ days: 7 })) };
      }
      case "1mo": {
        const first = Temporal.PlainDate.from(this.dateOf(at)).with({ day: 1 });
        return { start: this.#startOf(first), end: this.#startOf(first.add({ months: 1 })) };
      }
      default:
        return assertNever(period);
    }
  }

  /**
   * Returns the day whose span contains the instant. A day starts at its first midnight. If a clock change then repeats
   * the last minutes of the earlier day, they belong to the later day.
   */
  #dayOf(at: number): Day {
    if (this.#lastDay.start <= at && at < this.#lastDay.end) return this.#lastDay;
    let date = this.#zoned(at).toPlainDate();
    while (at >= this.#startOf(date.add({ days: 1 }))) date = date.add({ days: 1 });
    while (at < this.#startOf(date)) date = date.subtract({ days: 1 });
    this.#lastDay = { date: date.toString(), start: this.#startOf(date), end: this.#startOf(date.add({ days: 1 })) };
    return this.#lastDay;
  }

  /**
   * Returns the hour of the local clock, cut where the zone's offset changes within the hour. A repeated hour is a
   * separate window. A change by half an hour produces two short windows.
   */
  #hourOf(at: number): Span {
    const offset = this.#offsetMs(at);
    const start = Math.floor((at + offset) / hourMs) * hourMs - offset;
    const end = start + hourMs;
    if (this.#offsetMs(start) === offset && this.#offsetMs(end - 1) === offset) return { start, end };
    const before = this.#zoned(at + 1).getTimeZoneTransition("previous")?.epochMilliseconds ?? start;
    const after = this.#zoned(at).getTimeZoneTransition("next")?.epochMilliseconds ?? end;
    return { start: Math.max(start, before), end: Math.min(end, after) };
  }

  /** Returns the first instant of a date. It is later than midnight if a clock change skips midnight. */
  #startOf(date: Temporal.PlainDate): number {
    return date.toZonedDateTime(this.timeZone).epochMilliseconds;
  }

  #zoned(at: number): Temporal.ZonedDateTime {
    return Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(this.timeZone);
  }

  #offsetMs(at: number): number {
    return this.#zoned(at).offsetNanoseconds / 1_000_000;
  }
}
