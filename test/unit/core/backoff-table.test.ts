import { expect, it } from "vitest";
import { nextTryAt, pauseMsMax, abandonAfterMs, type FailedTry } from "../../../src/core/backoff.ts";

const failed: FailedTry = { createdAt: 1000, tries: 1, now: 5000, retryAfterMs: null, random: 0 };

it.each<[Partial<FailedTry>, number | null]>([
  [{}, 5000],
  [{ random: 0.5 }, 3750],
  [{ tries: 2 }, 10_000],
  [{ tries: 10 }, 2_560_000],
  [{ tries: 11 }, 3_600_000],
  [{ tries: 5000 }, 3_600_000],
  [{ retryAfterMs: 5001 }, 5001],
  [{ retryAfterMs: 4999 }, 5000],
  [{ retryAfterMs: 3_600_001 }, 3_600_000],
  [{ now: 1000 + 86_400_000 - 5000 }, 5000],
  [{ now: 1000 + 86_400_000 - 4999 }, null],
])("the pause after the failed try %j is %j ms (null: no further try)", (changes, pause) => {
  const one = { ...failed, ...changes };
  expect(nextTryAt(one)).toBe(pause === null ? null : one.now + pause);
  expect([pauseMsMax, abandonAfterMs]).toEqual([3_600_000, 86_400_000]);
});
