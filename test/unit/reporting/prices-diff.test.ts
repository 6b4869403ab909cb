import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatRate } from "../../../src/core/money.ts";
import { tierFor, type PriceVersion } from "../../../src/core/price.ts";
import { parentClass, tokenClasses, unchanged, type Permille, type TokenClass } from "../../../src/core/usage.ts";
import type { LoadedCatalogue } from "../../../src/catalogue/catalogue.ts";
import type { CatalogueModel, ModelHistory } from "../../../src/ports/catalogue.ts";
import { changesOf, diffPrices } from "../../../src/reporting/prices-diff.ts";
import type { ChangeJson } from "../../../src/reporting/shapes/commands.ts";
import { catalogueOf, oneModel } from "../../support/example-catalogue.ts";
import { prices } from "../../support/price-arbitraries.ts";
import { runs } from "../../support/effort.ts";

const dayMs = 86_400_000;
const firstDay = Date.parse("2026-01-01T00:00:00Z");

function modelWith(price: PriceVersion | null): CatalogueModel {
  return {
    id: "m",
    provider: "p",
    group: price?.group ?? null,
    price: price && { id: "", canonical: "", version: price },
    contextTokens: 1,
    outputTokensMax: 1,
    tokensPerByte: unchanged,
    imagePartTokens: null,
    imageRule: null,
    promptForm: "chat",
    audioPartTokens: null,
    filePartTokens: null,
    encoding: "o200k_base",
    tokenizerIsPublic: true,
    errorFactor: 1000 as Permille,
    reasons: false,
    tokensPerSecond: 1,
    billsServerErrors: false,
    maxOutputField: {},
    unit: "token",
    imagesOnly: false,
    servedAs: [],
    streams: "live",
    obeysMaxToolCalls: false,
  };
}

/** Histories of a model with up to three prices, and no price before the first. */
const histories: fc.Arbitrary<ModelHistory> = fc
  .uniqueArray(fc.tuple(fc.nat(6), fc.option(prices, { freq: 6 })), { maxLength: 3, selector: ([day]) => day })
  .map((list) => ({
    id: "m",
    aliases: [],
    spans: [
      { start: Number.NEGATIVE_INFINITY, model: modelWith(null) },
      ...list
        .toSorted(([a], [b]) => a - b)
        .map(([day, price]) => ({ start: firstDay + day * dayMs, model: modelWith(price) })),
    ],
  }));

const priceAt = ({ spans }: ModelHistory, at: number) =>
  spans.findLast(({ start }) => start <= at)?.model.price?.version ?? null;
const rateAt = (history: ModelHistory, at: number, prompt: number, side: "charged" | "list", name: TokenClass) => {
  const price = priceAt(history, at);
  return price === null || price.perRequest !== null ? null : formatRate(tierFor(price, prompt)[side][name]);
};
const appliesAt = ({ from, until }: ChangeJson, at: number) =>
  (from === null || Date.parse(from) <= at) && (until === null || at < Date.parse(until));

describe("changesOf", () => {
  it("names exactly the rates that differ at any time and prompt size, with both values", () => {
    fc.assert(
      fc.property(
        histories,
        histories,
        fc.nat(8),
        fc.nat(3500),
        fc.constantFrom("charged", "list"),
        fc.constantFrom(...tokenClasses),
        (a, b, day, prompt, side, name) => {
          const at = firstDay + (day - 1) * dayMs;
          const changes = changesOf(a, b).filter((change) => appliesAt(change, at));
          const tierStart = Math.max(
            0,
            ...[a, b]
              .flatMap((one) => (priceAt(one, at)?.tiers ?? []).map((tier) => tier.fromPromptTokens))
              .filter((from) => from <= prompt),
          );
          const field = (of: TokenClass) => `${side === "charged" ? "gateway" : "official"}.${of}`;
          const changeOf = (of: TokenClass): (typeof changes)[number] | undefined =>
            changes.find((change) => change.field === field(of) && change.from_prompt_tokens === tierStart);
          const [before, after] = [rateAt(a, at, prompt, side, name), rateAt(b, at, prompt, side, name)];
          // A class with its parent's rate in both is reported with its parent.
          const nearest = (of: TokenClass | null): (typeof changes)[number] | undefined =>
            of === null ? undefined : (changeOf(of) ?? nearest(parentClass[of]));
          const change = nearest(name);
          if (before !== after) expect(change).toMatchObject({ before, after });
          else expect(changeOf(name)).toBeUndefined();
        },
      ),
      { numRuns: runs(500) },
    );
  });

  it("is empty for equal histories, and inverted for swapped ones", () => {
    fc.assert(
      fc.property(histories, histories, (a, b) => {
        expect(changesOf(a, structuredClone(a))).toEqual([]);
        const swapped = changesOf(b, a).map(({ before, after, ...change }) => ({
          ...change,
          before: after,
          after: before,
        }));
        const text = (changes: readonly ChangeJson[]) =>
          changes
            .map((change) =>
              JSON.stringify(change, ["field", "from_prompt_tokens", "from", "until", "before", "after"]),
            )
            .toSorted();
        expect(text(swapped)).toEqual(text(changesOf(a, b)));
      }),
    );
  });
});

