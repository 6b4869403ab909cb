import { describe, expect, it } from "vitest";
import { measureOf, type AccountFigures, type AccountSample } from "../../../src/core/account.ts";
import { usd } from "../../../src/core/money.ts";
import { ledgerTotals } from "./examples.ts";

const totals = (written: number) => ledgerTotals({ written });
const samples = (...figures: readonly AccountFigures[]): AccountSample[] =>
  figures.map((each, index) => ({
    askedAt: index,
    answeredAt: index,
    account: "7",
    figures: each,
    before: totals(index),
    after: totals(index),
  }));

/** Figures of a pack at 100 credits per dollar. */
const pack = (used: string, available: string, balance: string, more: AccountFigures = {}): AccountFigures => ({
  used_credits: used,
  available_credits: available,
  equivalent_in_usd: balance,
  ...more,
});
const wallet = (used: string, left: string, balance: string): AccountFigures => ({
  credit_used: used,
  credit_remain: left,
  equivalent_in_usd: balance,
});

describe("the billed amount", () => {
  it("is the used credits of a pack times a credit's worth", () => {
    const all = samples(pack("0", "100000", "1000"), pack("50.5", "99949.5", "999.495"));
    const measure = measureOf(all);
    expect(measure).toMatchObject({ name: "used_credits", isCounter: true, step: usd("0.001") });
    expect(all.map((each) => measure?.billed(each))).toEqual([0n, usd("0.505")]);
    expect(all.map((each) => measure?.usd(each, "available_credits"))).toEqual([usd("1000"), usd("999.495")]);
    expect(all.map((each) => measure?.usd(each, "equivalent_in_usd"))).toEqual([usd("1000"), usd("999.495")]);
    expect(measure?.usd(all[0] as AccountSample, "frozen_credits")).toBeUndefined();
  });

  it("is read from the used credits of a wallet if there is no pack", () => {
    const all = samples(wallet("5", "10000", "100"), wallet("6", "9999", "99.99"));
    const measure = measureOf(all);
    expect(measure).toMatchObject({ name: "credit_used", isCounter: true, step: usd("0.01") });
    expect(all.map((each) => measure?.billed(each))).toEqual([usd("0.05"), usd("0.06")]);
  });

  it("is read from the pack if the record has a pack and a wallet", () => {
    expect(measureOf(samples({ ...pack("5", "10000", "100"), ...wallet("7", "10000", "100") }))?.name).toBe(
      "used_credits",
    );
  });

  it("is read from the wallet if the pack's counter does not change", () => {
    const all = samples(
      { ...pack("5", "10000", "100"), ...wallet("7", "10000", "100") },
      { ...pack("5", "9999", "99.99"), ...wallet("8", "9999", "99.99") },
    );
    expect(measureOf(all)?.name).toBe("credit_used");
  });

  it("is read from the balance if the record has no credits", () => {
    const all = samples({ equivalent_in_usd: "10" }, { equivalent_in_usd: "9.5" }, {});
    const measure = measureOf(all);
    expect(measure).toMatchObject({ name: "equivalent_in_usd", isCounter: false, step: usd("0.01") });
    expect(all.map((each) => measure?.billed(each))).toEqual([-usd("10"), -usd("9.5"), undefined]);
    expect(all.map((each) => measure?.usd(each, "equivalent_in_usd"))).toEqual([usd("10"), usd("9.5"), undefined]);
    expect(measure?.usd(all[0] as AccountSample, "used_credits")).toBeUndefined();
    expect(measureOf(samples({ equivalent_in_usd: "10.125" }))?.step).toBe(usd("0.001"));
  });

  it("is unknown without samples or without a readable balance", () => {
    expect(measureOf([])).toBeUndefined();
    expect(measureOf(samples({ used_credits: "5", available_credits: "7" }))).toBeUndefined();
    expect(measureOf(samples({ equivalent_in_usd: "much" }))).toBeUndefined();
  });
});

