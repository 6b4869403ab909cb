import { assert, double, integer, option, property, record } from "fast-check";
import { expect, it } from "vitest";
import { nextTryAt, pauseMsMax, abandonAfterMs } from "../../../src/core/backoff.ts";

const failed = { createdAt: 0, now: 0, tries: 1, retryAfterMs: null, random: 0 };

it("doubles the pause from 5 s up to an hour, and randomly shortens it by up to half", () => {
  const pauses = [1, 2, 3, 4, 10, 11, 40, 5000].map((tries) => nextTryAt({ ...failed, tries }));
  expect(pauses).toEqual([5_000, 10_000, 20_000, 40_000, 2_560_000, 3_600_000, 3_600_000, 3_600_000]);
  expect(nextTryAt({ ...failed, random: 0.5 })).toBe(3_750);
});

it("respects the pause that the receiver asks for, up to an hour", () => {
  expect(nextTryAt({ ...failed, retryAfterMs: 30_000 })).toBe(30_000);
  expect(nextTryAt({ ...failed, retryAfterMs: 1 })).toBe(5_000);
  expect(nextTryAt({ ...failed, retryAfterMs: 1e12 })).toBe(pauseMsMax);
});

it("never pauses for less than 2.5 s or more than an hour, and stops after a day", () => {
  const some = record({
    createdAt: integer({ min: 0, max: 1e6 }),
    tries: integer({ min: 1, max: 60 }),
    now: integer({ min: 0, max: 2 * abandonAfterMs }),
    retryAfterMs: option(integer({ min: 0, max: 1e9 })),
    random: double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  });
  assert(
    property(some, (each) => {
      const next = nextTryAt(each);
      if (next === null) {
        expect(each.now + pauseMsMax).toBeGreaterThan(each.createdAt + abandonAfterMs);
        return;
      }
      expect(next - each.now).toBeGreaterThanOrEqual(2_500);
      expect(next - each.now).toBeLessThanOrEqual(pauseMsMax);
      expect(next).toBeLessThanOrEqual(each.createdAt + abandonAfterMs);
    }),
  );
});
