import { describe, expect, it } from "vitest";
import type { AccountSample } from "../../../src/core/account.ts";
import { usd, type PicoUsd } from "../../../src/core/money.ts";
import type { Uncertainty, Reconciliation } from "../../../src/core/reconciliation.ts";
import { reconciliationJson } from "../../../src/reporting/reconciliation.ts";

const sample = { askedAt: 0, answeredAt: 0, figures: {} } as AccountSample;

function doubt(kind: Uncertainty["kind"], below: string, above: string | null): Uncertainty {
  return { kind, below: usd(below), above: above === null ? null : usd(above) };
}

/** Compares 100 USD in the ledger with a bill, given these doubts. */
function compared(bill: string, doubts: readonly Uncertainty[], requests = 10) {
  const [ledger, gateway] = [usd("100"), usd(bill)];
  const total = (side: "below" | "above") =>
    doubts.some((each) => each[side] === null)
      ? null
      : (doubts.reduce((sum, each) => sum + (each[side] ?? 0n), 0n) as PicoUsd);
  const [below, above] = [total("below") ?? usd("0"), total("above")];
  const difference = (gateway - ledger) as PicoUsd;
  const found: Reconciliation = {
    first: sample,
    last: sample,
    samples: 2,
    measure: "used_credits",
    requests,
    ledger,
    inDoubt: usd("0"),
    gateway,
    difference,
    uncertainties: doubts,
    below,
    above,
    agrees: difference >= -below && (above === null || difference <= above),
    movements: [],
    leftOut: [],
  };
  const { ok, comparison, why } = reconciliationJson(found);
  return [ok, comparison, why];
}

describe("the comparison of bill and ledger", () => {
  it("agrees only if the uncertainty is at most 5% of the amount", () => {
    expect(compared("99", [doubt("counted", "5", "1")])).toEqual([true, "agree", null]);
    expect(compared("99", [doubt("counted", "5.01", "1")])).toEqual([true, "cannot_tell", expect.any(String)]);
    expect(compared("101", [doubt("counted", "0", "5.01")])).toEqual([true, "agree", null]);
    expect(compared("101", [doubt("counted", "0", "5.06")])).toEqual([true, "cannot_tell", expect.any(String)]);
    expect(compared("23", [doubt("in_doubt", "80", "0")])).toEqual([true, "cannot_tell", expect.any(String)]);
    expect(compared("100", [doubt("unpriced", "0", null)])).toEqual([true, "cannot_tell", expect.any(String)]);
  });

  it("differs beyond the uncertainty, however large it is", () => {
    expect(compared("10", [doubt("in_doubt", "80", "0")])).toEqual([false, "differs", null]);
    expect(compared("106", [doubt("rounding", "0.1", "0.1")])).toEqual([false, "differs", null]);
  });

  it("names the cause of the largest part of the uncertainty", () => {
    const why = (...doubts: Uncertainty[]) => compared("100", doubts)[2];
    expect(why(doubt("pending", "3", "9"), doubt("counted", "8", "1"))).toMatch(/^Requests were running /);
    expect(why(doubt("pending", "3", "7"), doubt("counted", "8", "1"))).toMatch(/^The gateway reported no usage /);
    expect(why(doubt("counted", "80", "1"), doubt("unpriced", "0", null))).toMatch(/^Some models have no price/);
    expect(compared("100", [doubt("rounding", "9", "9")], 0)[2]).toMatch(/^No request ended in this span/);
  });
});
