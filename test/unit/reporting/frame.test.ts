import { describe, expect, it } from "vitest";
import { calendarOf } from "../../../src/platform/clock.ts";
import { frameOf, previousSpan, type AskedSpan } from "../../../src/reporting/frame.ts";

const berlin = calendarOf("Europe/Berlin");
const at = (text: string) => Date.parse(text);
const shown = (instant: number) => new Date(instant).toISOString().slice(0, 16);
const between = (since: string, until: string): AskedSpan => ({ since: at(since), until: at(until) });

/** Returns the frame of a span, and the span before it, as text. */
function framed(asked: AskedSpan, now: string, { calendar = berlin } = {}) {
  const frame = frameOf(calendar, asked, at(now));
  const previous = previousSpan(calendar, asked, frame, at(now));
  return {
    each: frame.each,
    buckets: frame.starts.length,
    span: [shown(frame.since), shown(frame.until)],
    previous: [shown(previous.since), shown(previous.until)],
  };
}

describe("a given span", () => {
  it("of at most eight days is divided into whole hours", () => {
    expect(framed(between("2026-11-10T08:20:00Z", "2026-11-10T11:01:00Z"), "2026-11-20T09:00:00Z")).toEqual({
      each: "hour",
      buckets: 4,
      span: ["2026-11-10T08:00", "2026-11-10T12:00"],
      previous: ["2026-11-10T04:00", "2026-11-10T08:00"],
    });
  });

  it("has 25 hours on the day when clocks go back, and 23 on the day when they go forward", () => {
    const now = "2026-11-20T09:00:00Z";
    expect(framed(between("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"), now)).toMatchObject({
      each: "hour",
      buckets: 25,
    });
    expect(framed(between("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"), "2026-04-02T09:00:00Z")).toMatchObject({
      each: "hour",
      buckets: 23,
    });
    // Eight days with the longer one are still hours.
    expect(framed(between("2026-10-18T22:00:00Z", "2026-10-26T23:00:00Z"), now)).toMatchObject({
      each: "hour",
      buckets: 193,
    });
  });

  it("of up to 400 days is divided into days of the time zone, even across clock changes", () => {
    expect(framed(between("2026-10-19T22:00:00Z", "2026-10-30T23:00:00Z"), "2026-11-20T09:00:00Z")).toEqual({
      each: "day",
      buckets: 11,
      span: ["2026-10-19T22:00", "2026-10-30T23:00"],
      previous: ["2026-10-08T22:00", "2026-10-19T22:00"],
    });
    expect(framed(between("2026-10-19T23:10:00Z", "2026-10-30T23:10:00Z"), "2026-11-20T09:00:00Z")).toMatchObject({
      buckets: 12,
      span: ["2026-10-19T22:00", "2026-10-31T23:00"],
    });
    expect(framed(between("2025-10-16T22:00:00Z", "2026-11-19T23:00:00Z"), "2026-11-20T09:00:00Z")).toMatchObject({
      each: "day",
      buckets: 399,
    });
  });

  it("of more than 400 days is divided into months", () => {
    expect(framed(between("2025-01-15T00:00:00Z", "2026-11-20T09:00:00Z"), "2026-11-20T09:00:00Z")).toMatchObject({
      each: "month",
      buckets: 23,
      span: ["2024-12-31T23:00", "2026-11-30T23:00"],
      previous: ["2023-01-31T23:00", expect.any(String)],
    });
  });

  it("ends with the current bucket", () => {
    expect(framed(between("2026-11-19T23:00:00Z", "2027-01-01T00:00:00Z"), "2026-11-20T09:10:00Z")).toMatchObject({
      buckets: 11,
      span: ["2026-11-19T23:00", "2026-11-20T10:00"],
    });
  });

  it("that starts more than 34 days ago is divided into days, because its hours may be gone", () => {
    const now = "2026-11-20T09:00:00Z";
    expect(framed(between("2026-10-16T22:00:00Z", "2026-10-17T22:00:00Z"), now)).toMatchObject({
      each: "hour",
      previous: ["2026-10-15T22:00", "2026-10-16T22:00"],
    });
    expect(framed(between("2026-10-15T08:00:00Z", "2026-10-16T09:00:00Z"), now)).toEqual({
      each: "day",
      buckets: 2,
      span: ["2026-10-14T22:00", "2026-10-16T22:00"],
      previous: ["2026-10-12T22:00", "2026-10-14T22:00"],
    });
    // The span before starts where hours are no longer kept, so it starts with a whole day.
    expect(framed(between("2026-10-17T08:00:00Z", "2026-10-17T20:00:00Z"), now)).toMatchObject({
      each: "hour",
      previous: ["2026-10-15T22:00", "2026-10-17T08:00"],
    });
  });
});

describe("the span before", () => {
  it("of whole months is the same number of months", () => {
    const march = between("2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z");
    expect(framed(march, "2026-11-20T09:00:00Z")).toMatchObject({
      buckets: 31,
      previous: ["2026-01-31T23:00", "2026-02-28T23:00"],
    });
    expect(framed(between("2026-06-30T22:00:00Z", "2026-09-30T22:00:00Z"), "2026-11-20T09:00:00Z").previous).toEqual([
      "2026-03-31T22:00",
      "2026-06-30T22:00",
    ]);
  });

  it("of this month so far ends at the same day and time of last month, but within last month", () => {
    const since = "2026-02-28T23:00:00Z";
    const previousOn = (now: string) => framed(between(since, now), now).previous;
    expect(previousOn("2026-03-10T09:07:00Z")).toEqual(["2026-01-31T23:00", "2026-02-10T09:15"]);
    expect(previousOn("2026-03-30T08:00:00Z")).toEqual(["2026-01-31T23:00", "2026-02-28T23:00"]);
    expect(previousOn("2026-03-03T09:00:00Z")).toEqual(["2026-01-31T23:00", "2026-02-03T09:00"]);
  });

  it("of other spans is the same number of days, at the same local time", () => {
    expect(framed("30d", "2026-11-20T09:00:00Z").previous).toEqual(["2026-09-21T22:00", "2026-10-21T08:00"]);
    // These thirty days begin on November 1 by chance, so they are not a month.
    expect(framed("30d", "2026-11-30T09:00:00Z").previous).toEqual(["2026-10-01T22:00", "2026-10-31T09:00"]);
    expect(framed("24h", "2026-11-20T09:10:00Z")).toEqual({
      each: "hour",
      buckets: 24,
      span: ["2026-11-19T10:00", "2026-11-20T10:00"],
      previous: ["2026-11-18T10:00", "2026-11-19T09:15"],
    });
  });
});

it("time zones with quarter-hour offsets or half-hour clock changes still have whole buckets", () => {
  const kathmandu = calendarOf("Asia/Kathmandu");
  const now = "2026-11-20T09:00:00Z";
  expect(framed(between("2026-11-10T18:15:00Z", "2026-11-11T18:15:00Z"), now, { calendar: kathmandu })).toMatchObject({
    each: "hour",
    buckets: 24,
    previous: ["2026-11-09T18:15", "2026-11-10T18:15"],
  });
  const lordHowe = calendarOf("Australia/Lord_Howe");
  // The day has 24.5 hours, because its clocks are set back by half an hour.
  expect(
    framed(between("2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z"), "2026-04-12T09:00:00Z", { calendar: lordHowe }),
  ).toMatchObject({
    each: "hour",
    buckets: 25,
  });
});
