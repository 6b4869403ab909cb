import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { costOf } from "../../../src/core/cost.ts";
import { larger, noMoney, usd } from "../../../src/core/money.ts";
import {
  outcomeOfError,
  outcomeOfStatus,
  settlementFor,
  type Outcome,
  type Reserved,
} from "../../../src/core/settlement.ts";
import { noTokens, unchanged, type Permille } from "../../../src/core/usage.ts";
import { anyReserved, outcomes } from "../../support/price-arbitraries.ts";
import { canonicalPrice } from "../../../src/core/price.ts";
import { price, rates, tier } from "../../support/example-rates.ts";

const reserved: Reserved = { hold: usd("1"), price: price() };
const million = 1_000_000;

describe("outcomeOfStatus", () => {
  it.each([
    [307, false, { kind: "refusedByGateway", status: 307 }],
    [400, false, { kind: "refusedByGateway", status: 400 }],
    [429, true, { kind: "refusedByGateway", status: 429 }],
    [500, false, { kind: "failedAtGateway", status: 500, billed: false }],
    [503, true, { kind: "failedAtGateway", status: 503, billed: true }],
    [408, false, { kind: "unknown", reason: "gateway_408" }],
    [504, false, { kind: "unknown", reason: "gateway_504" }],
    [524, false, { kind: "unknown", reason: "gateway_524" }],
  ])("maps the status %i, with billed failures %s", (status, billed, expected) => {
    expect(outcomeOfStatus(status, billed)).toEqual(expected);
  });
});

describe("outcomeOfError", () => {
  it.each([
    ["refused", null, false, { kind: "refusedByGateway", status: 200, reason: "x" }],
    ["refused", 401, false, { kind: "refusedByGateway", status: 401, reason: "x" }],
    ["refused", 500, false, { kind: "refusedByGateway", status: 500, reason: "x" }],
    ["refused", 499, true, { kind: "refusedByGateway", status: 499, reason: "x" }],
    ["refused", 500, true, { kind: "failedAtGateway", status: 500, billed: true, reason: "x" }],
    ["refused", null, true, { kind: "failedAtGateway", status: 200, billed: true, reason: "x" }],
    ["open", 504, false, { kind: "unknown", reason: "x" }],
    ["open", null, true, { kind: "unknown", reason: "x" }],
  ] as const)("maps an error of kind %s and status %s, with billed failures %s", (kind, status, billed, expected) => {
    expect(outcomeOfError({ kind, status, reason: "x" }, billed)).toEqual(expected);
  });

  it("keeps the reason of a billed error", () => {
    const outcome = outcomeOfError({ kind: "refused", status: null, reason: "upstream_overload" }, true);
    const posted = { kind: "post", cost: usd("1"), source: "assumed", reason: "upstream_overload" };
    expect(settlementFor(reserved, outcome)).toMatchObject(posted);
  });
});

