import { expect, it } from "vitest";
import type { PicoUsd } from "../../../src/core/money.ts";
import { forecastOf, costAtRecentRate } from "../../../src/core/forecast.ts";

const pico = (amount: bigint) => amount as PicoUsd;

it.each<[spent: bigint, spanMs: number, forMs: number, expected: bigint]>([
  [100n, 10, 20, 200n],
  [100n, 3, 1, 33n],
  [100n, 10, -5, 0n],
  [100n, 10, 0, 0n],
  [100n, 0, 1, 100n],
  [100n, -4, 1, 100n],
  [100n, 9.6, 1.4, 10n],
  [7n, 1, 1, 7n],
])("after %i spent in %d ms, the forecast for another %d ms is %i", (spent, spanMs, forMs, expected) => {
  expect(costAtRecentRate({ spent: pico(spent), spanMs }, forMs)).toBe(expected);
  expect(forecastOf(pico(1000n), { spent: pico(spent), spanMs }, forMs)).toBe(1000n + expected);
});
