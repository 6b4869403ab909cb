import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { periods, type Period } from "../../../src/core/budget.ts";
import { calendarOf, isTimeZone } from "../../../src/platform/clock.ts";
import { runs } from "../../support/effort.ts";

const at = (iso: string) => Date.parse(iso);
const span = (zone: string, period: Period, iso: string) => {
  const { start, end } = calendarOf(zone).spanOf(period, at(iso));
  return [new Date(start).toISOString(), end === null ? null : new Date(end).toISOString()];
};

describe("a calendar's spans", () => {
  it.each<[string, Period, string, string, string]>([
    ["UTC", "1h", "2026-11-20T15:20:00Z", "2026-11-20T15:00:00.000Z", "2026-11-20T16:00:00.000Z"],
    ["UTC", "1w", "2026-11-20T15:20:00Z", "2026-11-16T00:00:00.000Z", "2026-11-23T00:00:00.000Z"],
    ["UTC", "1mo", "2026-11-20T15:20:00Z", "2026-11-01T00:00:00.000Z", "2026-12-01T00:00:00.000Z"],
    // Days with a clock change have 23 or 25 hours.
    ["Europe/Berlin", "1d", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00.000Z", "2026-03-29T22:00:00.000Z"],
    ["Europe/Berlin", "1d", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00.000Z", "2026-10-25T23:00:00.000Z"],
    ["Europe/Berlin", "1mo", "2026-03-29T12:00:00Z", "2026-02-28T23:00:00.000Z", "2026-03-31T22:00:00.000Z"],
    // The repeated hour gives two windows.
    ["America/New_York", "1h", "2026-11-01T05:30:00Z", "2026-11-01T05:00:00.000Z", "2026-11-01T06:00:00.000Z"],
    ["America/New_York", "1h", "2026-11-01T06:30:00Z", "2026-11-01T06:00:00.000Z", "2026-11-01T07:00:00.000Z"],
    ["America/New_York", "1w", "2026-11-01T06:30:00Z", "2026-10-26T04:00:00.000Z", "2026-11-02T05:00:00.000Z"],
    // 45 minutes off the full hour.
    ["Asia/Kathmandu", "1h", "2026-11-20T15:20:00Z", "2026-11-20T15:15:00.000Z", "2026-11-20T16:15:00.000Z"],
    ["Asia/Kathmandu", "1d", "2026-11-20T15:20:00Z", "2026-11-19T18:15:00.000Z", "2026-11-20T18:15:00.000Z"],
    // The clock goes back by half an hour, so the second half of the hour repeats.
    ["Australia/Lord_Howe", "1h", "2026-04-04T14:50:00Z", "2026-04-04T14:00:00.000Z", "2026-04-04T15:00:00.000Z"],
    ["Australia/Lord_Howe", "1h", "2026-04-04T15:10:00Z", "2026-04-04T15:00:00.000Z", "2026-04-04T15:30:00.000Z"],
    ["Australia/Lord_Howe", "1h", "2026-10-03T15:40:00Z", "2026-10-03T15:30:00.000Z", "2026-10-03T16:00:00.000Z"],
    // Midnight does not exist.
    ["America/Sao_Paulo", "1d", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00.000Z", "2018-11-05T02:00:00.000Z"],
    ["America/Sao_Paulo", "1d", "2018-11-03T12:00:00Z", "2018-11-03T03:00:00.000Z", "2018-11-04T03:00:00.000Z"],
    ["Asia/Beirut", "1d", "2026-03-29T12:00:00Z", "2026-03-28T22:00:00.000Z", "2026-03-29T21:00:00.000Z"],
    // The clock went from 00:01 back to 23:01, so the day's last minutes repeated.
    ["America/St_Johns", "1d", "2010-11-07T03:00:00Z", "2010-11-07T02:30:00.000Z", "2010-11-08T03:30:00.000Z"],
    // The time zone skipped a date.
    ["Pacific/Apia", "1d", "2011-12-30T09:00:00Z", "2011-12-29T10:00:00.000Z", "2011-12-30T10:00:00.000Z"],
  ])("in %s: %s around %s", (zone, period, iso, start, end) => {
    expect(span(zone, period, iso)).toEqual([start, end]);
  });

  it('of the period "total" are one span without an end', () => {
    expect(calendarOf("Europe/Berlin").spanOf("total", at("2026-11-20T15:20:00Z"))).toEqual({ start: 0, end: null });
  });

  const zones = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Asia/Beirut",
    "America/St_Johns",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Antarctica/Troll",
  ];
  const instants = fc.integer({ min: at("1990-01-01T00:00:00Z"), max: at("2036-12-31T00:00:00Z") });

  it("contain their instant, touch their neighbors, and are the same for each instant in them", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...zones),
        fc.constantFrom(...periods),
        instants,
        fc.double({ min: 0, max: 1, noNaN: true }),
        (zone, period, instant, share) => {
          const calendar = calendarOf(zone);
          const { start, end } = calendar.spanOf(period, instant);
          if (end === null) return;
          expect(start).toBeLessThanOrEqual(instant);
          expect(end).toBeGreaterThan(instant);
          const inside = start + Math.floor((end - start - 1) * share);
          expect(calendarOf(zone).spanOf(period, inside)).toEqual({ start, end });
          expect(calendar.spanOf(period, end).start).toBe(end);
          expect(calendar.spanOf(period, start - 1).end).toBe(start);
        },
      ),
      { numRuns: runs(1500) },
    );
  });

  it("of days begin at the start of their date", () => {
    fc.assert(
      fc.property(fc.constantFrom(...zones), instants, (zone, instant) => {
        const calendar = calendarOf(zone);
        expect(calendar.startOfDate(calendar.dateOf(instant))).toBe(calendar.spanOf("1d", instant).start);
      }),
    );
  });
});

describe("time zone names", () => {
  it.each([
    ["UTC", true],
    ["Europe/Berlin", true],
    ["Mars/Olympus", false],
    ["+02:00", false],
    ["", false],
  ])("%j is valid: %s", (text, known) => {
    expect(isTimeZone(text)).toBe(known);
  });
});
