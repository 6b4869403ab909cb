import { describe, expect, it } from "vitest";
import { standardBilling } from "../../../src/core/cost.ts";
import type { PicoUsd, PicoUsdPerToken } from "../../../src/core/money.ts";
import { canonicalPrice, type PriceVersion } from "../../../src/core/price.ts";
import {
  outcomeOfStatus,
  postHold,
  settlementFor,
  tokensUsed,
  type Outcome,
  type Reserved,
  type Settlement,
} from "../../../src/core/settlement.ts";
import { noTokens, unchanged, type Permille, type TokenCounts } from "../../../src/core/usage.ts";
import { price as examplePrice } from "../../support/example-rates.ts";

const pico = (amount: number) => BigInt(amount) as PicoUsd;
const [tier] = examplePrice().tiers;
const ratesAt = (rate: bigint) =>
  Object.fromEntries(
    Object.keys(tier.charged).map((name) => [
      name,
      (/output|reasoning/.test(name) ? 100n * rate : rate) as PicoUsdPerToken,
    ]),
  ) as typeof tier.charged;
/** Returns a price of 1 pico-USD per prompt token and 100 per completion token. The list price is twice that. */
const price = (changes: Partial<PriceVersion> = {}) =>
  examplePrice({ tiers: [{ fromPromptTokens: 0, charged: ratesAt(1n), list: ratesAt(2n) }], ...changes });
const reserved: Reserved = { hold: pico(100_000), price: price() };
const unpriced: Reserved = { hold: null, price: null };
const tokens = (input: number, output: number, more: Partial<TokenCounts> = {}): TokenCounts => ({
  ...noTokens,
  input,
  output,
  ...more,
});

const posted = (input: number, output: number, more: object): object => ({
  kind: "post",
  cost: pico(input + 100 * output),
  listCost: pico(2 * (input + 100 * output)),
  tokens: tokens(input, output),
  formula: "tokens",
  minimumApplied: false,
  clamped: false,
  reason: null,
  ...more,
});
const postedAtHold = (amount: number, more: object): object => ({
  kind: "post",
  cost: pico(amount),
  listCost: pico(amount),
  tokens: noTokens,
  formula: "assumed",
  minimumApplied: false,
  clamped: false,
  ...more,
});

const certain = { errorFactor: unchanged, hiddenTokens: 0 };
const counted = (input: number, output: number, more: object = {}): Outcome => ({
  kind: "counted",
  tokens: tokens(input, output),
  ...certain,
  ...more,
});
const cut = (promptTokens: number, deliveredTokens: number, more: object = {}): Outcome => ({
  kind: "cut",
  promptTokens,
  deliveredTokens,
  reason: "timeout",
  ...certain,
  ...more,
});
const twice = 2000 as Permille;
const doubts = ["unknown_output"] as const;
const billing = { serviceTier: "flex", calls: {} };

