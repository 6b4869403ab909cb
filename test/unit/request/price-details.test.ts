import { describe, expect, it } from "vitest";
import { BodyBytes } from "../../../src/ports/exchange.ts";
import type { ChatText } from "../../../src/core/prompt-text.ts";
import { ceilingPrice } from "../../../src/core/price.ts";
import type { CatalogueModel } from "../../../src/ports/catalogue.ts";
import type { TokenCounter } from "../../../src/ports/token-counter.ts";
import { Pricer, knownName, type Quote } from "../../../src/request/price.ts";
import { noChat } from "../../../src/wire/prompt-text.ts";
import type { ModelRequest } from "../../../src/wire/model-request.ts";
import { catalogueOf, characterCounter, flat, model, noon, request } from "./examples.ts";

function pricerOf(
  of: CatalogueModel,
  tokens: TokenCounter = characterCounter(),
  unpriced: "record" | "refuse" = "record",
) {
  return new Pricer({
    catalogue: () => catalogueOf([of]),
    tokens,
    unpriced,
    sliceTokens: 64,
    toolCalls: 0,
    fitTokensMin: 1,
  });
}

function quoteOf(asked: ModelRequest, of: CatalogueModel = model()): Quote {
  const pricing = pricerOf(of).quote(asked, noon);
  if (!pricing.ok) throw new Error(`refused: ${pricing.refusal.code}`);
  return pricing.quote;
}

const naming = (...models: readonly string[]) => request({ fields: { ...request().fields, models } });

describe("the hold of a stream", () => {
  it("grows by slices up to the model's maximum", () => {
    expect(quoteOf(request()).growth).toMatchObject({ sliceTokens: 64, outputTokensMax: 1000 });
  });

  it.each([
    ["the gateway writes answers in one burst", request(), model({ streams: "burst" })],
    ["its answer is held until it is whole", request({ isHeldWhole: true }), model()],
  ])("does not grow if %s", (_, asked, of) => {
    expect(quoteOf(asked, of).growth).toBeNull();
  });

  it("grows beyond a stated maximum that the gateway ignores", () => {
    const { outputTokens, beyond } = quoteOf(request({ size: { outputMax: 10 } }));
    expect([outputTokens, beyond]).toEqual([
      10,
      { sliceTokens: 64, outputTokensMax: 1000, costAt: expect.any(Function) },
    ]);
  });

  it("ignores a maximum next to a field without a bound", () => {
    const size = { unboundedFields: ["thinking"], outputMax: 10, choices: 2 };
    expect(quoteOf(request({ size })).outputTokens).toBe(2000);
  });
});

it("a request that also names an unknown model is not fitted", () => {
  expect(pricerOf(model()).fit(quoteOf(naming("gpt-0")), 10n ** 12n)).toBeNull();
});

describe("the name of the requested model", () => {
  it.each([
    ["is returned for a model of the catalogue", model({ id: "gpt" }), "alias", "alias"],
    ["is the id for a name with a provider", model({ id: "gpt" }), "invented/alias", "gpt"],
    ["is the id for a name with a provider and a full-width slash", model({ id: "gpt" }), "invented\uff0falias", "gpt"],
    [
      "is undefined for a model that only has the price of unknown ones",
      model({ id: ceilingPrice }),
      "alias",
      undefined,
    ],
    ["is undefined for a model that the catalogue does not know", undefined, "alias", undefined],
  ])("%s", (_, of, name, expected) => {
    expect(knownName({ model: of, request: { model: name } })).toBe(expected);
  });

  it("is stated with the refusal of another model", () => {
    expect(pricerOf(model(), characterCounter(), "refuse").quote(naming("gpt-0"), noon)).toEqual({
      ok: false,
      refusal: { code: "model_not_priced", model: "gpt-0", hardBudget: false },
      model: "plain",
    });
  });
});

