import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { PicoUsd } from "../../../src/core/money.ts";
import type { Permille } from "../../../src/core/usage.ts";
import {
  exceedsStated,
  isWorstCase,
  mustPause,
  nextCover,
  nextStep,
  reserveTokens,
  statedSlack,
  stepBeyondStated,
  tokensCovered,
  tokensInFlight,
  type Slices,
  type HoldProgress,
} from "../../../src/core/slices.ts";

const slices: Slices = { sliceTokens: 1024, outputTokensMax: 16_384 };
const at = (more: Partial<HoldProgress>): HoldProgress => ({
  covered: 1024,
  counted: 0,
  uncounted: 0,
  refused: false,
  ...more,
});

describe("a stream under its first slice of 1024", () => {
  it.each<[string, Partial<HoldProgress>, ReturnType<typeof nextStep>, boolean]>([
    ["waits with nothing written", {}, "wait", false],
    ["waits below half", { counted: 511 }, "wait", false],
    ["extends its hold at half", { counted: 512 }, "extend", false],
    ["counts if its bytes may reach half", { counted: 100, uncounted: 412 }, "count", false],
    ["extends its hold if a count near half would change little", { counted: 400, uncounted: 112 }, "extend", false],
    ["waits after a refused extension at half", { counted: 512, refused: true }, "wait", false],
    [
      "pauses for a count after a refused extension if it may be at three quarters",
      { counted: 600, uncounted: 168, refused: true },
      "count",
      true,
    ],
    [
      "pauses and extends its hold again after a refused extension at three quarters",
      { counted: 768, refused: true },
      "extend",
      true,
    ],
    ["pauses beyond three quarters before the extension is answered", { counted: 800 }, "extend", true],
    ["waits if it holds the worst case", { covered: 16_384, counted: 16_400 }, "wait", false],
  ])("%s", (_, more, step, pauses) => {
    expect(nextStep(at(more), slices)).toBe(step);
    expect(mustPause(at(more), slices)).toBe(pauses);
  });

  it("keeps a quarter for output in flight, and extends its hold by a full slice", () => {
    expect(reserveTokens(slices)).toBe(256);
    expect(nextCover(at({ counted: 512 }), slices)).toEqual({ wanted: 2048, least: 1281 });
    expect(nextCover(at({ covered: 16_000, counted: 15_900 }), slices)).toEqual({ wanted: 16_384, least: 16_257 });
    expect(nextCover(at({ counted: 9000 }), slices)).toEqual({ wanted: 10_024, least: 9257 });
  });

  it("leaves at most the reserve in flight when it is ended", () => {
    expect(tokensInFlight({ tokens: 100, tookMs: 1000 }, 60, slices)).toBe(6);
    expect(tokensInFlight({ tokens: 100, tookMs: 1000 }, 61, slices)).toBe(7);
    expect(tokensInFlight({ tokens: 100, tookMs: 1000 }, 60_000, slices)).toBe(256);
    expect(tokensInFlight({ tokens: 100, tookMs: 0 }, 1, slices)).toBe(256);
  });
});

const anySlices = fc
  .record({ sliceTokens: fc.integer({ min: 2, max: 5000 }), more: fc.integer({ min: 0, max: 50_000 }) })
  .map(({ sliceTokens, more }): Slices => ({ sliceTokens, outputTokensMax: sliceTokens + more }));
const anyProgress = fc.record({
  covered: fc.integer({ min: 0, max: 60_000 }),
  counted: fc.integer({ min: 0, max: 60_000 }),
  uncounted: fc.integer({ min: 0, max: 5000 }),
  refused: fc.boolean(),
});

