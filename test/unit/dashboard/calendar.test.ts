import { describe, expect, it } from "vitest";
import { addDays, boundsOf, dayOf, isDay, rangeFrom } from "../../../src/dashboard/calendar.ts";

function boundsIn(search: string) {
  return boundsOf(rangeFrom(new URLSearchParams(search), "7d"));
}

describe("the range in a page's address", () => {
  it.each([
    ["", { since: "7d", until: null }],
    ["span=yesterday", { since: "yesterday", until: "today" }],
    ["span=last-month", { since: "last-month", until: "month" }],
    ["since=2026-11-01&until=2026-11-09", { since: "2026-11-01", until: "2026-11-10" }],
    ["since=2026-02-27&until=2026-02-28", { since: "2026-02-27", until: "2026-03-01" }],
    ["span=30d&until=2026-12-31", { since: null, until: "2027-01-01" }],
    [
      "since=2026-11-09T14:00:00Z&until=2026-11-09T15:00:00Z",
      { since: "2026-11-09T14:00:00Z", until: "2026-11-09T15:00:00Z" },
    ],
  ])("%j is sent to the server as %j", (search, bounds) => {
    expect(boundsIn(search)).toEqual(bounds);
  });

  it("ignores values that are not valid", () => {
    for (const search of ["span=1y", "span=toString", "since=yesterday-ish", "until="])
      expect(boundsIn(search)).toEqual({ since: "7d", until: null });
  });

  it("is all time if the page has no default", () => {
    expect(boundsOf(rangeFrom(new URLSearchParams(), null))).toEqual({ since: null, until: null });
  });
});

describe("days", () => {
  it("are counted across months and years", () => {
    expect([addDays("2026-12-31", 1), addDays("2028-03-01", -1)]).toEqual(["2027-01-01", "2028-02-29"]);
  });

  it("depend on the time zone", () => {
    const at = Date.parse("2026-11-09T23:30:00Z");
    expect([dayOf(at, "Europe/Berlin"), dayOf(at, "America/New_York")]).toEqual(["2026-11-10", "2026-11-09"]);
  });

  it("are accepted only as valid dates without a time", () => {
    expect(["2026-11-09", "2026-13-09", "2026-11-09T00:00:00Z", null].map(isDay)).toEqual([true, false, false, false]);
  });
});
