import { runs } from "../../support/effort.ts";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { countImages, imageTokens, imageTokensMax, type ImageRule } from "../../../src/core/prompt-text.ts";
import type { Permille } from "../../../src/core/usage.ts";

const tiles: ImageRule = { kind: "tiles", base: 85, tile: 170 };
const patches = (multiplier = 1000, most = 1536, side = 32, longest: number | null = null): ImageRule => ({
  kind: "patches",
  side,
  most,
  multiplier: multiplier as Permille,
  longest,
});
const image = (width: number, height: number, detail = "auto") => ({ size: { width, height }, detail });

describe("an image", () => {
  /** Sources: OpenAI, "Images and vision" and forum topics 1262691 and 1377015; Anthropic, "Vision". */
  it.each([
    [1024, 1024, "high", tiles, 765],
    [2048, 4096, "high", tiles, 1105],
    [4096, 8192, "low", tiles, 85],
    [512, 512, "high", tiles, 255],
    [513, 512, "auto", tiles, 425],
    [100_000, 1, "auto", tiles, 85 + 4 * 170],
    [1024, 1024, "auto", patches(), 1024],
    [1800, 2400, "auto", patches(), 1452],
    [1800, 2400, "low", patches(), 1452],
    [1600, 1600, "high", patches(1200), 1826],
    [1600, 1600, "high", patches(1200, 2500), 3000],
    [1, 1, "auto", patches(2460), 3],
    [100_000, 1, "auto", patches(), 1536],
    [200, 200, "auto", patches(1000, 1568, 28, 1568), 64],
    [1092, 1092, "auto", patches(1000, 1568, 28, 1568), 1521],
    [3000, 4000, "auto", patches(1000, 1568, 28, 1568), 1530],
    [3136, 28, "auto", patches(1000, 1568, 28, 1568), 56],
    [64, 33, "auto", patches(1000, 4), 4],
    [512, 512, "original", tiles, 255],
  ])("of %i x %i at detail %s has the tokens of its rule", (width, height, detail, rule, tokens) => {
    expect(imageTokens(image(width, height, detail), rule)).toBe(tokens);
  });

  it("of unknown size has a count only at low detail in tiles", () => {
    expect(imageTokens({ size: null, detail: "auto" }, tiles)).toBeNull();
    expect(imageTokens({ size: null, detail: "low" }, tiles)).toBe(85);
    expect(imageTokens({ size: null, detail: "low" }, patches())).toBeNull();
    expect(imageTokens(image(64, 64, "original"), patches())).toBeNull();
  });

  it("counts at least one token and at most the maximum of its rule", () => {
    expect(imageTokensMax(tiles)).toBe(1445);
    expect(imageTokensMax(patches(1620))).toBe(2489);
    const side = fc.oneof(fc.integer({ min: 1, max: 4000 }), fc.integer({ min: 1, max: 2 ** 31 }));
    const rules = fc.constantFrom(tiles, patches(), patches(2460, 7), patches(1000, 1568, 28, 1568));
    fc.assert(
      fc.property(side, side, rules, (width, height, rule) => {
        const tokens = imageTokens(image(width, height), rule) ?? 0;
        expect(tokens).toBeGreaterThanOrEqual(1);
        expect(tokens).toBeLessThanOrEqual(imageTokensMax(rule));
      }),
      { numRuns: runs(2000) },
    );
  });
});

describe("the images of a request", () => {
  const model = { imageRule: tiles, imagePartTokens: 1445 };
  const unknown = { size: null, detail: "auto" };

  it("are split into images of known size and images that need a bound", () => {
    expect(countImages([image(1, 1), unknown, image(1024, 1024)], 4, model)).toEqual({
      tokens: 255 + 765,
      sized: 2,
      unsized: 2,
    });
    expect(countImages([image(1, 1)], 1, { ...model, imageRule: null })).toEqual({ tokens: 0, sized: 0, unsized: 1 });
  });

  it("are counted up to the number of image parts, each with at most the model's bound", () => {
    expect(countImages([image(1, 1), image(1, 1)], 1, model)).toEqual({ tokens: 255, sized: 1, unsized: 0 });
    expect(countImages([image(1, 1)], 1, { ...model, imagePartTokens: 9 }).tokens).toBe(9);
  });
});
