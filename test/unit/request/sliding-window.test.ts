import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SlidingWindow } from "../../../src/request/sliding-window.ts";

/** Reference implementation that keeps every added amount with its time. */
class ReferenceWindow {
  readonly #added: { at: number; second: number; amount: number }[] = [];

  add(amount: number, at: number): void {
    this.#added.push({ at, second: Math.floor(at / 1000), amount });
  }

  sumOfLast(ms: number, now: number): number {
    return this.#sum(({ at }) => at > now - ms);
  }

  /** Sums amounts to the end of their second plus 60 seconds. */
  sumBySeconds(now: number): number {
    return this.#sum(({ second }) => now < (second + 61) * 1000);
  }

  #sum(counts: (added: { at: number; second: number }) => boolean): number {
    return this.#added.filter(counts).reduce((sum, { amount }) => sum + amount, 0);
  }
}

const step = fc.record({ passMs: fc.oneof(fc.nat(1500), fc.nat(70_000), fc.nat(500_000)), amount: fc.nat(1000) });

describe("a sliding window", () => {
  it("sums all of the last 60 seconds, and nothing older than 61", () => {
    fc.assert(
      fc.property(fc.nat(10_000_000), fc.array(step, { maxLength: 60 }), (start, steps) => {
        const window = new SlidingWindow();
        const reference = new ReferenceWindow();
        let now = start + 0.25;
        for (const { passMs, amount } of steps) {
          now += passMs;
          window.add(amount, now);
          reference.add(amount, now);
          const sum = window.sum(now);
          expect(sum).toBe(reference.sumBySeconds(now));
          expect(sum).toBeGreaterThanOrEqual(reference.sumOfLast(60_000, now));
          expect(sum).toBeLessThanOrEqual(reference.sumOfLast(61_001, now));
        }
      }),
    );
  });

  it("states to the millisecond when its sum will be low enough", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 40 }), fc.nat(20_000), (steps, most) => {
        const window = new SlidingWindow();
        let now = 0;
        for (const { passMs, amount } of steps) window.add(amount, (now += passMs));
        const wait = window.msUntilAtMost(most, now);
        if (wait > 0) expect(window.sum(now + wait - 1)).toBeGreaterThan(most);
        expect(window.sum(now + wait)).toBeLessThanOrEqual(most);
        expect(window.msUntilAtMost(most, now + wait)).toBe(0);
      }),
    );
  });

  it("is corrected only if the amount still counts", () => {
    const window = new SlidingWindow();
    const second = window.add(100, 5_900);
    window.add(10, 30_000);
    window.correct(second, -60, 65_999);
    expect(window.sum(65_999)).toBe(50);
    window.correct(second, -40, 66_000);
    expect(window.sum(66_000)).toBe(10);
    expect(window.sum(90_999)).toBe(10);
    expect(window.sum(91_000)).toBe(0);
    expect(window.msUntilAtMost(0, 91_000)).toBe(0);
  });
});
