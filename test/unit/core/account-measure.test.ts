import { describe, expect, it } from "vitest";
import { measureOf, type AccountFigures, type AccountSample, type LedgerTotals } from "../../../src/core/account.ts";
import { noMoney, usd } from "../../../src/core/money.ts";

const none = { reported: noMoney, counted: noMoney, partial: noMoney, assumed: noMoney };
const totals = (written: number): LedgerTotals => ({
  written,
  posted: none,
  inDoubt: none,
  requests: 0,
  unpriced: 0,
  pending: 0,
  pendingUnpriced: 0,
  held: noMoney,
});
const samples = (...figures: readonly AccountFigures[]): AccountSample[] =>
  figures.map((each, index) => ({
    askedAt: index,
    answeredAt: index,
    account: "7",
    figures: each,
    before: totals(index),
    after: totals(index),
  }));

/** A pack at 100 credits a dollar. */
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

describe("what the gateway has billed", () => {
  it("is read from the used credits of a pack, by what credits are worth", () => {
    const all = samples(pack("0", "100000", "1000"), pack("50.5", "99949.5", "999.495"));
    const measure = measureOf(all);
    expect(measure).toMatchObject({ name: "used_credits", isCounter: true, step: usd("0.001") });
    expect(all.map((each) => measure?.billed(each))).toEqual([0n, usd("0.505")]);
    expect(all.map((each) => measure?.usd(each, "available_credits"))).toEqual([usd("1000"), usd("999.495")]);
    expect(all.map((each) => measure?.usd(each, "equivalent_in_usd"))).toEqual([usd("1000"), usd("999.495")]);
    expect(measure?.usd(all[0] as AccountSample, "frozen_credits")).toBeUndefined();
  });

  it("is read from those of a wallet where there is no pack", () => {
    const all = samples(wallet("5", "10000", "100"), wallet("6", "9999", "99.99"));
    const measure = measureOf(all);
    expect(measure).toMatchObject({ name: "credit_used", isCounter: true, step: usd("0.01") });
    expect(all.map((each) => measure?.billed(each))).toEqual([usd("0.05"), usd("0.06")]);
  });

  it("is read from the pack where the record has both", () => {
    expect(measureOf(samples({ ...pack("5", "10000", "100"), ...wallet("7", "10000", "100") }))?.name).toBe(
      "used_credits",
    );
  });

  it("is read from the wallet where the pack's counter does not change", () => {
    const all = samples(
      { ...pack("5", "10000", "100"), ...wallet("7", "10000", "100") },
      { ...pack("5", "9999", "99.99"), ...wallet("8", "9999", "99.99") },
    );
    expect(measureOf(all)?.name).toBe("credit_used");
  });

  it("is read from the balance where there are no credits", () => {
    const all = samples({ equivalent_in_usd: "10" }, { equivalent_in_usd: "9.5" }, {});
    const measure = measureOf(all);
    expect(measure).toMatchObject({ name: "equivalent_in_usd", isCounter: false, step: usd("0.01") });
    expect(all.map((each) => measure?.billed(each))).toEqual([-usd("10"), -usd("9.5"), undefined]);
    expect(all.map((each) => measure?.usd(each, "equivalent_in_usd"))).toEqual([usd("10"), usd("9.5"), undefined]);
    expect(measure?.usd(all[0] as AccountSample, "used_credits")).toBeUndefined();
    expect(measureOf(samples({ equivalent_in_usd: "10.125" }))?.step).toBe(usd("0.001"));
  });

  it("cannot be read where there is neither", () => {
    expect(measureOf([])).toBeUndefined();
    expect(measureOf(samples({ used_credits: "5", available_credits: "7" }))).toBeUndefined();
    expect(measureOf(samples({ equivalent_in_usd: "much" }))).toBeUndefined();
  });
});

