import { describe, expect, it } from "vitest";
import { picoUsdMax, usd, type PicoUsd } from "../../../src/core/money.ts";
import type { TaskPrice } from "../../../src/core/price.ts";
import { taskAmounts, type TaskAmounts, type TaskInputs } from "../../../src/core/task-settlement.ts";
import type { Consumption } from "../../../src/core/tasks.ts";

const pico = (amount: bigint) => amount as PicoUsd;
const price: TaskPrice = { taskType: "video", per: "second", charged: pico(10n), list: pico(14n) };
const llm = (units: string): Consumption => ({ type: "llm", units });

describe("the amounts of a task", () => {
  it.each<[string, TaskInputs, TaskPrice | null, TaskAmounts | null]>([
    ["are null if nothing states them", { consumption: null, unitsPerUsd: null, quantity: null }, null, null],
    [
      "come from the price and the quantity",
      { consumption: null, unitsPerUsd: null, quantity: "3" },
      price,
      { charged: pico(30n), list: pico(42n) },
    ],
    [
      "are rounded up to a whole pico-USD",
      { consumption: null, unitsPerUsd: null, quantity: "0.01" },
      price,
      { charged: pico(1n), list: pico(1n) },
    ],
    [
      "are zero for a quantity of 0",
      { consumption: null, unitsPerUsd: null, quantity: "0" },
      price,
      { charged: pico(0n), list: pico(0n) },
    ],
    ["are null for a quantity without a price", { consumption: null, unitsPerUsd: null, quantity: "3" }, null, null],
    ["are null for a price without a quantity", { consumption: null, unitsPerUsd: null, quantity: null }, price, null],
    [
      "come from the consumption",
      { consumption: llm("5"), unitsPerUsd: "100", quantity: null },
      null,
      { charged: usd("0.05"), list: usd("0.05") },
    ],
    [
      "are rounded up for a part of a unit",
      { consumption: llm("0.5"), unitsPerUsd: "3", quantity: null },
      null,
      { charged: pico(166_666_666_667n), list: pico(166_666_666_667n) },
    ],
    [
      "are charged by consumption and listed by price if both are known",
      { consumption: llm("5"), unitsPerUsd: "100", quantity: "3" },
      price,
      { charged: usd("0.05"), list: pico(42n) },
    ],
    [
      "come from the price if the consumption has no known unit",
      { consumption: llm("5"), unitsPerUsd: null, quantity: "3" },
      price,
      { charged: pico(30n), list: pico(42n) },
    ],
    [
      "come from the price for a unit without a consumption",
      { consumption: null, unitsPerUsd: "100", quantity: "3" },
      price,
      { charged: pico(30n), list: pico(42n) },
    ],
    [
      "may be the largest amount of a charge",
      { consumption: null, unitsPerUsd: null, quantity: "1" },
      { ...price, charged: picoUsdMax, list: picoUsdMax },
      { charged: picoUsdMax, list: picoUsdMax },
    ],
    [
      "are null above the largest amount of a charge",
      { consumption: null, unitsPerUsd: null, quantity: "2" },
      { ...price, charged: picoUsdMax, list: pico(1n) },
      null,
    ],
    [
      "are null if the list amount is above the largest amount of a charge",
      { consumption: null, unitsPerUsd: null, quantity: "2" },
      { ...price, list: picoUsdMax },
      null,
    ],
  ])("%s", (_, inputs, of, expected) => {
    expect(taskAmounts(inputs, of)).toEqual(expected);
  });
});