describe("a reported answer", () => {
  it.each<[string, Reserved, Outcome, object]>([
    [
      "is posted at its cost",
      reserved,
      { kind: "reported", tokens: tokens(7, 3), clamped: false },
      posted(7, 3, { source: "reported" }),
    ],
    [
      "is posted as read even if it contradicts itself",
      reserved,
      { kind: "reported", tokens: tokens(7, 3), clamped: true, doubts },
      posted(7, 3, { source: "reported", clamped: true, doubts }),
    ],
    [
      "has no doubts for an empty list of doubts",
      reserved,
      { kind: "reported", tokens: tokens(7, 3), clamped: false, doubts: [] },
      posted(7, 3, { source: "reported" }),
    ],
    [
      "keeps its billing",
      reserved,
      { kind: "reported", tokens: tokens(7, 3), clamped: false, billing },
      posted(7, 3, { source: "reported", billing }),
    ],
    [
      "has no amount without a price",
      unpriced,
      { kind: "reported", tokens: tokens(7, 3), clamped: false },
      posted(7, 3, { source: "reported", cost: null, listCost: null, formula: "unpriced" }),
    ],
    [
      "has no amount and no served price without prices",
      { ...unpriced, servedPrice: null },
      { kind: "reported", tokens: tokens(7, 3), clamped: false },
      posted(7, 3, {
        source: "reported",
        cost: null,
        listCost: null,
        formula: "unpriced",
      }),
    ],
  ])("%s", (_, of, outcome, expected) => {
    expect(settlementFor(of, outcome)).toStrictEqual(expected);
  });

  it("is priced in the service tier that answered", () => {
    const flex = price({ serviceTiers: { flex: [{ fromPromptTokens: 0, charged: ratesAt(3n), list: ratesAt(4n) }] } });
    expect(
      settlementFor({ ...reserved, price: flex }, { kind: "reported", tokens: tokens(7, 3), clamped: false, billing }),
    ).toMatchObject({ cost: 3n * 307n, listCost: 4n * 307n });
  });

  it("states the price of another model that answered", () => {
    const version = price({
      model: "other",
      tiers: [{ fromPromptTokens: 0, charged: ratesAt(5n), list: ratesAt(6n) }],
    });
    const servedPrice = { id: "id", canonical: canonicalPrice(version), version };
    const outcome: Outcome = { kind: "reported", tokens: tokens(7, 3), clamped: false };
    expect(settlementFor({ ...reserved, servedPrice }, outcome)).toStrictEqual(
      posted(7, 3, { source: "reported", cost: pico(5 * 307), listCost: pico(6 * 307), servedPrice }),
    );
    const small: Reserved = { ...reserved, hold: pico(10), servedPrice };
    expect(settlementFor(small, counted(1, 0, { hiddenTokens: 9 }))).toMatchObject({ formula: "assumed", servedPrice });
  });

  it("states that the minimum was applied", () => {
    expect(
      settlementFor(
        { ...reserved, price: price({ minimum: { tokens: 0, usd: pico(1000) } }) },
        { kind: "reported", tokens: tokens(1, 0), clamped: false },
      ),
    ).toMatchObject({
      cost: 1000n,
      minimumApplied: true,
    });
  });
});

