import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { costOf } from "../../../src/core/cost.ts";
import { addChoice, addUsage, laterUsage, readings, usagesIn, withChoices } from "../../../src/core/several-usages.ts";
import {
  completionClasses,
  noTokens,
  promptClasses,
  tokenClasses,
  type TokenCounts,
  type Usage,
} from "../../../src/core/usage.ts";
import { runs } from "../../support/effort.ts";
import { prices } from "../../support/price-arbitraries.ts";

const usage = (tokens: Partial<TokenCounts>, more: Partial<Usage> = {}): Usage => ({
  tokens: { ...noTokens, ...tokens },
  clamped: false,
  ...more,
});
const stated = (...usages: readonly Usage[]): Usage | undefined =>
  usages.reduce<Usage | undefined>(laterUsage, undefined);
/** Counts of each reading that are not 0, and the doubts. */
const read = (...usages: readonly Usage[]) => {
  const all = stated(...usages);
  const counts = (all === undefined ? [] : readings(all)).map(({ tokens }) =>
    Object.fromEntries(tokenClasses.filter((name) => tokens[name] > 0).map((name) => [name, tokens[name]])),
  );
  return [counts, all?.doubts ?? []];
};

describe("several usages of one answer", () => {
  it.each<[string, readonly Usage[], object[], string[]]>([
    ["are none if none is stated", [], [], []],
    ["are one if only one is stated", [usage({ input: 1 })], [{ input: 1 }], []],
    [
      "are the last one if the counts grow, as cumulative usage does",
      [usage({ input: 9, output: 1 }), usage({ input: 9, output: 5 }), usage({ input: 9, output: 5, reasoning: 2 })],
      [{ input: 9, output: 5, reasoning: 2 }],
      [],
    ],
    [
      "keep a larger earlier one as a rival of each side",
      [usage({ input: 5000, output: 50 }), usage({ input: 1, output: 1 })],
      [
        { input: 1, output: 1 },
        { input: 1, output: 50 },
        { input: 5000, output: 1 },
        { input: 5000, output: 50 },
      ],
      ["usage_contradicts"],
    ],
    [
      "never mix the classes of two",
      [usage({ input: 1000, output: 5 }), usage({ input: 100, cached_input: 900, output: 5 })],
      [
        { input: 100, cached_input: 900, output: 5 },
        { input: 1000, output: 5 },
      ],
      ["usage_contradicts"],
    ],
    [
      "are in doubt if the later one has less in a class, although the total is the same",
      [usage({ input: 1000, cached_input: 9000, output: 5 }), usage({ input: 10_000, output: 5 })],
      [
        { input: 10_000, output: 5 },
        { input: 1000, cached_input: 9000, output: 5 },
      ],
      ["usage_contradicts"],
    ],
    [
      "are in doubt if the classes of the output differ",
      [usage({ input: 9, output: 5 }), usage({ input: 9, output: 2, reasoning: 3 })],
      [
        { input: 9, output: 2, reasoning: 3 },
        { input: 9, output: 5 },
      ],
      ["usage_contradicts"],
    ],
    [
      "forget a rival that a later one covers",
      [usage({ input: 50 }), usage({ input: 1 }), usage({ input: 60, output: 1 })],
      [{ input: 60, output: 1 }],
      [],
    ],
    [
      "keep only the largest of shrinking ones",
      [9, 8, 7, 6].map((output) => usage({ output })),
      [{ output: 6 }, { output: 9 }],
      ["usage_contradicts"],
    ],
    [
      "keep a side that a later one does not state",
      [usage({ input: 9000 }, { unstated: "completion" }), usage({ output: 500 }, { unstated: "prompt" })],
      [{ input: 9000, output: 500 }],
      [],
    ],
    [
      "keep a side of which a later one states 0",
      [usage({ input: 9, cached_input: 1 }), usage({ output: 500 }), usage({ input: 10 })],
      [
        { input: 10, output: 500 },
        { input: 9, cached_input: 1, output: 500 },
      ],
      ["usage_contradicts"],
    ],
    [
      "keep the rivals of a side that a later one does not state",
      [usage({ input: 9 }), usage({ input: 5 }), usage({ output: 7 }, { unstated: "prompt" })],
      [
        { input: 5, output: 7 },
        { input: 9, output: 7 },
      ],
      ["usage_contradicts"],
    ],
  ])("%s", (_, usages, counts, doubts) => {
    expect(read(...usages)).toEqual([counts, doubts]);
  });

  it("keep the doubts of all, except a contradiction that a later one resolves", () => {
    const first = usage({ input: 1 }, { doubts: ["hosted_tool", "usage_contradicts"] });
    expect(stated(first, usage({ input: 2 }, { doubts: ["usage_unknown_class"] }))?.doubts).toEqual([
      "hosted_tool",
      "usage_unknown_class",
    ]);
  });

  it("state both sides if one states the prompt and the other the output", () => {
    const prompt = usage({ input: 9, cache_write: 1 }, { unstated: "completion", lacksCacheLifetime: true });
    const output = usage({ output: 5 }, { unstated: "prompt", wroteOnlyText: true });
    const both = usage({ input: 9, cache_write: 1, output: 5 }, { lacksCacheLifetime: true, wroteOnlyText: true });
    expect(stated(prompt, output)).toEqual(both);
    expect(stated(output, prompt)).toEqual(both);
    expect(stated(output, output)?.unstated).toBe("prompt");
  });

  it("in two units are each kept for models with that unit", () => {
    const seconds = usage({ audio_input: 3 }, { unit: "second" });
    for (const both of [stated(seconds, usage({ input: 9 })), stated(usage({ input: 9 }), seconds)]) {
      expect(usagesIn("second", both, []).map(({ tokens }) => tokens)).toEqual([{ ...noTokens, audio_input: 3 }]);
      expect(usagesIn("token", both, []).map(({ tokens }) => tokens)).toEqual([{ ...noTokens, input: 9 }]);
    }
  });

  it("keep what only one side states: text alone, and cache writes of an unknown lifetime", () => {
    const before = usage({ cache_write: 9, output: 1 }, { lacksCacheLifetime: true });
    const later = usage({ cache_write: 1, output: 5 }, { wroteOnlyText: true });
    const all = readings(stated(before, later) as Usage);
    expect(all).toMatchObject([
      { tokens: { cache_write: 1, output: 5 }, wroteOnlyText: true },
      { tokens: { cache_write: 9, output: 5 }, wroteOnlyText: true, lacksCacheLifetime: true },
    ]);
    expect(all[0]).not.toHaveProperty("lacksCacheLifetime");
  });

  const anyUsage = fc
    .tuple(...tokenClasses.map(() => fc.nat(3)))
    .map((counts) => usage(Object.fromEntries(tokenClasses.map((name, index) => [name, counts[index]]))));

  it("cost at least as much as each prompt with each completion that was stated", () => {
    fc.assert(
      fc.property(fc.array(anyUsage, { minLength: 1, maxLength: 30 }), prices, (usages, price) => {
        const cost = (tokens: TokenCounts) => costOf(price, tokens).charged;
        const all = readings(stated(...usages) as Usage);
        const most = all.map(({ tokens }) => cost(tokens)).reduce((one, other) => (one > other ? one : other));
        const hasMinimum = price.minimum.tokens > 0;
        for (const prompt of usages)
          for (const completion of usages) {
            const tokens = { ...prompt.tokens };
            for (const name of completionClasses) tokens[name] = completion.tokens[name];
            // A minimum fills missing tokens at the output rate, so fewer tokens may cost more.
            if (!hasMinimum) expect(most).toBeGreaterThanOrEqual(cost(tokens));
          }
      }),
      { numRuns: runs(300) },
    );
  });

  it("have only sides that were stated, unless there are too many rivals to keep", () => {
    const side = (names: readonly (keyof TokenCounts)[], tokens: TokenCounts) =>
      names.map((name) => tokens[name]).join();
    fc.assert(
      fc.property(fc.array(anyUsage, { minLength: 1, maxLength: 8 }), (usages) => {
        for (const names of [promptClasses, completionClasses]) {
          const known = new Set(usages.map(({ tokens }) => side(names, tokens)));
          const unknown = readings(stated(...usages) as Usage).filter(({ tokens }) => !known.has(side(names, tokens)));
          expect(unknown).toEqual([]);
        }
      }),
      { numRuns: runs(300) },
    );
  });
});

