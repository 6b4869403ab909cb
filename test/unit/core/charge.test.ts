import { expect, it } from "vitest";
import { correctionFault, pruneAgeMsMin, quartersKeptMs, sources, type Charge } from "../../../src/core/charge.ts";
import { picoUsdMax, type PicoUsd } from "../../../src/core/money.ts";

it("an amount has one of four sources, the most certain first", () => {
  expect(sources).toEqual(["reported", "counted", "partial", "assumed"]);
});

it("quarter-hour sums are kept for 35 days, and charges for at least 36", () => {
  expect([quartersKeptMs, pruneAgeMsMin]).toEqual([3_024_000_000, 3_110_400_000]);
});

it.each<[Partial<Charge>, corrected: bigint, amount: bigint, string | null]>([
  [{}, 0n, 5n, null],
  [{ state: "pending" }, 0n, 5n, "not_posted"],
  [{ state: "voided" }, 0n, 5n, "not_posted"],
  [{ formula: "adjustment" }, 0n, 5n, "is_adjustment"],
  [{}, 0n, -10n, null],
  [{}, 0n, -11n, "below_zero"],
  [{}, -4n, -6n, null],
  [{}, -4n, -7n, "below_zero"],
  [{}, 4n, -14n, null],
  [{}, 0n, picoUsdMax - 10n, null],
  [{}, 0n, picoUsdMax - 9n, "too_large"],
  [{ cost: null, formula: "unpriced" }, 0n, 5n, null],
  [{ cost: null, formula: "unpriced" }, 0n, -1n, "below_zero"],
])("the charge %j with corrections of %i, corrected by %i, has the fault %s", (changes, corrected, amount, fault) => {
  const charge = { state: "posted", formula: "tokens", cost: 10n as PicoUsd, ...changes } as const;
  expect(correctionFault(charge, corrected, amount as PicoUsd)).toBe(fault);
});
