import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { costOf } from "../../src/core/cost.ts";
import { noMoney, usd } from "../../src/core/money.ts";
import { outcomeOfStatus, settlementFor, type Outcome, type Reserved } from "../../src/core/settlement.ts";
import { noTokens, unchanged, type Permille } from "../../src/core/tokens.ts";
import { anyReserved, outcomes } from "./arbitraries.ts";
import { price } from "./examples.ts";

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
  ])("of %i, billed %s", (status, billed, expected) => {
    expect(outcomeOfStatus(status, billed)).toEqual(expected);
  });
});

describe("settlementFor", () => {
  it.each<[Outcome, string]>([
    [{ kind: "notSent", reason: "client_left" }, "client_left"],
    [{ kind: "refusedByGateway", status: 429 }, "gateway_429"],
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

  it("widens what was counted by the tokenizer's error", () => {
    const tokens = { ...noTokens, input: 1000, output: 1001 };
    const outcome: Outcome = { kind: "counted", tokens, errorFactor: 1500 as Permille, hiddenTokens: 0 };
    expect(settlementFor(reserved, outcome)).toMatchObject({
      source: "counted",
      tokens: { ...noTokens, input: 1500, output: 1502 },
    });
  });

  it("counts at least what a model that reasons unseen may have produced, and never more than was held", () => {
    const counted = { kind: "counted", tokens: { ...noTokens, input: 10, output: 20 }, errorFactor: unchanged } as const;
    expect(settlementFor(reserved, { ...counted, hiddenTokens: 900 })).toMatchObject({ tokens: { output: 900 }, formula: "tokens" });
    expect(settlementFor(reserved, { ...counted, hiddenTokens: million })).toMatchObject({
      cost: reserved.hold,
      formula: "assumed",
      source: "counted",
    });
  });

  it("counts what was plainly written also beyond the hold: a gateway that wrote more than it was asked for is overage", () => {
    const tokens = { ...noTokens, input: 10, output: million };
    const outcome: Outcome = { kind: "counted", tokens, errorFactor: 1500 as Permille, hiddenTokens: 0 };
    expect(settlementFor(reserved, outcome)).toMatchObject({ tokens, formula: "tokens", cost: costOf(price(), tokens).charged });
  });

  it("posts the delivered part of a cut answer, or what may have been produced unseen when that is more", () => {
    const cut = { kind: "cut", promptTokens: 100, deliveredTokens: 50, errorFactor: unchanged, reason: "client_left" } as const;
    const tokensOf = (hiddenTokens: number) => {
      const settlement = settlementFor(reserved, { ...cut, hiddenTokens });
      return settlement.kind === "post" ? settlement.tokens : undefined;
    };
    expect(tokensOf(0)).toEqual({ ...noTokens, input: 100, output: 50 });
    expect(tokensOf(80)).toEqual({ ...noTokens, input: 100, output: 80 });
  });

  it("posts the hold where nothing tells what was billed", () => {
    const expected = { kind: "post", cost: usd("1"), listCost: usd("1"), source: "assumed", formula: "assumed" };
    expect(settlementFor(reserved, { kind: "unknown", reason: "timeout" })).toMatchObject(expected);
    expect(settlementFor(reserved, { kind: "failedAtGateway", status: 500, billed: true })).toMatchObject(expected);
  });

  it("posts a model without a price with no amount, which is not 0", () => {
    const unpriced: Reserved = { hold: null, price: null };
    const outcome: Outcome = { kind: "reported", tokens: { ...noTokens, input: 1 }, clamped: false };
    expect(settlementFor(unpriced, outcome)).toMatchObject({ cost: null, listCost: null, formula: "unpriced" });
    expect(settlementFor(unpriced, { kind: "unknown", reason: "crash" })).toMatchObject({ cost: null, formula: "unpriced" });
  });

  it("is total: voids only what cannot have been billed, and is never below 0", () => {
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

  it("posts no more than the hold for a cut answer, and the hold itself for an unknown end", () => {
    fc.assert(
      fc.property(anyReserved, outcomes, (reserved, outcome) => {
        const settlement = settlementFor(reserved, outcome);
        if (settlement.kind === "void") return;
        if (outcome.kind === "cut") expect(settlement.cost ?? 0n).toBeLessThanOrEqual(reserved.hold ?? 0n);
        if (outcome.kind === "unknown") expect(settlement.cost).toBe(reserved.hold);
      }),
    );
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
        const cost = costOf(reserved.price, settlement.tokens);
        expect(settlement).toMatchObject({ cost: cost.charged, listCost: cost.list, minimumApplied: cost.minimumApplied });
        expect(settlement.formula).toBe(reserved.price.perRequest === null ? "tokens" : "per_request");
      }),
    );
  });

  it("holds nothing for nothing", () => {
    const free: Reserved = { hold: noMoney, price: price() };
    const cut: Outcome = { kind: "cut", promptTokens: 9, deliveredTokens: 9, errorFactor: unchanged, hiddenTokens: 0, reason: "client_left" };
    expect(settlementFor(free, cut)).toMatchObject({ cost: 0n, source: "partial", formula: "assumed" });
  });
});
