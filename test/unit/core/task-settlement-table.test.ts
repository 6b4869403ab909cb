import { describe, expect, it } from "vitest";
import type { PicoUsd } from "../../../src/core/money.ts";
import type { TaskPrice } from "../../../src/core/price.ts";
import {
  lacksConsumption,
  laterAmounts,
  taskSettlementFor,
  type ReservedTask,
  type TaskAmounts,
  type TaskInputs,
  type TaskOutcome,
  type TaskSettlement,
} from "../../../src/core/task-settlement.ts";
import type { Consumption } from "../../../src/core/tasks.ts";
import { noTokens } from "../../../src/core/usage.ts";
import { price as tokensPrice } from "../../support/example-rates.ts";

const pico = (amount: bigint) => amount as PicoUsd;
const price: TaskPrice = { taskType: "video", per: "second", charged: pico(10n), list: pico(14n) };
const llm = (units: string): Consumption => ({ type: "llm", units });
const version = { ...tokensPrice(), task: price };
const reserved: ReservedTask = { hold: pico(50n), price: version, quantity: "5" };
const unpriced: ReservedTask = { hold: null, price: null, quantity: null };
/** One unit is 10 pico-USD. */
const units = (type: string) => (type === "llm" ? "100000000000" : undefined);
const ended = (
  status: "completed" | "failed" | "cancelled",
  consumption: Consumption | null,
  isPrivatePool?: boolean,
): TaskOutcome => ({
  kind: "ended",
  status,
  consumption,
  ...(isPrivatePool !== undefined && { isPrivatePool }),
});
const expired = (consumption: Consumption | null): TaskOutcome => ({ kind: "expired", consumption });

describe("a task", () => {
  it.each<[string, ReservedTask, TaskOutcome, boolean]>([
    ["completed without any", reserved, ended("completed", null), true],
    ["completed with none", reserved, ended("completed", llm("0")), true],
    ["completed with some", reserved, ended("completed", llm("1")), false],
    ["completed in a private pool", reserved, ended("completed", null, true), false],
    ["completed, and in no private pool", reserved, ended("completed", null, false), true],
    ["without a price", unpriced, ended("completed", null), false],
    ["with a price of requests", { ...reserved, price: tokensPrice() }, ended("completed", null), false],
    ["failed", reserved, ended("failed", null), false],
    ["cancelled", reserved, ended("cancelled", null), false],
    ["abandoned", reserved, expired(null), false],
  ])("lacks its consumption or not: %s", (_, of, outcome, expected) => {
    expect(lacksConsumption(of, outcome)).toBe(expected);
  });
});

const post = (cost: bigint | null, listCost: bigint | null, more: object) => ({
  kind: "post",
  cost,
  listCost,
  tokens: noTokens,
  formula: "task",
  minimumApplied: false,
  clamped: false,
  ...more,
});
const raw = (consumption: Consumption | null) => ({ consumption, unitsPerUsd: null, quantity: null });
const unit = "100000000000";

