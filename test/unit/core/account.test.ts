import { describe, expect, it } from "vitest";
import {
  accountFigures,
  creditKinds,
  isIdleBetween,
  postedTotal,
  samplesToThin,
  scaledFigure,
  stepOf,
  unsettledAt,
  type AccountSample,
  type LedgerTotals,
} from "../../../src/core/account.ts";
import type { PicoUsd } from "../../../src/core/money.ts";
import { ledgerTotals, noAmounts } from "./examples.ts";

const pico = (amount: number) => BigInt(amount) as PicoUsd;
const sample = (changes: Partial<AccountSample> = {}): AccountSample => ({
  askedAt: 0,
  answeredAt: 1,
  account: "7",
  figures: {},
  before: ledgerTotals(),
  after: ledgerTotals(),
  ...changes,
});

describe("a figure of the account record", () => {
  it.each<[string | undefined, bigint | undefined]>([
    ["0", 0n],
    ["1", 10n ** 12n],
    ["12.5", 12_500_000_000_000n],
    ["-0.5", -500_000_000_000n],
    ["0.000000000001", 1n],
    ["0.0000000000019", 1n],
    ["1".repeat(30), BigInt("1".repeat(30)) * 10n ** 12n],
    [undefined, undefined],
    ["", undefined],
    ["1e3", undefined],
    [".5", undefined],
    ["1.", undefined],
    ["+1", undefined],
    ["1".repeat(31), undefined],
    [`0.${"1".repeat(31)}`, undefined],
    ["x1", undefined],
    ["1x", undefined],
    ["--1", undefined],
  ])("%j is read as %s pico-USD", (text, expected) => {
    expect(scaledFigure(text)).toBe(expected);
  });

  it.each<[readonly (string | undefined)[], bigint, bigint]>([
    [[], 100n, 100n],
    [[], 10n ** 13n, 10n ** 12n],
    [["5"], 10n ** 13n, 10n ** 12n],
    [["5.25", undefined, "1.5"], 10n ** 12n, 10n ** 10n],
    [["5.250", "7.5000"], 10n ** 12n, 10n ** 10n],
    [["1.5", "1.123456"], 10n ** 12n, 10n ** 6n],
    [["1.000000000001"], 10n ** 12n, 1n],
    [["1.00000000000001"], 10n ** 12n, 1n],
    [["1.5"], 10n ** 11n, 10n ** 11n],
    [["1.5"], 10n ** 10n, 10n ** 10n],
  ])("that samples state as %j, with a step of at most %i, has the step %i", (texts, atMost, step) => {
    expect(stepOf(texts, atMost)).toBe(step);
  });

  it("has one of twelve names", () => {
    expect(accountFigures).toEqual([
      "equivalent_in_usd",
      "total_credits",
      "used_credits",
      "frozen_credits",
      "expired_credits",
      "inactive_credits",
      "available_credits",
      "credit_remain",
      "credit_used",
      "credit_frozen",
      "llm_remain",
      "llm_used",
    ]);
    expect(creditKinds).toEqual(["total", "used", "frozen", "available"]);
  });
});

describe("a sample", () => {
  it("sums the posted amounts of all sources", () => {
    expect(
      postedTotal(
        ledgerTotals({ posted: { reported: pico(1), counted: pico(20), partial: pico(300), assumed: pico(4000) } }),
      ),
    ).toBe(4321n);
  });

  it("counts holds and the amounts posted while it was taken as unsettled", () => {
    const posted = (amount: number, held = 0) =>
      ledgerTotals({ posted: { ...noAmounts, reported: pico(amount) }, held: pico(held) });
    expect(unsettledAt(sample({ before: posted(10, 99), after: posted(15, 7) }))).toBe(12n);
    expect(unsettledAt(sample({ before: posted(10), after: posted(10, 7) }))).toBe(7n);
    expect(unsettledAt(sample({ before: posted(15), after: posted(10, 7) }))).toBe(7n);
  });

  it.each<[Partial<LedgerTotals>, Partial<LedgerTotals>, boolean]>([
    [{ written: 5 }, { written: 5 }, true],
    [{ written: 5 }, { written: 6 }, false],
    [{ written: 5, pending: 1 }, { written: 5 }, false],
  ])("is idle until the next sample only if no request ran or began: %j, %j", (before, after, expected) => {
    const a = sample({ before: ledgerTotals(before), after: ledgerTotals({ written: 999, pending: 9 }) });
    const b = sample({ before: ledgerTotals({ written: 999, pending: 9 }), after: ledgerTotals(after) });
    expect(isIdleBetween(a, b)).toBe(expected);
  });
});