describe("a counted answer", () => {
  const delivered = (input: number, output: number) => ({ delivered: { input, output } });
  it.each<[string, Reserved, Outcome, object]>([
    ["is posted as counted", reserved, counted(7, 3), posted(7, 3, { source: "counted", ...delivered(7, 3) })],
    [
      "is scaled by the tokenizer's error, rounded up",
      reserved,
      counted(7, 3, { errorFactor: 1100 as Permille }),
      posted(8, 4, { source: "counted", ...delivered(7, 3) }),
    ],
    [
      "uses the possible hidden reasoning if it is more than the count",
      reserved,
      counted(7, 3, { hiddenTokens: 9 }),
      posted(7, 9, { source: "counted", ...delivered(7, 3) }),
    ],
    [
      "uses the count if it is more than the possible hidden reasoning",
      reserved,
      counted(7, 3, { hiddenTokens: 2 }),
      posted(7, 3, { source: "counted", ...delivered(7, 3) }),
    ],
    [
      "is partial if some output is not known to be text",
      reserved,
      counted(7, 3, { unknownTokens: 4, doubts }),
      posted(7, 7, { source: "partial", doubts, ...delivered(7, 7) }),
    ],
    [
      "scales the text but not the unknown output",
      reserved,
      counted(7, 3, { unknownTokens: 4, errorFactor: twice }),
      posted(14, 10, { source: "partial", ...delivered(7, 7) }),
    ],
    [
      "is capped at the model's output maximum",
      reserved,
      counted(7, 3, { unknownTokens: 40, outputTokensMax: 20 }),
      posted(7, 20, { source: "partial", ...delivered(7, 20) }),
    ],
    [
      "is capped at the model's output maximum after scaling",
      reserved,
      counted(7, 15, { errorFactor: twice, outputTokensMax: 20 }),
      posted(14, 20, { source: "counted", ...delivered(7, 15) }),
    ],
    [
      "keeps delivered output above the model's output maximum",
      reserved,
      counted(7, 30, { errorFactor: twice, outputTokensMax: 20 }),
      posted(14, 30, { source: "counted", ...delivered(7, 30) }),
    ],
    [
      "is posted as counted if it equals its hold",
      { ...reserved, hold: pico(307) },
      counted(7, 3),
      posted(7, 3, { source: "counted", ...delivered(7, 3) }),
    ],
    [
      "is posted above its hold if that much was delivered",
      { ...reserved, hold: pico(306) },
      counted(7, 3),
      posted(7, 3, { source: "counted", ...delivered(7, 3) }),
    ],
    [
      "is posted unscaled if the count alone exceeds the hold",
      { ...reserved, hold: pico(306) },
      counted(7, 3, { errorFactor: twice }),
      posted(7, 3, { source: "counted", ...delivered(7, 3) }),
    ],
    [
      "scales tokens of text but not of images",
      { ...reserved, hold: pico(10_000) },
      counted(7, 3, { errorFactor: twice, mediaTokens: 5 }),
      posted(9, 6, { source: "counted", delivered: delivered(7, 3).delivered }),
    ],
    [
      "is posted at its hold if only the estimate exceeds it",
      { ...reserved, hold: pico(400) },
      counted(7, 3, { errorFactor: twice, billing, doubts }),
      postedAtHold(400, {
        source: "counted",
        reason: null,
        tokens: tokens(14, 6),
        billing,
        doubts,
        ...delivered(7, 3),
      }),
    ],
    [
      "is posted at its hold if only hidden output exceeds it",
      { ...reserved, hold: pico(400) },
      counted(7, 3, { hiddenTokens: 9 }),
      postedAtHold(400, { source: "counted", reason: null, tokens: tokens(7, 9), ...delivered(7, 3) }),
    ],
    [
      "may exceed its hold by output that is not known to be text",
      { ...reserved, hold: pico(400) },
      counted(7, 3, { unknownTokens: 4 }),
      posted(7, 7, { source: "partial", ...delivered(7, 7) }),
    ],
    [
      "is at least its hold if images or sound arrived",
      reserved,
      counted(7, 3, { hasMedia: true }),
      postedAtHold(100_000, { source: "partial", reason: null, tokens: tokens(7, 3), ...delivered(7, 3) }),
    ],
    [
      "may exceed its hold if enough text arrived with images or sound",
      { ...reserved, hold: pico(306) },
      counted(7, 3, { hasMedia: true }),
      posted(7, 3, { source: "partial", ...delivered(7, 3) }),
    ],
    [
      "is posted at its estimate if nothing was held",
      { ...reserved, hold: null },
      counted(7, 3, { errorFactor: twice }),
      posted(14, 6, { source: "counted", ...delivered(7, 3) }),
    ],
    [
      "has no amount without a price",
      unpriced,
      counted(7, 3),
      posted(7, 3, { source: "counted", cost: null, listCost: null, formula: "unpriced", ...delivered(7, 3) }),
    ],
    [
      "has no amount without a price, also with images",
      unpriced,
      counted(7, 3, { hasMedia: true }),
      {
        kind: "post",
        cost: null,
        listCost: null,
        formula: "unpriced",
        minimumApplied: false,
        clamped: false,
        source: "partial",
        reason: null,
        tokens: tokens(7, 3),
        ...delivered(7, 3),
      },
    ],
    [
      "counts every class as delivered",
      reserved,
      { kind: "counted", tokens: tokens(7, 3, { cached_input: 10, reasoning: 20 }), ...certain },
      posted(7, 3, {
        source: "counted",
        tokens: tokens(7, 3, { cached_input: 10, reasoning: 20 }),
        cost: pico(17 + 2300),
        listCost: pico(2 * (17 + 2300)),
        ...delivered(17, 23),
      }),
    ],
  ])("%s", (_, of, outcome, expected) => {
    expect(settlementFor(of, outcome)).toStrictEqual(expected);
  });

  it("is posted as delivered if a minimum of tokens makes fewer tokens cost more", () => {
    const minimal = price({ minimum: { tokens: 20, usd: pico(0) } });
    // 10 delivered tokens cost 10 more at the output rate; 20 estimated ones already meet the minimum.
    expect(settlementFor({ ...reserved, price: minimal }, counted(10, 0, { errorFactor: twice }))).toStrictEqual(
      posted(10, 0, { source: "counted", cost: pico(10 + 10 * 100), minimumApplied: true, ...delivered(10, 0) }),
    );
  });

  it("is posted at the estimate if both cost the same", () => {
    const flat = price({ perRequest: { charged: pico(5), list: pico(6) } });
    expect(settlementFor({ ...reserved, price: flat }, counted(7, 3, { errorFactor: twice }))).toStrictEqual(
      posted(14, 6, {
        source: "counted",
        cost: pico(5),
        listCost: pico(6),
        formula: "per_request",
        ...delivered(7, 3),
      }),
    );
  });
});