describe("the settlement of a task", () => {
  const doubts = ["task_consumption"];
  it.each<[string, ReservedTask, TaskOutcome, { settlement: object; inputs: TaskInputs }]>([
    [
      "is void if it failed without consumption",
      reserved,
      ended("failed", null),
      { settlement: { kind: "void", reason: "task_failed" }, inputs: raw(null) },
    ],
    [
      "is void if it was cancelled with a consumption of zero",
      reserved,
      ended("cancelled", llm("0")),
      { settlement: { kind: "void", reason: "task_cancelled" }, inputs: raw(llm("0")) },
    ],
    [
      "posts the consumption if it failed with one",
      reserved,
      ended("failed", llm("3")),
      {
        settlement: post(30n, 30n, { source: "reported", reason: "task_failed" }),
        inputs: { consumption: llm("3"), unitsPerUsd: unit, quantity: null },
      },
    ],
    [
      "posts the consumption if it completed with one",
      reserved,
      ended("completed", llm("3")),
      {
        settlement: post(30n, 70n, { source: "reported", reason: null }),
        inputs: { consumption: llm("3"), unitsPerUsd: unit, quantity: "5" },
      },
    ],
    [
      "posts zero if it completed in a private pool",
      reserved,
      ended("completed", llm("0"), true),
      {
        settlement: post(0n, 70n, { source: "reported", reason: null }),
        inputs: { consumption: llm("0"), unitsPerUsd: unit, quantity: "5" },
      },
    ],
    [
      "counts the price if it completed with a consumption of an unknown unit",
      reserved,
      ended("completed", { type: "other", units: "3" }),
      {
        settlement: post(50n, 70n, { source: "counted", reason: null }),
        inputs: { consumption: { type: "other", units: "3" }, unitsPerUsd: null, quantity: "5" },
      },
    ],
    [
      "counts the price if it failed with a consumption of an unknown unit",
      reserved,
      ended("failed", { type: "other", units: "3" }),
      {
        settlement: post(50n, 70n, { source: "counted", reason: "task_failed" }),
        inputs: { consumption: { type: "other", units: "3" }, unitsPerUsd: null, quantity: "5" },
      },
    ],
    [
      "assumes the price if it completed without a stated consumption",
      reserved,
      ended("completed", null),
      {
        settlement: post(50n, 70n, { source: "assumed", reason: "task_not_measured", doubts }),
        inputs: { consumption: null, unitsPerUsd: null, quantity: "5" },
      },
    ],
    [
      "assumes the hold if its consumption and its quantity are unknown",
      { ...reserved, quantity: null },
      ended("completed", null),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "task_not_measured", doubts }),
        inputs: raw(null),
      },
    ],
    [
      "assumes the hold if its price is above the largest amount",
      { ...reserved, quantity: "9".repeat(30) },
      ended("completed", { type: "other", units: "3" }),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "task_not_measured" }),
        inputs: raw({ type: "other", units: "3" }),
      },
    ],
    [
      "assumes the hold if its consumption is above the largest amount",
      reserved,
      ended("completed", llm("9".repeat(30))),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "not_recordable" }),
        inputs: raw(llm("9".repeat(30))),
      },
    ],
    [
      "posts null without a price or a known unit",
      unpriced,
      ended("completed", { type: "other", units: "3" }),
      {
        settlement: post(null, null, { formula: "unpriced", source: "assumed", reason: "task_not_measured" }),
        inputs: raw({ type: "other", units: "3" }),
      },
    ],
    [
      "posts zero if it completed without a price and used nothing",
      unpriced,
      ended("completed", llm("0")),
      {
        settlement: post(0n, 0n, { source: "reported", reason: null }),
        inputs: { consumption: llm("0"), unitsPerUsd: unit, quantity: null },
      },
    ],
    [
      "assumes the hold if its price is not for tasks",
      { ...reserved, price: tokensPrice() },
      ended("completed", null),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "task_not_measured" }),
        inputs: raw(null),
      },
    ],
    [
      "assumes the hold if it was abandoned without a stated consumption",
      reserved,
      expired(null),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "task_time_limit" }),
        inputs: raw(null),
      },
    ],
    [
      "assumes the hold if it was abandoned with nothing used",
      reserved,
      expired(llm("0")),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "task_time_limit" }),
        inputs: raw(llm("0")),
      },
    ],
    [
      "assumes the hold if it was abandoned with less used than held",
      reserved,
      expired(llm("4.9")),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "task_time_limit" }),
        inputs: raw(llm("4.9")),
      },
    ],
    [
      "posts the consumption if it was abandoned with as much used as held",
      reserved,
      expired(llm("5")),
      {
        settlement: post(50n, 50n, { source: "partial", reason: "task_time_limit" }),
        inputs: { consumption: llm("5"), unitsPerUsd: unit, quantity: null },
      },
    ],
    [
      "posts the consumption if it was abandoned without a hold",
      unpriced,
      expired(llm("1")),
      {
        settlement: post(10n, 10n, { source: "partial", reason: "task_time_limit" }),
        inputs: { consumption: llm("1"), unitsPerUsd: unit, quantity: null },
      },
    ],
    [
      "posts null if it was abandoned with nothing used and no hold",
      unpriced,
      expired(llm("0")),
      {
        settlement: post(null, null, { formula: "unpriced", source: "assumed", reason: "task_time_limit" }),
        inputs: raw(llm("0")),
      },
    ],
    [
      "posts the consumption if it was cancelled with one",
      reserved,
      ended("cancelled", llm("3")),
      {
        settlement: post(30n, 30n, { source: "reported", reason: "task_cancelled" }),
        inputs: { consumption: llm("3"), unitsPerUsd: unit, quantity: null },
      },
    ],
    [
      "assumes the hold if it was abandoned with a consumption above the largest amount",
      reserved,
      expired(llm("9".repeat(30))),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "task_time_limit" }),
        inputs: raw(llm("9".repeat(30))),
      },
    ],
  ])("%s", (_, of, outcome, expected) => {
    expect(taskSettlementFor(of, outcome, units)).toEqual(expected as TaskSettlement);
  });
});

describe("the amounts that a record shows after a task was settled", () => {
  it.each<[string, ReservedTask, TaskOutcome, TaskAmounts | null]>([
    ["those of a stated consumption", reserved, ended("completed", llm("3")), { charged: pico(30n), list: pico(70n) }],
    ["zero if it failed without consumption", reserved, ended("failed", null), { charged: pico(0n), list: pico(0n) }],
    ["null if it states no consumption", reserved, ended("completed", null), null],
    [
      "null if the unit of its consumption is unknown",
      reserved,
      ended("completed", { type: "other", units: "3" }),
      null,
    ],
    ["null if it was abandoned", reserved, expired(llm("5")), null],
    ["null above the largest amount of a charge", reserved, ended("completed", llm("9".repeat(30))), null],
    ["null if nothing prices it", unpriced, ended("completed", { type: "other", units: "3" }), null],
  ])("are %s", (_, of, outcome, expected) => {
    expect(laterAmounts(of, outcome, units)).toEqual(expected);
  });
});