describe("the credit counter", () => {
  const balance = "equivalent_in_usd";
  it.each<[string, readonly AccountFigures[], string]>([
    [
      "is not used if a sample omits it",
      [pack("5", "10000", "100"), { available_credits: "10000", equivalent_in_usd: "100" }],
      balance,
    ],
    [
      "is not used if no sample shows what a credit is worth",
      [{ used_credits: "5", equivalent_in_usd: "10" }],
      balance,
    ],
    ["is not used if no credits are left", [pack("5", "0", "10")], balance],
    ["is not used if the balance is zero", [pack("5", "1000", "0")], balance],
    ["is not used if the remaining credits are negative", [pack("5", "-1000", "10")], balance],
    ["is not used if the balance is negative", [pack("5", "1000", "-10")], balance],
    ["is not used if a credit is worth more than a dollar", [pack("5", "10000", "100000")], balance],
    [
      "is not used if the samples disagree on a credit's worth",
      [pack("5", "10000", "100"), pack("5", "10003", "100")],
      balance,
    ],
    ["is not used if too few credits are left to derive their worth", [pack("5", "1999", "19.99")], balance],
    ["is used if just enough credits are left to derive their worth", [pack("5", "2000", "20")], "used_credits"],
    [
      "is not used if it stays constant while the ledger and the balance change",
      [pack("5", "10000", "100"), pack("5", "9999", "99.99")],
      balance,
    ],
    [
      "is used if one sample shows what a credit is worth",
      [pack("5", "10000", "100"), { used_credits: "6" }],
      "used_credits",
    ],
    [
      "is used if the samples agree within their precision",
      [pack("5", "100000", "1000"), pack("5", "100001.4", "1000.01")],
      "used_credits",
    ],
    [
      "is used if it stays constant and the balance does not fall",
      [pack("5", "10000", "100"), pack("5", "10001", "100.01")],
      "used_credits",
    ],
    [
      "is used if neither the counter nor the balance changes",
      [pack("5", "10000", "100"), pack("5", "10000", "100")],
      "used_credits",
    ],
    [
      "is used if it falls together with the balance",
      [pack("5", "10000", "100"), pack("4", "9999", "99.99")],
      "used_credits",
    ],
  ])("%s", (_, figures, name) => {
    expect(measureOf(samples(...figures))?.name).toBe(name);
  });

  it.each(["expired_credits", "frozen_credits", "inactive_credits", "credit_frozen"] as const)(
    "is used while constant only if a change of %s explains the balance",
    (figure) => {
      const all = samples(pack("5", "10000", "100", { [figure]: "3" }), pack("5", "9999", "99.99", { [figure]: "4" }));
      expect(measureOf(all)?.name).toBe("used_credits");
      const unchanged = samples(
        pack("5", "10000", "100", { [figure]: "3" }),
        pack("5", "9999", "99.99", { [figure]: "3" }),
      );
      expect(measureOf(unchanged)?.name).toBe("equivalent_in_usd");
    },
  );

  it.each(["frozen_credits", "inactive_credits", "credit_frozen"] as const)(
    "is not used if the changes of expired_credits and %s cancel out",
    (figure) => {
      const all = samples(
        pack("5", "10000", "100", { expired_credits: "3", [figure]: "3" }),
        pack("5", "9999", "99.99", { expired_credits: "4", [figure]: "2" }),
      );
      expect(measureOf(all)?.name).toBe("equivalent_in_usd");
    },
  );

  it("is used while constant if the ledger wrote nothing", () => {
    const [first, last] = samples(pack("5", "10000", "100"), pack("5", "9999", "99.99"));
    if (first === undefined || last === undefined) throw new Error("two samples");
    expect(measureOf([first, { ...last, after: totals(0) }])?.name).toBe("used_credits");
    expect(measureOf([first, { ...last, before: totals(0) }])?.name).toBe("equivalent_in_usd");
    expect(measureOf([{ ...first, after: totals(1) }, last])?.name).toBe("equivalent_in_usd");
  });
});

describe("a credit's worth implied by a sample", () => {
  it.each<[string, readonly AccountFigures[], string]>([
    ["is accepted within the last digit of the credits and the balance", [pack("5", "100002", "1000")], "used_credits"],
    ["is rejected if the credits are too many for the balance", [pack("5", "100003", "1000")], "equivalent_in_usd"],
    ["is rejected if the credits are too few for the balance", [pack("5", "99997", "1000")], "equivalent_in_usd"],
    [
      "is rejected if one more digit of the credits shows a mismatch",
      [pack("5", "100001.5", "1000")],
      "equivalent_in_usd",
    ],
    [
      "is rejected if one more digit of the balance shows a mismatch",
      [pack("5", "100002", "1000.001")],
      "equivalent_in_usd",
    ],
    [
      "is not read from a sample without credits left",
      [pack("5", "100000", "1000"), pack("6", "0", "1000")],
      "used_credits",
    ],
  ])("%s", (_, figures, name) => {
    expect(measureOf(samples(...figures))?.name).toBe(name);
  });
});

describe("a credit's worth", () => {
  const worth = (...figures: readonly AccountFigures[]) => {
    const all = samples(...figures);
    return measureOf(all)?.billed({ ...(all[0] as AccountSample), figures: { used_credits: "1000000" } });
  };
  it("is derived from the largest balance, in whole credits per dollar", () => {
    expect(worth(pack("5", "100000", "1000"))).toBe(usd("10000"));
    expect(worth(pack("5", "100000.4", "1000"))).toBe(usd("10000"));
    expect(worth(pack("5", "99999.6", "1000"))).toBe(usd("10000"));
    expect(worth(pack("5", "1.6", "0.01"), pack("5", "100000", "1000"), pack("5", "1.4", "0.01"))).toBe(usd("10000"));
  });

  it("has a step rounded up to a whole pico-USD", () => {
    expect(measureOf(samples(pack("0.000000000001", "300000", "100000")))?.step).toBe(1n);
    expect(measureOf(samples(pack("1", "300000", "100000")))?.step).toBe(333_333_333_334n);
  });
});