describe("a cut answer", () => {
  const asPartial = (input: number, output: number) => ({
    source: "partial",
    reason: "timeout",
    delivered: { input, output },
  });
  it.each<[string, Reserved, Outcome, object]>([
    ["is posted at the delivered tokens", reserved, cut(7, 3), posted(7, 3, asPartial(7, 3))],
    [
      "includes output in flight, scaled like the delivered output",
      reserved,
      cut(7, 3, { inFlightTokens: 2, errorFactor: twice }),
      posted(14, 10, asPartial(7, 3)),
    ],
    [
      "is posted at its hold if only output in flight exceeds it",
      { ...reserved, hold: pico(400) },
      cut(7, 3, { inFlightTokens: 2 }),
      postedAtHold(400, { ...asPartial(7, 3), tokens: tokens(7, 5) }),
    ],
    [
      "includes possible hidden output",
      reserved,
      cut(7, 3, { inFlightTokens: 2, hiddenTokens: 6 }),
      posted(7, 6, asPartial(7, 3)),
    ],
    [
      "includes output that is not known to be text",
      reserved,
      cut(7, 3, { inFlightTokens: 2, unknownTokens: 4 }),
      posted(7, 9, asPartial(7, 7)),
    ],
    [
      "is posted above its hold if the delivered tokens cost more",
      { ...reserved, hold: pico(306) },
      cut(7, 3),
      posted(7, 3, asPartial(7, 3)),
    ],
  ])("%s", (_, of, outcome, expected) => {
    expect(settlementFor(of, outcome)).toStrictEqual(expected);
  });

  it("is the only one that includes output in flight", () => {
    expect(settlementFor(reserved, counted(7, 3, { inFlightTokens: 50 }))).toMatchObject({ tokens: tokens(7, 3) });
  });
});

describe("an unknown outcome", () => {
  const unknown = (more: object = {}): Outcome => ({ kind: "unknown", reason: "reset", ...more });
  it.each<[string, Reserved, Outcome, object]>([
    ["is posted at the hold", reserved, unknown(), postedAtHold(100_000, { source: "assumed", reason: "reset" })],
    [
      "is posted at the hold with its doubts",
      reserved,
      unknown({ doubts, billing }),
      postedAtHold(100_000, { source: "assumed", reason: "reset", doubts, billing }),
    ],
    [
      "is posted at the hold if it covers the unreadable output",
      { ...reserved, hold: pico(400) },
      unknown({ unknownTokens: 4 }),
      postedAtHold(400, { source: "assumed", reason: "reset" }),
    ],
    [
      "is posted above the hold if it does not cover the unreadable output",
      { ...reserved, hold: pico(399) },
      unknown({ unknownTokens: 4, doubts }),
      posted(0, 4, { source: "partial", reason: "reset", doubts }),
    ],
    [
      "has no amount without a price",
      unpriced,
      unknown({ unknownTokens: 4 }),
      postedAtHold(0, { source: "assumed", reason: "reset", cost: null, listCost: null, formula: "unpriced" }),
    ],
  ])("%s", (_, of, outcome, expected) => {
    expect(settlementFor(of, outcome)).toStrictEqual(expected);
  });
});

describe("a request without a usable answer", () => {
  const failed = (billed: boolean): Outcome => ({ kind: "failedAtGateway", status: 502, billed, doubts, billing });
  it.each<[Outcome, object]>([
    [
      { kind: "notSent", reason: "client_left" },
      { kind: "void", reason: "client_left" },
    ],
    [
      { kind: "refusedByGateway", status: 404 },
      { kind: "void", reason: "gateway_404" },
    ],
    [failed(false), { kind: "void", reason: "gateway_502" }],
    [failed(true), postedAtHold(100_000, { source: "assumed", reason: "gateway_502", doubts, billing })],
  ])("is, with the outcome %j, voided or posted at its hold", (outcome, expected) => {
    expect(settlementFor(reserved, outcome)).toStrictEqual(expected);
  });

  it.each<[number, Outcome]>([
    [302, { kind: "refusedByGateway", status: 302 }],
    [499, { kind: "refusedByGateway", status: 499 }],
    [500, { kind: "failedAtGateway", status: 500, billed: true }],
    [503, { kind: "failedAtGateway", status: 503, billed: true }],
    [408, { kind: "unknown", reason: "gateway_408" }],
    [504, { kind: "unknown", reason: "gateway_504" }],
    [520, { kind: "unknown", reason: "gateway_520" }],
    [524, { kind: "unknown", reason: "gateway_524" }],
    [521, { kind: "failedAtGateway", status: 521, billed: true }],
  ])("has, with the status %i, the outcome %j", (status, outcome) => {
    expect(outcomeOfStatus(status, true)).toEqual(outcome);
  });
});

