import { describe, expect, it } from "vitest";
import type { PicoUsd } from "../../../src/core/money.ts";
import type { TaskPrice } from "../../../src/core/price.ts";
import {
  isUnstated,
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

describe("a task that states no consumption", () => {
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
    ["given up", reserved, expired(null), false],
  ])("is asked again or not: %s", (_, of, outcome, expected) => {
    expect(isUnstated(of, outcome)).toBe(expected);
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
      "failed without a use",
      reserved,
      ended("failed", null),
      { settlement: { kind: "void", reason: "task_failed" }, inputs: raw(null) },
    ],
    [
      "cancelled with a use of nothing",
      reserved,
      ended("cancelled", llm("0")),
      { settlement: { kind: "void", reason: "task_cancelled" }, inputs: raw(llm("0")) },
    ],
    [
      "failed with a use",
      reserved,
      ended("failed", llm("3")),
      {
        settlement: post(30n, 30n, { source: "reported", reason: "task_failed" }),
        inputs: { consumption: llm("3"), unitsPerUsd: unit, quantity: null },
      },
    ],
    [
      "completed with a use",
      reserved,
      ended("completed", llm("3")),
      {
        settlement: post(30n, 70n, { source: "reported", reason: null }),
        inputs: { consumption: llm("3"), unitsPerUsd: unit, quantity: "5" },
      },
    ],
    [
      "completed in a private pool",
      reserved,
      ended("completed", llm("0"), true),
      {
        settlement: post(0n, 70n, { source: "reported", reason: null }),
        inputs: { consumption: llm("0"), unitsPerUsd: unit, quantity: "5" },
      },
    ],
    [
      "completed with a use of another unit",
      reserved,
      ended("completed", { type: "other", units: "3" }),
      {
        settlement: post(50n, 70n, { source: "counted", reason: null }),
        inputs: { consumption: { type: "other", units: "3" }, unitsPerUsd: null, quantity: "5" },
      },
    ],
    [
      "failed with a use of another unit",
      reserved,
      ended("failed", { type: "other", units: "3" }),
      {
        settlement: post(50n, 70n, { source: "counted", reason: "task_failed" }),
        inputs: { consumption: { type: "other", units: "3" }, unitsPerUsd: null, quantity: "5" },
      },
    ],
    [
      "completed without a statement",
      reserved,
      ended("completed", null),
      {
        settlement: post(50n, 70n, { source: "assumed", reason: "task_not_measured", doubts }),
        inputs: { consumption: null, unitsPerUsd: null, quantity: "5" },
      },
    ],
    [
      "completed without a statement of an unknown quantity",
      { ...reserved, quantity: null },
      ended("completed", null),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "task_not_measured", doubts }),
        inputs: raw(null),
      },
    ],
    [
      "completed, and worth more than a charge holds by its price",
      { ...reserved, quantity: "9".repeat(30) },
      ended("completed", { type: "other", units: "3" }),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "task_not_measured" }),
        inputs: raw({ type: "other", units: "3" }),
      },
    ],
    [
      "completed, and worth more than a charge holds by its use",
      reserved,
      ended("completed", llm("9".repeat(30))),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "not_recordable" }),
        inputs: raw(llm("9".repeat(30))),
      },
    ],
    [
      "completed without a price or a unit",
      unpriced,
      ended("completed", { type: "other", units: "3" }),
      {
        settlement: post(null, null, { formula: "unpriced", source: "assumed", reason: "task_not_measured" }),
        inputs: raw({ type: "other", units: "3" }),
      },
    ],
    [
      "completed without a price, with nothing used",
      unpriced,
      ended("completed", llm("0")),
      {
        settlement: post(0n, 0n, { source: "reported", reason: null }),
        inputs: { consumption: llm("0"), unitsPerUsd: unit, quantity: null },
      },
    ],
    [
      "completed at a price of requests",
      { ...reserved, price: tokensPrice() },
      ended("completed", null),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "task_not_measured" }),
        inputs: raw(null),
      },
    ],
    [
      "given up without a statement",
      reserved,
      expired(null),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "task_time_limit" }),
        inputs: raw(null),
      },
    ],
    [
      "given up with nothing used",
      reserved,
      expired(llm("0")),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "task_time_limit" }),
        inputs: raw(llm("0")),
      },
    ],
    [
      "given up with less used than held",
      reserved,
      expired(llm("4.9")),
      {
        settlement: post(50n, 50n, { formula: "assumed", source: "assumed", reason: "task_time_limit" }),
        inputs: raw(llm("4.9")),
      },
    ],
    [
      "given up with as much used as held",
      reserved,
      expired(llm("5")),
      {
        settlement: post(50n, 50n, { source: "partial", reason: "task_time_limit" }),
        inputs: { consumption: llm("5"), unitsPerUsd: unit, quantity: null },
      },
    ],
    [
      "given up with something used, without a hold",
      unpriced,
      expired(llm("1")),
      {
        settlement: post(10n, 10n, { source: "partial", reason: "task_time_limit" }),
        inputs: { consumption: llm("1"), unitsPerUsd: unit, quantity: null },
      },
    ],
    [
      "given up with nothing used, without a hold",
      unpriced,
      expired(llm("0")),
      {
        settlement: post(null, null, { formula: "unpriced", source: "assumed", reason: "task_time_limit" }),
        inputs: raw(llm("0")),
      },
    ],
    [
      "cancelled with a use",
      reserved,
      ended("cancelled", llm("3")),
      {
        settlement: post(30n, 30n, { source: "reported", reason: "task_cancelled" }),
        inputs: { consumption: llm("3"), unitsPerUsd: unit, quantity: null },
      },
    ],
    [
      "given up with more used than a charge holds",
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

describe("what a record proves after a task was settled", () => {
  it.each<[string, ReservedTask, TaskOutcome, TaskAmounts | null]>([
    ["a use", reserved, ended("completed", llm("3")), { charged: pico(30n), list: pico(70n) }],
    ["nothing, where it failed without a use", reserved, ended("failed", null), { charged: pico(0n), list: pico(0n) }],
    ["no amount, where it states no use", reserved, ended("completed", null), null],
    ["no amount, where the use has no unit", reserved, ended("completed", { type: "other", units: "3" }), null],
    ["no amount, where it was abandoned", reserved, expired(llm("5")), null],
    ["no amount, where no charge holds it", reserved, ended("completed", llm("9".repeat(30))), null],
    ["no amount, where nothing prices it", unpriced, ended("completed", { type: "other", units: "3" }), null],
  ])("is %s", (_, of, outcome, expected) => {
    expect(laterAmounts(of, outcome, units)).toEqual(expected);
  });
});