describe("a counter is not used", () => {
  const balance = "equivalent_in_usd";
  it.each<[string, readonly AccountFigures[], string]>([
    [
      "where a sample leaves it out",
      [pack("5", "10000", "100"), { available_credits: "10000", equivalent_in_usd: "100" }],
      balance,
    ],
    ["where no sample tells what credits are worth", [{ used_credits: "5", equivalent_in_usd: "10" }], balance],
    ["where what is left is nothing", [pack("5", "0", "10")], balance],
    ["where the balance is nothing", [pack("5", "1000", "0")], balance],
    ["where what is left is owed", [pack("5", "-1000", "10")], balance],
    ["where the balance is owed", [pack("5", "1000", "-10")], balance],
    ["where a credit is worth more than a dollar", [pack("5", "10000", "100000")], balance],
    ["where the samples do not agree on its worth", [pack("5", "10000", "100"), pack("5", "10003", "100")], balance],
    ["where too little is left to tell", [pack("5", "1999", "19.99")], balance],
    ["and is taken where just enough is left to tell", [pack("5", "2000", "20")], "used_credits"],
    [
      "where it does not change while the ledger and the balance do",
      [pack("5", "10000", "100"), pack("5", "9999", "99.99")],
      balance,
    ],
    [
      "and is taken where one sample tells what credits are worth",
      [pack("5", "10000", "100"), { used_credits: "6" }],
      "used_credits",
    ],
    [
      "and is taken where the samples agree within what they state",
      [pack("5", "100000", "1000"), pack("5", "100001.4", "1000.01")],
      "used_credits",
    ],
    [
      "and is taken where it does not change and the balance does not fall",
      [pack("5", "10000", "100"), pack("5", "10001", "100.01")],
      "used_credits",
    ],
    [
      "and is taken where neither it nor the balance changes",
      [pack("5", "10000", "100"), pack("5", "10000", "100")],
      "used_credits",
    ],
    [
      "and is taken where it moves against the balance",
      [pack("5", "10000", "100"), pack("4", "9999", "99.99")],
      "used_credits",
    ],
  ])("%s", (_, figures, name) => {
    expect(measureOf(samples(...figures))?.name).toBe(name);
  });

  it.each(["expired_credits", "frozen_credits", "inactive_credits", "credit_frozen"] as const)(
    "unless %s explain the balance",
    (figure) => {
      const all = samples(pack("5", "10000", "100", { [figure]: "3" }), pack("5", "9999", "99.99", { [figure]: "4" }));
      expect(measureOf(all)?.name).toBe("used_credits");
      const still = samples(
        pack("5", "10000", "100", { [figure]: "3" }),
        pack("5", "9999", "99.99", { [figure]: "3" }),
      );
      expect(measureOf(still)?.name).toBe("equivalent_in_usd");
    },
  );

  it.each(["frozen_credits", "inactive_credits", "credit_frozen"] as const)(
    "where what expired and %s together explain nothing",
    (figure) => {
      const all = samples(
        pack("5", "10000", "100", { expired_credits: "3", [figure]: "3" }),
        pack("5", "9999", "99.99", { expired_credits: "4", [figure]: "2" }),
      );
      expect(measureOf(all)?.name).toBe("equivalent_in_usd");
    },
  );

  it("where the ledger wrote nothing it is not reported as unchanging", () => {
    const [first, last] = samples(pack("5", "10000", "100"), pack("5", "9999", "99.99"));
    if (first === undefined || last === undefined) throw new Error("two samples");
    expect(measureOf([first, { ...last, after: totals(0) }])?.name).toBe("used_credits");
    expect(measureOf([first, { ...last, before: totals(0) }])?.name).toBe("equivalent_in_usd");
    expect(measureOf([{ ...first, after: totals(1) }, last])?.name).toBe("equivalent_in_usd");
  });
});

describe("a worth that is stated", () => {
  it.each<[string, readonly AccountFigures[], string]>([
    ["fits up to the last digit of both", [pack("5", "100002", "1000")], "used_credits"],
    ["does not fit beyond it", [pack("5", "100003", "1000")], "equivalent_in_usd"],
    ["does not fit below it", [pack("5", "99997", "1000")], "equivalent_in_usd"],
    ["fits more closely with a digit more of the credits", [pack("5", "100001.5", "1000")], "equivalent_in_usd"],
    ["fits more closely with a digit more of the balance", [pack("5", "100002", "1000.001")], "equivalent_in_usd"],
    ["is read from samples with something left", [pack("5", "100000", "1000"), pack("6", "0", "1000")], "used_credits"],
  ])("%s", (_, figures, name) => {
    expect(measureOf(samples(...figures))?.name).toBe(name);
  });
});

describe("a credit's worth", () => {
  const worth = (...figures: readonly AccountFigures[]) => {
    const all = samples(...figures);
    return measureOf(all)?.billed({ ...(all[0] as AccountSample), figures: { used_credits: "1000000" } });
  };
  it("is read from the largest balance, to the nearest whole number", () => {
    expect(worth(pack("5", "100000", "1000"))).toBe(usd("10000"));
    expect(worth(pack("5", "100000.4", "1000"))).toBe(usd("10000"));
    expect(worth(pack("5", "99999.6", "1000"))).toBe(usd("10000"));
    expect(worth(pack("5", "1.6", "0.01"), pack("5", "100000", "1000"), pack("5", "1.4", "0.01"))).toBe(usd("10000"));
  });

  it("has a step rounded up to what a charge can show", () => {
    expect(measureOf(samples(pack("0.000000000001", "300000", "100000")))?.step).toBe(1n);
    expect(measureOf(samples(pack("1", "300000", "100000")))?.step).toBe(333_333_333_334n);
  });
});
