import * as fc from "fast-check";
import { expect, it } from "vitest";
import type { Period, Span } from "../../../src/core/budget.ts";
import { calendarOf } from "../../../src/platform/clock.ts";
import { runs } from "../../support/effort.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const twoYearsMs = 731 * dayMs;

/**
 * Zones with unusual rules: offsets of half and quarter hours, summer time of half an hour, clock changes at midnight
 * (which is then missing or repeated), negative summer time, a skipped day.
 */
const oddZones = [
  "UTC",
  "Europe/Berlin",
  "Europe/Dublin",
  "America/New_York",
  "America/St_Johns",
  "America/Sao_Paulo",
  "America/Asuncion",
  "America/Havana",
  "America/Santiago",
  "America/Caracas",
  "Asia/Kathmandu",
  "Asia/Kolkata",
  "Asia/Tehran",
  "Asia/Beirut",
  "Asia/Amman",
  "Asia/Gaza",
  "Asia/Pyongyang",
  "Africa/Casablanca",
  "Africa/Cairo",
  "Atlantic/Azores",
  "Australia/Lord_Howe",
  "Australia/Adelaide",
  "Australia/Eucla",
  "Antarctica/Troll",
  "Pacific/Apia",
  "Pacific/Chatham",
  "Pacific/Kiritimati",
  "Pacific/Norfolk",
  "Pacific/Marquesas",
];
const zones = fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom(...oddZones) },
  { weight: 1, arbitrary: fc.constantFrom(...Intl.supportedValuesOf("timeZone")) },
);

/** Starts of two years between 1990 and 2036. */
const beginnings = fc.integer({ min: Date.UTC(1990, 0, 1), max: Date.UTC(2034, 11, 31) });
const periods = fc.constantFrom<Exclude<Period, "total">>("1h", "1d", "1w", "1mo");

/** Returns a function for the local time as if it were UTC. Uses Intl, which the calendar does not use. */
function wallOf(zone: string): (at: number) => number {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    calendar: "iso8601",
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
  return (at) => {
    const part = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
    const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = part;
    const ms = ((at % 1000) + 1000) % 1000;
    return Date.UTC(year, month - 1, day, hour, minute, second, ms);
  };
}

/** Returns why a span does not begin with its local period, or null if it does. */
function faultOfStart(period: Exclude<Period, "total">, { start }: Span, wall: (at: number) => number): string | null {
  const [here, before] = [wall(start), wall(start - 1)];
  const isClockChange = here - start !== before - (start - 1);
  const unit = period === "1h" ? hourMs : dayMs;
  // At a clock change, the hour or day begins with its first instant that exists.
  if (here % unit !== 0 && !isClockChange) return "begins within its hour or day";
  if (period === "1h") return null;
  if (Math.floor(before / dayMs) >= Math.floor(here / dayMs)) return "begins after its first instant";
  const date = new Date(here);
  if (period === "1w" && date.getUTCDay() !== 1) return "begins on no Monday";
  if (period === "1mo" && date.getUTCDate() !== 1) return "begins on no first of a month";
  return null;
}

/** Samples a random instant in each span, to test the cache of the last span, too. */
it("windows over two years in any zone have no gap or overlap, and begin with their local period", () => {
  fc.assert(
    fc.property(zones, periods, beginnings, fc.integer({ min: 1, max: 999 }), (zone, period, from, permille) => {
      const calendar = calendarOf(zone);
      const wall = wallOf(zone);
      // Checking the hours of two years would take too long, so only twenty days are checked.
      const until = from + (period === "1h" ? 20 * dayMs : twoYearsMs);
      let at = from;
      let last: Span | null = null;
      while (at < until) {
        const span = calendar.spanOf(period, at);
        const { start, end } = span;
        const label = `${zone} ${period} ${new Date(start).toISOString()}`;
        if (end === null || start > at || end <= at) throw new Error(`${label} does not contain ${at}`);
        if (last !== null && last.end !== start)
          throw new Error(`${label} does not follow ${new Date(last.end ?? 0).toISOString()}`);
        const fault = faultOfStart(period, span, wall);
        if (fault !== null) throw new Error(`${label} ${fault}`);
        last = span;
        at = end + Math.floor(((calendar.spanOf(period, end).end ?? end) - end - 1) * (permille / 1000));
      }
    }),
    { numRuns: runs(300) },
  );
});

it("hours around every clock change in two years have no gap and begin with their local hour, in unusual zones", () => {
  fc.assert(
    fc.property(fc.constantFrom(...oddZones), beginnings, (zone, from) => {
      const calendar = calendarOf(zone);
      const wall = wallOf(zone);
      for (const change of changesIn(wall, from, from + twoYearsMs)) {
        let at = change - 3 * hourMs;
        let end = calendar.spanOf("1h", at).start;
        while (at < change + 3 * hourMs) {
          const span = calendarOf(zone).spanOf("1h", at);
          expect(span).toEqual(calendar.spanOf("1h", at));
          expect([span.start, (span.end ?? 0) - span.start <= hourMs, faultOfStart("1h", span, wall)]).toEqual([
            end,
            true,
            null,
          ]);
          end = span.end ?? 0;
          at = end;
        }
      }
    }),
    { numRuns: runs(60) },
  );
});

it("a calendar finds the same windows for instants in any order", () => {
  fc.assert(
    fc.property(zones, periods, fc.array(beginnings, { minLength: 2, maxLength: 12 }), (zone, period, instants) => {
      const jumping = calendarOf(zone);
      for (const at of instants) expect(jumping.spanOf(period, at)).toEqual(calendarOf(zone).spanOf(period, at));
    }),
    { numRuns: runs(150) },
  );
});

/** Returns the instants of a zone's clock changes. */
function changesIn(wall: (at: number) => number, from: number, until: number): number[] {
  const offset = (at: number) => wall(at) - at;
  const found: number[] = [];
  for (let at = from; at < until; at += 14 * dayMs) {
    let [low, high] = [at, at + 14 * dayMs];
    if (offset(low) === offset(high)) continue;
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (offset(middle) === offset(low)) low = middle;
      else high = middle;
    }
    found.push(high);
  }
  return found;
}