describe("any stream", () => {
  it("continues after the smallest extension, and no extension exceeds the worst case", () => {
    fc.assert(
      fc.property(anySlices, anyProgress, (some, progress) => {
        const { wanted, least } = nextCover(progress, some);
        expect(least).toBeLessThanOrEqual(wanted);
        expect(wanted).toBeLessThanOrEqual(some.outputTokensMax);
        expect(mustPause({ ...progress, covered: least }, some)).toBe(false);
        expect(mustPause({ ...progress, covered: wanted }, some)).toBe(false);
        // A paused stream always has a next step.
        if (mustPause(progress, some)) expect(nextStep(progress, some)).not.toBe("wait");
        if (isWorstCase(progress, some)) expect(nextStep(progress, some)).toBe("wait");
      }),
    );
  });

  it("need not pause after its steps, and is stopped only if its budget is used up", () => {
    fc.assert(
      fc.property(
        anySlices,
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 300 }),
        fc.integer({ min: 0, max: 20_000 }),
        (some, pieces, room) => {
          let left = room;
          const progress = { covered: some.sliceTokens, counted: 0, uncounted: 0, refused: false };
          for (const tokens of pieces) {
            // Four bytes per token, as in prose. Uncounted bytes use the hold like tokens.
            progress.uncounted += 4 * tokens;
            let asked = 0;
            for (let step = nextStep(progress, some); step !== "wait"; step = nextStep(progress, some)) {
              expect(asked++).toBeLessThan(10);
              if (step === "count") {
                progress.counted += progress.uncounted / 4;
                progress.uncounted = 0;
                continue;
              }
              const { wanted, least } = nextCover(progress, some);
              const granted = Math.min(wanted - progress.covered, left);
              if (granted >= least - progress.covered) {
                left -= granted;
                progress.covered += granted;
                progress.refused = false;
              } else if (progress.refused) {
                // Refused and stopped: all but the reserve and the last few tokens are used.
                const written = progress.counted + progress.uncounted;
                expect(written).toBeGreaterThanOrEqual(progress.covered - reserveTokens(some));
                expect(left).toBeLessThan(least - progress.covered);
                return;
              } else progress.refused = true;
            }
            expect(mustPause(progress, some)).toBe(false);
          }
        },
      ),
    );
  });

  it("has a hold that covers the most tokens it pays for", () => {
    const price = fc.record({
      fixed: fc.bigInt({ min: 0n, max: 10n ** 9n }),
      rate: fc.bigInt({ min: 0n, max: 10n ** 8n }),
      least: fc.bigInt({ min: 0n, max: 10n ** 10n }),
    });
    fc.assert(
      fc.property(
        price,
        fc.integer({ min: 1, max: 20_000 }),
        fc.bigInt({ min: 0n, max: 10n ** 12n }),
        ({ fixed, rate, least }, max, amount) => {
          const costAt = (tokens: number) => {
            const cost = fixed + BigInt(tokens) * rate;
            return (cost < least ? least : cost) as PicoUsd;
          };
          const covered = tokensCovered(amount as PicoUsd, costAt, max);
          expect(covered).toBeGreaterThanOrEqual(0);
          expect(covered).toBeLessThanOrEqual(max);
          if (covered > 0) expect(costAt(covered)).toBeLessThanOrEqual(amount);
          if (covered < max) expect(costAt(covered + 1)).toBeGreaterThan(amount);
        },
      ),
    );
  });
});

describe("a stream with a stated maximum", () => {
  it.each<[string, Partial<HoldProgress>, ReturnType<typeof stepBeyondStated>]>([
    ["waits at exactly the maximum", { counted: 1024 }, "wait"],
    ["extends its hold above the maximum", { counted: 1025 }, "extend"],
    ["waits if its bytes may reach exactly the maximum", { counted: 24, uncounted: 1000 }, "wait"],
    ["counts if its bytes may exceed the maximum", { counted: 24, uncounted: 1001 }, "count"],
    ["waits if it holds the worst case", { covered: 16_384, counted: 16_400 }, "wait"],
  ])("%s", (_, more, step) => {
    expect(stepBeyondStated(at(more), slices)).toBe(step);
    expect(exceedsStated(at(more), slices)).toBe(step !== "wait");
  });

  it.each<[number, number, number]>([
    [1024, 1000, 103 + 64],
    [1024, 1100, 103 + 103 + 64],
    [0, 1500, 64],
    [1, 1000, 1 + 64],
  ])("of %i tokens, at a tokenizer factor of %i permille, may exceed it by %i", (stated, factor, slack) => {
    expect(statedSlack(stated, factor as Permille)).toBe(slack);
  });
});
