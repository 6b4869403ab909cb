import { expect, it } from "vitest";
import { isoTime, isoTimeOrNull, parseDuration, quarterHourMs } from "../../../src/core/time.ts";
import { pruneAgeMsMin, quartersKeptMs } from "../../../src/core/charge.ts";

it.each<[string, number | undefined]>([
  ["250ms", 250],
  ["30s", 30_000],
  ["10m", 600_000],
  ["24h", 86_400_000],
  ["7d", 604_800_000],
  ["0s", 0],
  ["999999999ms", 999_999_999],
  ["1000000000ms", undefined],
  ["", undefined],
  ["s", undefined],
  ["1", undefined],
  ["1.5s", undefined],
  ["-1s", undefined],
  ["1 s", undefined],
  ["1w", undefined],
  ["x1s", undefined],
  ["1sx", undefined],
])("%j lasts %j ms", (text, milliseconds) => {
  expect(parseDuration(text)).toBe(milliseconds);
});

it("times are formatted in UTC", () => {
  expect(isoTime(1_795_354_416_001)).toBe("2026-11-22T13:33:36.001Z");
  expect([isoTimeOrNull(0), isoTimeOrNull(null)]).toEqual(["1970-01-01T00:00:00.000Z", null]);
});

it("charges are pruned at least a day after their quarter-hour sums", () => {
  expect([quartersKeptMs, pruneAgeMsMin]).toEqual([35 * 86_400_000, 36 * 86_400_000]);
});

it("a quarter of an hour has 900 seconds", () => {
  expect(quarterHourMs).toBe(parseDuration("900s"));
});