describe("diffPrices", () => {
  it("names added and removed models, aliases, and the rates that a group's fraction changes", () => {
    const before = catalogueOf({ "a.yaml": oneModel });
    const after = catalogueOf({
      "a.yaml": oneModel
        .replace('fraction: "0.5"', 'fraction: "0.4"')
        .replace("    tokenizer:", "    aliases: [great]\n    tokenizer:"),
      "b.yaml":
        'provider: other\nmodels:\n  small:\n    group: half\n    context_tokens: 10\n    max_output_tokens: 10\n    prices:\n      - { from: 2027-01-01, source: x, official: { input: "1", output: "1" } }\n',
    });
    const diff = diffPrices(before, after);
    expect(diff).toMatchObject({
      before: before.digest,
      after: after.digest,
      removed: [],
      added: [{ model: "small", group: "half", from: "2027-01-01" }],
    });
    expect(
      diff.changes.map(({ model, field, before: old, after: now, from, until }) => [
        model,
        field,
        old,
        now,
        from,
        until,
      ]),
    ).toEqual([
      ["big", "aliases", null, "great", null, null],
      ["big", "fraction", "0.5", "0.4", "2026-01-01", null],
      ["big", "gateway.input", "1.00", "0.80", "2026-01-01", null],
      ["big", "gateway.output", "5.00", "4.00", "2026-01-01", null],
    ]);
    expect(diffPrices(after, before).removed).toEqual(diff.added);
  });

  it("names changes of service tiers, fees, models that may answer and obeys_max_tool_calls", () => {
    const more =
      '        service_tiers: { flex: { official: { input: "1", output: "5" } } }\n        fees: { web_search_call: { usd: "0.01", input_tokens: 16000 } }\n';
    const after = catalogueOf({
      "a.yaml": (oneModel + more).replace(
        "    tokenizer:",
        "    served_as: [great]\n    obeys_max_tool_calls: true\n    tokenizer:",
      ),
    });
    expect(
      diffPrices(catalogueOf({ "a.yaml": oneModel }), after).changes.map(({ field, before, after: now }) => [
        field,
        before,
        now,
      ]),
    ).toEqual([
      ["served_as", null, "great"],
      ["obeys_max_tool_calls", "false", "true"],
      ["fees.web_search_call.gateway", null, "0.005"],
      ["fees.web_search_call.official", null, "0.01"],
      ["fees.web_search_call.input_tokens", null, "16000"],
      ["service_tiers.flex.gateway.input", null, "0.50"],
      ["service_tiers.flex.gateway.output", null, "2.50"],
      ["service_tiers.flex.official.input", null, "1.00"],
      ["service_tiers.flex.official.output", null, "5.00"],
    ]);
  });

  it("names changes of factors once, not for each rate", () => {
    const factors = (us: string) => `        factors: { speed: { fast: "2" }, inference_geo: { us: ${us} } }\n`;
    const [before, after] = ['"1.1"', '{ input: "1.2", output: "1.1" }'].map((us) =>
      catalogueOf({ "a.yaml": oneModel + factors(us) }),
    ) as [LoadedCatalogue, LoadedCatalogue];
    const changes = (one: LoadedCatalogue, other: LoadedCatalogue) =>
      diffPrices(one, other).changes.map(({ field, before: was, after: now }) => [field, was, now]);
    expect(changes(before, after)).toEqual([["factors.inference_geo.us", "1.1", "input 1.2, output 1.1"]]);
    expect(changes(catalogueOf({ "a.yaml": oneModel }), before)).toEqual([
      ["factors.speed.fast", null, "2"],
      ["factors.inference_geo.us", null, "1.1"],
    ]);
  });

  it("ends a change where a later price is equal again", () => {
    const correction =
      oneModel.replace('output: "10.00"', 'output: "12.00"') +
      '      - { from: 2026-03-01, source: "a list", official: { input: "2.00", output: "10.00" } }\n';
    expect(diffPrices(catalogueOf({ "a.yaml": oneModel }), catalogueOf({ "a.yaml": correction })).changes).toEqual([
      {
        model: "big",
        field: "gateway.output",
        from_prompt_tokens: 0,
        from: "2026-01-01",
        until: "2026-03-01",
        before: "5.00",
        after: "6.00",
      },
      {
        model: "big",
        field: "official.output",
        from_prompt_tokens: 0,
        from: "2026-01-01",
        until: "2026-03-01",
        before: "10.00",
        after: "12.00",
      },
    ]);
  });
});