describe("a counted chat", () => {
  const tool = { type: "function", function: { name: "find", parameters: {} } };

  it.each<[string, readonly object[], readonly object[]]>([
    ["has one empty tool instead of its tools", [tool, tool], [{ type: "function", function: { name: "" } }]],
    ["has no tool if it had none", [], []],
  ])("%s", async (_, tools, expected) => {
    const counted: ChatText[] = [];
    const counter: TokenCounter = {
      ...characterCounter(),
      async countChat(chat) {
        counted.push(chat);
        return { ok: true, tokens: 7 };
      },
    };
    const chat = { ...noChat, tools, messages: 1 } as ChatText;
    const asked = request({ prompt: { text: () => ({ kind: "chat", chat }), bytesOutside: () => 0 } });
    expect(await pricerOf(model(), counter).countPrompt(quoteOf(asked), new BodyBytes([Buffer.from("{}")]))).toBe(12);
    expect(counted).toEqual([{ ...chat, tools: expected, schema: null }]);
  });
});

describe("the models that a charge may count for", () => {
  const models = [
    model({ id: "a", price: flat(10n) }),
    model({ id: "a2", price: flat(10n) }),
    model({ id: "b", price: flat(20n) }),
    model({ id: "c", price: flat(30n) }),
    model({ id: "free", price: null }),
  ];
  const idsOf = (asked: string, stated: readonly string[], mentions: readonly string[], otherwise?: CatalogueModel) => {
    const pricer = new Pricer({
      catalogue: () => catalogueOf(models, otherwise),
      tokens: characterCounter(),
      unpriced: "record",
      sliceTokens: 64,
      toolCalls: 0,
      fitTokensMin: 1,
    });
    const fields = { ...request().fields, models: stated, mentions };
    const pricing = pricer.quote(request({ model: asked, fields }), noon);
    return pricing.ok ? pricing.quote.modelIds : pricing.refusal.code;
  };

  it.each<[string, readonly string[], readonly string[], readonly string[]]>([
    ["a", [], [], ["a"]],
    ["gpt-0", [], [], ["gpt-0"]],
    // The most expensive one first.
    ["a", ["b"], [], ["b", "a"]],
    ["b", ["a"], [], ["b", "a"]],
    ["a", ["b", "c"], [], ["c", "b", "a"]],
    ["c", ["a", "b"], [], ["c", "b", "a"]],
    ["b", ["c", "a"], [], ["c", "b", "a"]],
    ["b", ["a", "c"], [], ["c", "b", "a"]],
    ["a", ["a2"], [], ["a", "a2"]],
    ["a2", ["a"], [], ["a2", "a"]],
    ["a", ["b", "a2"], [], ["b", "a", "a2"]],
    // One without a price counts as the most expensive.
    ["a", ["free"], [], ["free", "a"]],
    ["free", ["a"], [], ["free", "a"]],
    ["a", ["gpt-0"], [], ["gpt-0", "a"]],
    ["gpt-0", ["a", "b"], [], ["gpt-0", "b", "a"]],
    ["free", ["gpt-0"], [], ["free", "gpt-0"]],
    ["gpt-0", ["free"], [], ["gpt-0", "free"]],
    ["a", ["gpt-0", "c", "free"], [], ["gpt-0", "free", "c", "a"]],
    // Those that the request only mentions come last.
    ["a", [], ["c"], ["a", "c"]],
    ["a", ["b"], ["c"], ["b", "a", "c"]],
    ["c", ["b"], ["a"], ["c", "b", "a"]],
    ["a", [], ["free"], ["a", "free"]],
    ["free", [], ["c", "a"], ["free", "c", "a"]],
    ["a", ["b"], ["a2", "c", "free"], ["b", "a", "free", "c", "a2"]],
    ["a", [], ["gpt-0"], ["a"]],
    ["a", ["c"], ["c"], ["c", "a"]],
    // A text that cannot be a name names no model.
    ["a", ["b\u0007"], [], ["a"]],
  ])("of a request for %s that also names %j and mentions %j are %j", (asked, stated, mentions, ids) => {
    expect(idsOf(asked, stated, mentions)).toStrictEqual(ids);
  });

  it("are one model for all names with the price of unknown models", () => {
    const otherwise = model({ id: ceilingPrice, price: flat(40n) });
    expect(idsOf("x", [], [], otherwise)).toStrictEqual([ceilingPrice]);
    expect(idsOf("x", ["y", "c"], [], otherwise)).toStrictEqual([ceilingPrice, "c"]);
  });
});