describe("settlementFor", () => {
  it.each<[Outcome, string]>([
    [{ kind: "notSent", reason: "client_left" }, "client_left"],
    [{ kind: "refusedByGateway", status: 429 }, "gateway_429"],
    [{ kind: "refusedByGateway", status: 200, reason: "invalid_input" }, "invalid_input"],
    [{ kind: "failedAtGateway", status: 502, billed: false }, "gateway_502"],
  ])("voids %j", (outcome, why) => {
    expect(settlementFor(reserved, outcome)).toEqual({ kind: "void", reason: why });
  });

  it("posts what the gateway reported, however far above the hold", () => {
    const tokens = { ...noTokens, input: million, output: million };
    const outcome: Outcome = { kind: "reported", tokens, clamped: false };
    expect(settlementFor(reserved, outcome)).toMatchObject({
      kind: "post",
      cost: usd("6.25"),
      listCost: usd("12.50"),
      tokens,
      formula: "tokens",
      source: "reported",
    });
  });

  it("scales a count by the tokenizer's error", () => {
    const tokens = { ...noTokens, input: 1000, output: 1001 };
    const outcome: Outcome = { kind: "counted", tokens, errorFactor: 1500 as Permille, hiddenTokens: 0 };
    expect(settlementFor(reserved, outcome)).toMatchObject({
      source: "counted",
      tokens: { ...noTokens, input: 1500, output: 1502 },
    });
  });

  it("counts at least the possible hidden output of a reasoning model, and posts at most the hold", () => {
    const counted = {
      kind: "counted",
      tokens: { ...noTokens, input: 10, output: 20 },
      errorFactor: unchanged,
    } as const;
    expect(settlementFor(reserved, { ...counted, hiddenTokens: 900 })).toMatchObject({
      tokens: { output: 900 },
      formula: "tokens",
    });
    expect(settlementFor(reserved, { ...counted, hiddenTokens: million })).toMatchObject({
      cost: reserved.hold,
      formula: "assumed",
      source: "counted",
    });
  });

  it("posts visible output above the hold as overage", () => {
    const tokens = { ...noTokens, input: 10, output: million };
    const outcome: Outcome = { kind: "counted", tokens, errorFactor: 1500 as Permille, hiddenTokens: 0 };
    expect(settlementFor(reserved, outcome)).toMatchObject({
      tokens,
      formula: "tokens",
      cost: costOf(price(), tokens).charged,
    });
  });

  it("posts the delivered part of a cut answer, or the possible hidden output when that is more", () => {
    const cut = {
      kind: "cut",
      promptTokens: 100,
      deliveredTokens: 50,
      errorFactor: unchanged,
      reason: "client_left",
    } as const;
    const tokensOf = (hiddenTokens: number) => {
      const settlement = settlementFor(reserved, { ...cut, hiddenTokens });
      return settlement.kind === "post" ? settlement.tokens : undefined;
    };
    expect(tokensOf(0)).toEqual({ ...noTokens, input: 100, output: 50 });
    expect(tokensOf(80)).toEqual({ ...noTokens, input: 100, output: 80 });
  });

  it("posts the hold if nothing states the billed amount", () => {
    const expected = { kind: "post", cost: usd("1"), listCost: usd("1"), source: "assumed", formula: "assumed" };
    expect(settlementFor(reserved, { kind: "unknown", reason: "timeout" })).toMatchObject(expected);
    expect(settlementFor(reserved, { kind: "failedAtGateway", status: 500, billed: true })).toMatchObject(expected);
  });

  it("posts null, not 0, for a model without a price", () => {
    const unpriced: Reserved = { hold: null, price: null };
    const outcome: Outcome = { kind: "reported", tokens: { ...noTokens, input: 1 }, clamped: false };
    expect(settlementFor(unpriced, outcome)).toMatchObject({ cost: null, listCost: null, formula: "unpriced" });
    expect(settlementFor(unpriced, { kind: "unknown", reason: "crash" })).toMatchObject({
      cost: null,
      formula: "unpriced",
    });
  });

  it("voids only outcomes that cannot be billed, and never posts a negative amount", () => {
    fc.assert(
      fc.property(anyReserved, outcomes, (reserved, outcome) => {
        const settlement = settlementFor(reserved, outcome);
        const free =
          outcome.kind === "notSent" ||
          outcome.kind === "refusedByGateway" ||
          (outcome.kind === "failedAtGateway" && !outcome.billed);
        expect(settlement.kind).toBe(free ? "void" : "post");
        if (settlement.kind === "void") return;
        expect(settlement.cost === null).toBe(reserved.price === null);
        expect(settlement.formula === "unpriced").toBe(reserved.price === null);
        expect(settlement.cost ?? 0n).toBeGreaterThanOrEqual(0n);
        expect(settlement.listCost ?? 0n).toBeGreaterThanOrEqual(0n);
      }),
    );
  });

  it("posts a cut answer between its delivered cost and its hold, and an unknown outcome at its hold", () => {
    fc.assert(
      fc.property(anyReserved, outcomes, (reserved, outcome) => {
        const settlement = settlementFor(reserved, outcome);
        if (settlement.kind === "void") return;
        const { delivered } = settlement;
        expect(delivered !== undefined).toBe(outcome.kind === "cut" || outcome.kind === "counted");
        if (delivered !== undefined && outcome.kind !== "counted" && reserved.price !== null) {
          const cost = costOf(reserved.price, { ...noTokens, ...delivered }, settlement.billing).charged;
          expect(settlement.cost).toBeGreaterThanOrEqual(cost);
          expect(settlement.cost).toBeLessThanOrEqual(larger(cost, reserved.hold ?? noMoney));
        }
        if (outcome.kind === "unknown") expect(settlement.cost).toBe(reserved.hold);
      }),
    );
  });

  it("posts at least the delivered output, and estimates at most the model's output maximum", () => {
    fc.assert(
      fc.property(anyReserved, outcomes, (reserved, outcome) => {
        const settlement = settlementFor(reserved, outcome);
        if (settlement.kind === "void" || (outcome.kind !== "counted" && outcome.kind !== "cut")) return;
        const { delivered = { input: 0, output: 0 }, tokens, source } = settlement;
        const text = outcome.kind === "cut" ? outcome.deliveredTokens : outcome.tokens.output;
        expect(delivered.output).toBeGreaterThanOrEqual(text);
        expect(tokens.output).toBeGreaterThanOrEqual(text);
        expect(tokens.output).toBeLessThanOrEqual(Math.max(text, outcome.outputTokensMax ?? 0));
        expect(source).toBe(outcome.kind === "counted" && outcome.unknownTokens === 0 ? "counted" : "partial");
      }),
    );
  });

  it("posts a cut answer above its hold as overage, like a complete one", () => {
    const small: Reserved = { hold: usd("0.01"), price: price() };
    const counts = { errorFactor: unchanged, hiddenTokens: 0 };
    const cut: Outcome = {
      kind: "cut",
      promptTokens: 0,
      deliveredTokens: 16_010,
      reason: "budget_exceeded",
      ...counts,
    };
    const whole: Outcome = { kind: "counted", tokens: { ...noTokens, output: 16_010 }, ...counts };
    for (const outcome of [cut, whole]) {
      expect(settlementFor(small, outcome)).toMatchObject({
        cost: usd("0.08005"),
        formula: "tokens",
        delivered: { input: 0, output: 16_010 },
      });
    }
  });

  it("posts no estimate below the delivered cost if a minimum charges missing tokens at the output rate", () => {
    const least = price({ minimum: { tokens: 1000, usd: noMoney } });
    const doubled = 2000 as Permille;
    const written = costOf(least, { ...noTokens, input: 100 }).charged;
    expect(costOf(least, { ...noTokens, input: 200 }).charged).toBeLessThan(written);
    const outcome: Outcome = {
      kind: "counted",
      tokens: { ...noTokens, input: 100 },
      errorFactor: doubled,
      hiddenTokens: 0,
    };
    expect(settlementFor({ hold: usd("1"), price: least }, outcome)).toMatchObject({
      cost: written,
      delivered: { input: 100, output: 0 },
    });
  });

  it("posts the larger cost if another model answered, with the served price", () => {
    const expensive = price({ model: "other", tiers: [tier(0, rates({ input: "150", output: "600" }))] });
    const servedPrice = { id: "served", canonical: canonicalPrice(expensive), version: expensive };
    const outcome: Outcome = {
      kind: "reported",
      tokens: { ...noTokens, input: 1000, output: 1000 },
      clamped: false,
      doubts: ["served_model"],
    };
    expect(settlementFor({ ...reserved, servedPrice }, outcome)).toMatchObject({
      cost: usd("0.75"),
      servedPrice,
      doubts: ["served_model"],
    });
    const both = { hold: usd("1"), price: expensive, servedPrice: { ...servedPrice, version: price() } };
    expect(settlementFor(both, outcome)).toMatchObject({ cost: usd("0.75"), doubts: ["served_model"] });
  });

  it("posts an amount that follows from its formula and inputs", () => {
    fc.assert(
      fc.property(anyReserved, outcomes, (reserved, outcome) => {
        const settlement = settlementFor(reserved, outcome);
        if (settlement.kind === "void" || reserved.price === null) return;
        if (settlement.formula === "assumed") {
          expect(settlement.cost).toBe(reserved.hold);
          return;
        }
        const cost = costOf(reserved.price, settlement.tokens, settlement.billing);
        expect(settlement).toMatchObject({
          cost: cost.charged,
          listCost: cost.list,
          minimumApplied: cost.minimumApplied,
        });
        expect(settlement.formula).toBe(reserved.price.perRequest === null ? "tokens" : "per_request");
      }),
    );
  });

  it("posts visible output above a hold of 0, and no estimate", () => {
    const free: Reserved = { hold: noMoney, price: price() };
    const cut: Outcome = {
      kind: "cut",
      promptTokens: 9,
      deliveredTokens: 9,
      errorFactor: unchanged,
      hiddenTokens: 0,
      reason: "client_left",
    };
    const written = costOf(price(), { ...noTokens, input: 9, output: 9 }).charged;
    expect(settlementFor(free, cut)).toMatchObject({ cost: written, source: "partial", formula: "tokens" });
    expect(settlementFor(free, { ...cut, promptTokens: 0, deliveredTokens: 0, hiddenTokens: 9 })).toMatchObject({
      cost: 0n,
      formula: "assumed",
    });
  });
});