describe("the usages of two choices", () => {
  it("keep what an earlier usage of each contradicts", () => {
    const shrunk = stated(usage({ input: 9, output: 500 }), usage({ input: 8, output: 1 })) as Usage;
    const all = readings(addChoice(shrunk, shrunk)).map(({ tokens }) => [tokens.input, tokens.output]);
    for (const prompt of [8, 9]) for (const output of [2, 501, 1000]) expect(all).toContainEqual([prompt, output]);
  });

  it.each<[string, Usage | undefined, readonly Usage[], number, string[] | undefined]>([
    [
      "are in doubt without one of the whole answer",
      undefined,
      [50, 50].map((output) => usage({ input: 10, output })),
      100,
      ["usage_contradicts"],
    ],
    [
      "are not in doubt with the same one of the whole answer",
      usage({ input: 10, output: 100 }),
      [50, 50].map((output) => usage({ input: 10, output })),
      100,
      undefined,
    ],
    [
      "keep their other doubts",
      usage({ input: 10, output: 100 }),
      [usage({ output: 5 }, { doubts: ["hosted_tool"] })],
      100,
      ["hosted_tool"],
    ],
  ])("%s", (_, whole, choices, output, doubts) => {
    const all = withChoices(whole, choices);
    expect([all?.tokens.output, all?.doubts]).toEqual([output, doubts]);
  });
});

describe("the usages of two images", () => {
  it("add up, with the doubts of both", () => {
    const one = usage({ input: 50, image_output: 4000 }, { wroteOnlyText: true });
    expect(addUsage(one, usage({ input: 50, output: 3 }, { doubts: ["usage_contradicts"] }))).toEqual(
      usage({ input: 100, image_output: 4000, output: 3 }, { doubts: ["usage_contradicts"] }),
    );
    expect(addUsage(one, one)?.wroteOnlyText).toBe(true);
  });
});