describe("the thinning of samples", () => {
  const hour = 3_600_000;
  const day = 24 * hour;
  const now = 1000 * day;

  let written = 0;
  const at = (hoursAgo: number, minute = 0, changes: Partial<AccountSample> = {}): AccountSample => {
    written += 1;
    return sample({
      askedAt: now - hoursAgo * hour + minute * 60_000,
      before: ledgerTotals({ written, pending: 1 }),
      after: ledgerTotals({ written, pending: 1 }),
      ...changes,
    });
  };
  const held = (amount: number) => ({ after: ledgerTotals({ held: pico(amount) }) });
  const thinned = (samples: readonly AccountSample[]) =>
    samplesToThin(samples, now).map((askedAt) => samples.findIndex((each) => each.askedAt === askedAt));

  it("keeps all samples of the last week", () => {
    expect(thinned([at(7 * 24, 0), at(7 * 24, 1), at(7 * 24, 2)])).toEqual([]);
  });

  it("keeps the first sample of each hour after a week", () => {
    expect(thinned([at(8 * 24, 0), at(8 * 24, 30), at(8 * 24, 59), at(8 * 24 - 1, 0), at(8 * 24 - 1, 1)])).toEqual([
      1, 2, 4,
    ]);
  });

  it("keeps a sample that is exactly a week old, and may remove an older one", () => {
    const weekOldPlus = (extraMs: number) => [
      at(7 * 24, 0, { askedAt: now - 7 * day - extraMs - 1 }),
      at(7 * 24, 0, { askedAt: now - 7 * day - extraMs }),
    ];
    expect(thinned(weekOldPlus(0))).toEqual([]);
    expect(thinned(weekOldPlus(1))).toEqual([1]);
  });

  it("keeps the first sample of each day after a hundred days", () => {
    expect(thinned([at(101 * 24, 0), at(101 * 24 - 5, 0), at(101 * 24 - 23, 59), at(101 * 24 - 24, 0)])).toEqual([
      1, 2,
    ]);
    expect(thinned([at(100 * 24, 0), at(100 * 24 - 1, 0)])).toEqual([]);
  });

  it("applies the ages exactly to the millisecond", () => {
    const asked = (...times: readonly number[]) => times.map((askedAt) => at(0, 0, { askedAt }));
    const later = now + hour / 2;
    expect(samplesToThin(asked(later - 7 * day - 1, later - 7 * day), later)).toEqual([]);
    expect(samplesToThin(asked(later - 7 * day - 2, later - 7 * day - 1), later)).toEqual([later - 7 * day - 1]);
    const atNoon = now + 12 * hour;
    expect(samplesToThin(asked(atNoon - 100 * day - 2 * hour, atNoon - 100 * day), atNoon)).toEqual([]);
    expect(samplesToThin(asked(atNoon - 100 * day - 2 * hour, atNoon - 100 * day - 1), atNoon)).toEqual([
      atNoon - 100 * day - 1,
    ]);
    // Only the first is past the age of daily samples. One sample of their hour stays.
    expect(samplesToThin(asked(now - 100 * day + 1, now - 100 * day + hour - 1), later)).toEqual([
      now - 100 * day + hour - 1,
    ]);
  });

  it("keeps the sample with the smallest unsettled amount", () => {
    expect(thinned([at(200, 0, held(5)), at(200, 1, held(3)), at(200, 2, held(3)), at(200, 3, held(4))])).toEqual([
      0, 2, 3,
    ]);
  });

  const quiet = { before: ledgerTotals({ written: 5 }), after: ledgerTotals({ written: 5 }) };
  const moved = { ...quiet, figures: { used_credits: "2" } };

  it("keeps the samples around a change of a figure while no request ran", () => {
    expect(thinned([at(200, 0), at(200, 1), at(200, 2, quiet), at(200, 3, moved), at(200, 4), at(200, 5)])).toEqual([
      4, 5,
    ]);
    expect(thinned([at(200, 0, quiet), at(200, 1, quiet), at(200, 2, quiet)])).toEqual([1, 2]);
    expect(thinned([at(200, 0), at(200, 1, quiet), at(200, 2, { ...quiet, account: "8" })])).toEqual([]);
    expect(
      thinned([
        at(200, 0),
        at(200, 1, { ...quiet, before: ledgerTotals({ written: 5, pending: 1 }) }),
        at(200, 2, moved),
      ]),
    ).toEqual([1, 2]);
  });

  it("keeps the samples next to a change of a figure that ends within the last week", () => {
    const young = at(7 * 24 - 1, 0, moved);
    expect(thinned([at(200, 0), at(200, 1, quiet), young])).toEqual([]);
    expect(thinned([at(200, 0), at(200, 1, quiet)])).toEqual([1]);
  });
});
