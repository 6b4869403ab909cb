import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { billFactor, explainingGroups, type GroupCost } from "../../../src/core/reconciliation.ts";
import { noMoney, usd, type PicoUsd } from "../../../src/core/money.ts";

const million = 1_000_000n;

function compared(ledger: string, gateway: string, uncertain = "0.001") {
  const [charged, billed, either] = [usd(ledger), usd(gateway), usd(uncertain)];
  const difference = (billed - charged) as PicoUsd;
  return {
    ledger: charged,
    gateway: billed,
    below: either,
    above: either as PicoUsd | null,
    difference,
    agrees: difference <= either && difference >= -either,
  };
}

const official = (cost: string): GroupCost => ({ group: "official", cost: usd(cost), fraction: million });
const small = (cost: string): GroupCost => ({ group: "small-general", cost: usd(cost), fraction: 750_000n });

describe("the billed amount for each dollar in the ledger", () => {
  it.each([
    ["10", "10", "0.001", 1_000_000n, 999_900n, 1_000_101n],
    ["10", "7.50", "0", 750_000n, 750_000n, 750_000n],
    ["10", "20", "1", 2_000_000n, 1_818_181n, 2_222_223n],
  ])(
    "for a ledger of %s and a bill of %s, uncertain by %s, has a value and bounds",
    (ledger, gateway, uncertain, value, from, to) => {
      expect(billFactor(compared(ledger, gateway, uncertain))).toEqual({ value, from, to });
    },
  );

  it("is negative if the gateway refunded money", () => {
    const gateway = -usd("7.50") as PicoUsd;
    expect(billFactor({ ...compared("10", "7.50", "0"), gateway })).toEqual({
      value: -750_000n,
      from: -750_000n,
      to: -750_000n,
    });
  });

  it("has no bound if the ledger's sum has none, and is null if nothing was charged", () => {
    expect(billFactor({ ...compared("1", "1"), above: null })).toMatchObject({ from: null });
    expect(billFactor({ ...compared("1", "1", "2") })).toMatchObject({ to: null });
    expect(billFactor({ ...compared("1", "1", "1") })).toMatchObject({ to: null });
    expect(billFactor(compared("0", "1"))).toBeNull();
    expect(billFactor({ ...compared("1", "1"), ledger: -usd("1") as PicoUsd })).toBeNull();
  });

  it("contains the true factor whenever the ledger's true sum is within its uncertainty", () => {
    const amount = fc.bigInt({ min: 1n, max: 10n ** 18n });
    fc.assert(
      fc.property(
        amount,
        fc.bigInt({ min: 1n, max: 3n * million }),
        fc.integer({ min: -100, max: 100 }),
        (truth, factor, off) => {
          const ledger = (truth + (truth * BigInt(off)) / 1000n) as PicoUsd;
          fc.pre(ledger > 0n);
          const either = (truth / 10n + 1n) as PicoUsd;
          const gateway = ((truth * factor) / million) as PicoUsd;
          const found = billFactor({
            ledger,
            gateway,
            below: either,
            above: either,
            difference: noMoney,
            agrees: false,
          });
          expect(found?.from).toBeLessThanOrEqual(factor);
          if (found?.to !== null) expect(found?.to).toBeGreaterThanOrEqual((gateway * million) / truth);
        },
      ),
    );
  });
});

describe("a group's fraction that explains a difference", () => {
  it("is named with the fraction in force", () => {
    expect(explainingGroups(compared("10", "7.50"), [official("10")])).toEqual([
      { group: "official", fraction: 750_000n, insteadOf: million, from: 749_900n, to: 750_101n },
    ]);
  });

  it("applies to one group and leaves the charges of the others unchanged", () => {
    const found = explainingGroups(compared("10", "8"), [official("4"), small("6")]);
    expect(found.map(({ group, fraction, insteadOf }) => [group, fraction, insteadOf])).toEqual([
      ["official", 500_000n, million],
      ["small-general", 500_000n, 750_000n],
    ]);
  });

  it("may be the official price", () => {
    expect(explainingGroups(compared("7.50", "10"), [small("7.50")])).toMatchObject([
      { group: "small-general", fraction: million, insteadOf: 750_000n },
    ]);
  });

  it.each([
    ["7.50", "0", 750_000n, 750_001n],
    // Bounds are rounded outward.
    ["7.49999", "0", 749_999n, 750_000n],
    ["7.50", "0.24999", 725_001n, 775_000n],
  ])("lies within its bounds for a bill of %s instead of 10, uncertain by %s", (gateway, uncertain, from, to) => {
    expect(explainingGroups(compared("10", gateway, uncertain), [official("10")])).toEqual([
      { group: "official", fraction: 750_000n, insteadOf: million, from, to },
    ]);
  });

  it("weights each group by its share if the groups cover a longer span", () => {
    expect(explainingGroups(compared("10", "8"), [official("8"), small("12")])).toHaveLength(2);
  });

  it.each<[string, ReturnType<typeof explainingGroups>]>([
    ["ledger and bill agree", explainingGroups(compared("10", "10.0005"), [official("10")])],
    ["the next round fraction is too low", explainingGroups(compared("10", "9.10"), [official("10")])],
    ["the next round fraction is too high", explainingGroups(compared("10", "9.40"), [official("10")])],
    [
      "the next round fraction is the one in force",
      explainingGroups(compared("10", "9.998999999999", "0.001"), [official("10")]),
    ],
    ["it would be above the official price", explainingGroups(compared("10", "12"), [official("10")])],
    ["it would be zero", explainingGroups(compared("10", "0.001", "0.01"), [official("10")])],
    [
      "the uncertainty leaves room for another one",
      explainingGroups(compared("10", "7.50", "0.249995"), [official("10")]),
    ],
    [
      "models without a price leave the sum without a bound",
      explainingGroups({ ...compared("10", "7.50"), above: null }, [official("10")]),
    ],
    ["there are no charges", explainingGroups(compared("0", "7.50"), [])],
    ["all groups together charged nothing", explainingGroups(compared("10", "7.50"), [official("0")])],
    [
      "the ledger's sum is below zero",
      explainingGroups({ ...compared("10", "7.50"), ledger: -usd("10") as PicoUsd }, [
        official("8"),
        { ...official("4"), cost: -usd("4") as PicoUsd },
      ]),
    ],
    [
      "the group charged nothing",
      explainingGroups(compared("10", "7.50"), [official("10"), small("0")]).filter(
        ({ group }) => group !== "official",
      ),
    ],
  ])("is not named if %s", (_, found) => {
    expect(found).toEqual([]);
  });
});