it.each<[Outcome, number | null]>([
  [{ kind: "notSent", reason: "client_left" }, 0],
  [{ kind: "refusedByGateway", status: 404 }, 0],
  [{ kind: "failedAtGateway", status: 500, billed: false }, 0],
  [{ kind: "failedAtGateway", status: 500, billed: true }, null],
  [{ kind: "unknown", reason: "reset" }, null],
  [{ kind: "reported", tokens: tokens(7, 3, { cached_input: 10, reasoning: 20 }), clamped: false }, 40],
  [counted(7, 3), 10],
  [counted(7, 3, { unknownTokens: 4, hiddenTokens: 50, errorFactor: twice }), 14],
  [counted(7, 3, { unknownTokens: 4, outputTokensMax: 5 }), 12],
  [counted(7, 3, { unknownTokens: 4, outputTokensMax: 2 }), 10],
  [cut(7, 3), 10],
  [cut(7, 3, { inFlightTokens: 2 }), 12],
  [cut(7, 3, { inFlightTokens: 2, unknownTokens: 4 }), 16],
  [cut(7, 3, { inFlightTokens: 2, unknownTokens: 4, outputTokensMax: 6 }), 13],
])("the outcome %j used %j tokens", (outcome, expected) => {
  expect(tokensUsed(outcome)).toBe(expected);
});

it("an outcome of an unknown kind throws", () => {
  const outcome = { kind: "new" } as unknown as Outcome;
  expect(() => settlementFor(reserved, outcome)).toThrow("unreachable");
  expect(() => tokensUsed(outcome)).toThrow("unreachable");
});

it("postHold posts the hold with the known tokens", () => {
  const expected: Settlement = {
    kind: "post",
    cost: pico(5),
    listCost: pico(5),
    tokens: tokens(1, 2),
    formula: "assumed",
    source: "partial",
    minimumApplied: false,
    clamped: false,
    reason: "why",
  };
  expect(postHold({ hold: pico(5) }, "partial", "why", tokens(1, 2))).toStrictEqual(expected);
  expect(postHold({ hold: null }, "assumed", null)).toStrictEqual({
    ...expected,
    cost: null,
    listCost: null,
    tokens: noTokens,
    formula: "unpriced",
    source: "assumed",
    reason: null,
  });
});

it("the standard billing has no tier and no calls", () => {
  expect(standardBilling).toEqual({ serviceTier: null, calls: {} });
});

describe("the model that answered, of several possible ones", () => {
  const answered: Reserved = { ...reserved, answered: "other" };

  it.each<[string, Outcome]>([
    ["a reported answer", { kind: "reported", tokens: tokens(7, 3), clamped: false }],
    ["a counted answer", counted(7, 3)],
    ["a cut answer", cut(7, 3)],
    ["a billed failure", { kind: "failedAtGateway", status: 500, billed: true }],
    ["an unknown outcome", { kind: "unknown", reason: "timeout" }],
  ])("is stated by the settlement of %s", (_, outcome) => {
    const posted = settlementFor(reserved, outcome);
    expect(posted).toMatchObject({ kind: "post" });
    expect(posted).not.toHaveProperty("answered");
    expect(settlementFor(answered, outcome)).toStrictEqual({ ...posted, answered: "other" });
  });

  it.each<[string, Outcome, string]>([
    ["a request that was not sent", { kind: "notSent", reason: "client_gone" }, "client_gone"],
    ["a rejection by the gateway", { kind: "refusedByGateway", status: 404 }, "gateway_404"],
    ["a rejection with a reason", { kind: "refusedByGateway", status: 200, reason: "filtered" }, "filtered"],
    ["a failure", { kind: "failedAtGateway", status: 500, billed: false }, "gateway_500"],
  ])("is not stated by the void of %s", (_, outcome, reason) => {
    expect(settlementFor(answered, outcome)).toStrictEqual({ kind: "void", reason });
  });
});
