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
  it("returns the cost, list cost and minimum of the same tokens under the other price", () => {
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
    const lookups: unknown[] = [];
    recomputeUnder(charge({ model: "gpt-4o-2024-11-20" }), (...args) => {
      lookups.push(...args);
      return half;
    });
    expect(lookups).toEqual(["gpt-4o-2024-11-20", noon]);
  });

  it("prices a charge that had no price if its usage is known", () => {
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
    "leaves out a charge with the formula %s, whatever its tokens",
    (formula) => {
      expect(recomputeUnder(charge({ formula, source: "partial" }), () => half)).toEqual({ ok: false, why: formula });
    },
  );

  it("prices a flat charge of any source, but no charge without a formula", () => {
    expect(recomputeUnder(charge({ formula: "per_request", source: "assumed" }), () => half)).toMatchObject({
      ok: true,
    });
    expect(recomputeUnder(charge({ formula: null }), () => half)).toEqual({ ok: false, why: "no_usage" });
    expect(() => recomputeUnder(charge({ formula: "new" as "tokens" }), () => half)).toThrow("unreachable");
  });

  it.each(["unknown_model", "no_price"] as const)("reports %s", (why) => {
    expect(recomputeUnder(charge(), () => why)).toEqual({ ok: false, why });
  });

  it("reports an amount that is too large for a charge", () => {
    const expensive = price({ tiers: [tier(0, rates({ input: "10000", output: "10000" }))] });
    const tokens = { ...noTokens, input: 900_000_000_000, output: 900_000_000_000 };
    expect(recomputeUnder(charge({ tokens }), () => expensive)).toEqual({ ok: false, why: "too_large" });
  });

  it("returns the stored amounts exactly under the price that was charged", () => {
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
        // Under any other price, it returns amounts or a reason, and never throws.
        const changed = recomputeUnder(stored, () => other);
        expect(changed.ok ? changed.cost.charged >= (0n as PicoUsd) : changed.why).toBeTruthy();
      }),
    );
  });
});
