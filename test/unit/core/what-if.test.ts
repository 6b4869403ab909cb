import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { usd, type PicoUsd } from "../../../src/core/money.ts";
import { settlementFor } from "../../../src/core/settlement.ts";
import { noTokens } from "../../../src/core/usage.ts";
import { notRecomputed, recomputeUnder, type ChargeInputs } from "../../../src/core/what-if.ts";
import { anyReserved, outcomes, prices } from "../../support/price-arbitraries.ts";
import { price, rates, tier } from "../../support/example-rates.ts";

const noon = Date.parse("2026-11-20T12:00:00Z");

const charge = (more: Partial<ChargeInputs> = {}): ChargeInputs => ({
  at: noon,
  model: "example",
  formula: "tokens",
  source: "reported",
  tokens: { ...noTokens, input: 1000, output: 100 },
  cost: usd("0.00175"),
  listCost: usd("0.0035"),
  ...more,
});
const half = price({ tiers: [tier(0, rates({ input: "0.50", output: "2" }), rates({ input: "1", output: "4" }))] });

it("a charge is left out for one of seven reasons", () => {
  expect(notRecomputed).toEqual([
    "assumed",
    "no_usage",
    "task",
    "adjustment",
    "unknown_model",
    "no_price",
    "too_large",
  ]);
});

describe("recomputeUnder", () => {
  it("gives the cost of the same tokens, the list cost and the minimum of the other price", () => {
    expect(recomputeUnder(charge(), () => half)).toMatchObject({
      ok: true,
      cost: { charged: usd("0.0007"), list: usd("0.0014"), minimumApplied: false },
    });
    const least = price({ ...half, minimum: { tokens: 0, usd: usd("0.01") } });
    expect(recomputeUnder(charge(), () => least)).toMatchObject({
      cost: { charged: usd("0.01"), minimumApplied: true },
    });
    const flat = price({ perRequest: { charged: usd("0.04"), list: usd("0.08") } });
    expect(recomputeUnder(charge(), () => flat)).toMatchObject({ cost: { charged: usd("0.04"), list: usd("0.08") } });
  });

  it("asks for the price of the requested model at the time of the admission", () => {
    const asked: unknown[] = [];
    recomputeUnder(charge({ model: "gpt-4o-2024-11-20" }), (...args) => {
      asked.push(...args);
      return half;
    });
    expect(asked).toEqual(["gpt-4o-2024-11-20", noon]);
  });

  it("prices what had no price when it was charged, where its usage is known", () => {
    const unpriced = { formula: "unpriced", cost: null, listCost: null } as const;
    expect(recomputeUnder(charge({ ...unpriced, source: "counted" }), () => half)).toMatchObject({
      ok: true,
      cost: { charged: usd("0.0007") },
    });
    expect(recomputeUnder(charge({ ...unpriced, source: "assumed" }), () => half)).toEqual({
      ok: false,
      why: "no_usage",
    });
  });

  it.each(["assumed", "task", "adjustment"] as const)(
    "leaves a charge by the formula %s, whatever tokens it has",
    (formula) => {
      expect(recomputeUnder(charge({ formula, source: "partial" }), () => half)).toEqual({ ok: false, why: formula });
    },
  );

  it("prices a flat charge however its amount is known, and none that never had a formula", () => {
    expect(recomputeUnder(charge({ formula: "per_request", source: "assumed" }), () => half)).toMatchObject({
      ok: true,
    });
    expect(recomputeUnder(charge({ formula: null }), () => half)).toEqual({ ok: false, why: "no_usage" });
    expect(() => recomputeUnder(charge({ formula: "new" as "tokens" }), () => half)).toThrow("unreachable");
  });

  it.each(["unknown_model", "no_price"] as const)("says %s", (why) => {
    expect(recomputeUnder(charge(), () => why)).toEqual({ ok: false, why });
  });

  it("reports what would be above a charge", () => {
    const dear = price({ tiers: [tier(0, rates({ input: "10000", output: "10000" }))] });
    const tokens = { ...noTokens, input: 900_000_000_000, output: 900_000_000_000 };
    expect(recomputeUnder(charge({ tokens }), () => dear)).toEqual({ ok: false, why: "too_large" });
  });

  it("under the very price that charged it gives the stored amounts to the last digit, whatever the price and the end", () => {
    fc.assert(
      fc.property(anyReserved, outcomes, prices, (reserved, outcome, other) => {
        const settled = settlementFor(reserved, outcome);
        if (settled.kind === "void") return;
        const stored: ChargeInputs = { ...settled, at: noon, model: "m" };
        const same = recomputeUnder(stored, () => reserved.price ?? "no_price");
        if (settled.formula === "tokens" || settled.formula === "per_request") {
          expect(same).toMatchObject({
            ok: true,
            cost: { charged: stored.cost, list: stored.listCost, minimumApplied: settled.minimumApplied },
          });
        } else {
          expect(same.ok).toBe(false);
        }
        // Under any other, it is recomputed or says why not; it never throws.
        const changed = recomputeUnder(stored, () => other);
        expect(changed.ok ? changed.cost.charged >= (0n as PicoUsd) : changed.why).toBeTruthy();
      }),
    );
  });
});
