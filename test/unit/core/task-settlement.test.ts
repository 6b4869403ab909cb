import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { plainDecimal, usd, type PicoUsd } from "../../../src/core/money.ts";
import {
  taskAmounts,
  taskSettlementFor,
  type ReservedTask,
  type TaskOutcome,
} from "../../../src/core/task-settlement.ts";
import {
  deadlineOf,
  failureReason,
  generalLimitMs,
  nextPollAt,
  taskFailures,
  type Consumption,
} from "../../../src/core/tasks.ts";
import { price as tokensPrice } from "../../support/example-rates.ts";

const units = (type: string) => ({ llm: "10000000" })[type];
const llm = (units: string): Consumption => ({ type: "llm", units });
const perSecond = {
  ...tokensPrice(),
  task: { taskType: "video", per: "second" as const, charged: usd("0.10"), list: usd("0.14") },
};
const held: ReservedTask = { hold: usd("0.50"), price: perSecond, quantity: "5" };
const unpriced: ReservedTask = { hold: null, price: null, quantity: null };
const completed = (consumption: Consumption | null): TaskOutcome => ({
  kind: "ended",
  status: "completed",
  consumption,
});
const failed = (consumption: Consumption | null): TaskOutcome => ({ kind: "ended", status: "failed", consumption });
const expired = (consumption: Consumption | null): TaskOutcome => ({ kind: "expired", consumption });

describe("the settlement of a task's hold", () => {
  it.each<[string, ReservedTask, TaskOutcome, object]>([
    [
      "posts a consumption of a known unit",
      held,
      completed(llm("2500001")),
      { kind: "post", formula: "task", source: "reported", cost: usd("0.2500001"), listCost: usd("0.70") },
    ],
    [
      "posts a part of a unit",
      unpriced,
      completed(llm("0.5")),
      { kind: "post", formula: "task", source: "reported", cost: 50_000n, listCost: 50_000n },
    ],
    [
      "assumes the price if nothing was used although the task has a price",
      held,
      completed(llm("0")),
      { kind: "post", formula: "task", source: "assumed", cost: usd("0.50"), doubts: ["task_consumption"] },
    ],
    [
      "posts zero if nothing was used in a private pool",
      held,
      { kind: "ended", status: "completed", consumption: llm("0"), isPrivatePool: true },
      { kind: "post", source: "reported", cost: 0n },
    ],
    [
      "posts zero if nothing was used and there is no price",
      unpriced,
      completed(llm("0")),
      { kind: "post", formula: "task", source: "reported", cost: 0n },
    ],
    [
      "counts the price for an unknown unit",
      held,
      completed({ type: "quota", units: "77" }),
      { kind: "post", formula: "task", source: "counted", cost: usd("0.50"), listCost: usd("0.70") },
    ],
    [
      "assumes the price without a stated consumption",
      held,
      completed(null),
      { kind: "post", formula: "task", source: "assumed", cost: usd("0.50"), doubts: ["task_consumption"] },
    ],
    [
      "assumes the hold if the quantity is not known",
      { ...held, quantity: null },
      completed(null),
      { kind: "post", formula: "assumed", source: "assumed", cost: usd("0.50"), reason: "task_not_measured" },
    ],
    [
      "posts null if nothing prices the task",
      unpriced,
      completed({ type: "quota", units: "77" }),
      { kind: "post", formula: "unpriced", source: "assumed", cost: null },
    ],
    ["voids a failed task that used nothing", held, failed(llm("0")), { kind: "void", reason: "task_failed" }],
    [
      "voids a failed task without a stated consumption",
      unpriced,
      failed(null),
      { kind: "void", reason: "task_failed" },
    ],
    [
      "posts the consumption of a failed task",
      held,
      failed(llm("1000000")),
      {
        kind: "post",
        formula: "task",
        source: "reported",
        cost: usd("0.10"),
        listCost: usd("0.10"),
        reason: "task_failed",
      },
    ],
    [
      "counts the price of a failed task with an unknown unit",
      held,
      failed({ type: "", units: "3" }),
      { kind: "post", formula: "task", source: "counted", cost: usd("0.50"), reason: "task_failed" },
    ],
    [
      "voids a cancelled task that used nothing",
      held,
      { kind: "ended", status: "cancelled", consumption: null },
      { kind: "void", reason: "task_cancelled" },
    ],
    [
      "assumes the hold of an abandoned task without a stated consumption",
      held,
      expired(null),
      { kind: "post", formula: "assumed", source: "assumed", cost: usd("0.50"), reason: "task_time_limit" },
    ],
    [
      "assumes the hold of an abandoned task that used less",
      held,
      expired(llm("1")),
      { kind: "post", formula: "assumed", cost: usd("0.50"), reason: "task_time_limit" },
    ],
    [
      "posts the consumption of an abandoned task that used more than its hold",
      held,
      expired(llm("9000000")),
      { kind: "post", formula: "task", source: "partial", cost: usd("0.90"), reason: "task_time_limit" },
    ],
    [
      "posts null for an abandoned task without a price",
      unpriced,
      expired(null),
      { kind: "post", formula: "unpriced", cost: null, reason: "task_time_limit" },
    ],
    [
      "voids a task past its family's time limit that used nothing",
      held,
      { kind: "ended", status: "failed", consumption: null, isPastTimeLimit: true },
      { kind: "void", reason: "task_time_limit" },
    ],
    [
      "posts the consumption of a task past its family's time limit",
      held,
      { kind: "ended", status: "failed", consumption: llm("1"), isPastTimeLimit: true },
      { kind: "post", source: "reported", cost: usd("0.0000001"), reason: "task_time_limit" },
    ],
    [
      "assumes the hold for an amount above 64 bits",
      held,
      completed(llm("9".repeat(30))),
      { kind: "post", formula: "assumed", cost: usd("0.50"), reason: "not_recordable" },
    ],
  ])("%s", (_what, reserved, outcome, expected) => {
    expect(taskSettlementFor(reserved, outcome, units).settlement).toMatchObject(expected);
  });

  it("follows from its stored fields", () => {
    const text = fc
      .tuple(fc.bigInt({ min: 0n, max: 10n ** 20n }), fc.nat(6))
      .map(([digits, places]) => plainDecimal(`${digits}e-${places}`) ?? "0");
    const consumption = fc.option(fc.record({ type: fc.constantFrom("llm", "quota", ""), units: text }));
    const outcome = fc.oneof(
      fc.record({
        kind: fc.constant("ended" as const),
        status: fc.constantFrom("completed" as const, "failed" as const, "cancelled" as const),
        consumption,
      }),
      fc.record({ kind: fc.constant("expired" as const), consumption }),
    );
    fc.assert(
      fc.property(outcome, fc.constantFrom(held, unpriced, { ...held, quantity: null }), (how, reserved) => {
        const { settlement, inputs } = taskSettlementFor(reserved, how, units);
        const amounts = taskAmounts(inputs, reserved.price?.task ?? null);
        if (settlement.kind === "void") expect(how.consumption === null || how.consumption.units === "0").toBe(true);
        else if (settlement.formula === "assumed") expect(settlement.cost).toBe(reserved.hold);
        else if (settlement.formula === "task")
          expect(amounts).toEqual({ charged: settlement.cost, list: settlement.listCost });
      }),
    );
  });

  it("rounds a part of a pico-USD up", () => {
    const third = { ...perSecond.task, charged: 10n as PicoUsd, list: 10n as PicoUsd };
    expect(taskAmounts({ consumption: null, unitsPerUsd: null, quantity: "0.33" }, third)).toEqual({
      charged: 4n,
      list: 4n,
    });
    expect(taskAmounts({ consumption: llm("1"), unitsPerUsd: "7", quantity: null }, null)).toMatchObject({
      charged: 142_857_142_858n,
    });
  });
});

describe("a plain decimal", () => {
  it.each([
    ["2600000.50", "2600000.5"],
    ["1.50e2", "150"],
    ["1E-7", "0.0000001"],
    ["0.1000000000000000055", "0.1000000000000000055"],
    ["007", "7"],
    ["0.0", "0"],
    ["12345678901234567890", "12345678901234567890"],
    ["-1", undefined],
    ["1e99", undefined],
    ["", undefined],
    ["NaN", undefined],
    ["0x10", undefined],
    [".5", undefined],
  ])("%s is %s", (text, plain) => {
    expect(plainDecimal(text)).toBe(plain);
  });
});

const musicLimits = new Map([
  ["suno", 900_000],
  ["music", 900_000],
]);

describe("the times of a task", () => {
  const task = { model: "kling", taskType: "video", createdAt: 1_000_000, startedAt: null };

  it("set the deadline of music to 16 minutes after its start, and of other tasks to a day", () => {
    expect(deadlineOf(musicLimits, task)).toBe(1_000_000 + generalLimitMs);
    expect(deadlineOf(musicLimits, { ...task, startedAt: 1_500_000 })).toBe(1_000_000 + generalLimitMs);
    for (const music of [{ model: "suno" }, { model: "x", taskType: "generate_music" }, { model: "Music-U" }]) {
      expect(deadlineOf(musicLimits, { ...task, ...music })).toBe(1_000_000 + generalLimitMs);
      expect(deadlineOf(musicLimits, { ...task, ...music, startedAt: 1_500_000 })).toBe(1_500_000 + 16 * 60_000);
      // A start before the creation comes from another clock.
      expect(deadlineOf(musicLimits, { ...task, ...music, startedAt: 5 })).toBe(1_000_000 + 16 * 60_000);
    }
  });

  it("put polls seconds apart for a new task, a minute apart for an old one, and one at the deadline", () => {
    const born = { createdAt: 0, deadlineAt: generalLimitMs };
    expect([0, 0.999].map((random) => nextPollAt(born, 0, random))).toEqual([2250, 3749]);
    expect(nextPollAt(born, 40_000, 0.5)).toBe(50_000);
    expect(nextPollAt(born, 3_600_000, 0.5)).toBe(3_660_000);
    expect(nextPollAt({ ...born, deadlineAt: 3_610_000 }, 3_600_000, 0.5)).toBe(3_610_000);
    expect(nextPollAt({ ...born, deadlineAt: 3_600_000 }, 3_600_000, 0.5)).toBe(3_660_000);
  });
});

describe("the reason of a failure", () => {
  it.each<[string, string]>([
    ["failed to download image: 404", "input_media"],
    ["unknown image format", "input_media"],
    ["the image could not be verified", "input_media"],
    ["input image cannot be downloaded, supply a direct link", "input_media"],
    ["json: cannot unmarshal string into Go struct field .duration of type int", "request_format"],
    ["invalid request: expected format", "request_format"],
    ["tls: handshake failure", "network"],
    ["dial tcp: i/o timeout", "network"],
    ["Read: connection reset by peer", "network"],
    ["upstream account has no credit", "upstream_no_credit"],
    ["insufficient balance", "upstream_no_credit"],
    ["HTTP 429 from upstream", "upstream_rate_limit"],
    ["Too Many Requests", "upstream_rate_limit"],
    ["model overloaded, please try again later", "upstream_overload"],
    ["context deadline exceeded", "time_limit"],
    ["task exceeded its time allowance", "time_limit"],
    ["suno is not supported in PPU mode", "private_pool_only"],
    ["this family is only available in BYOA mode", "private_pool_only"],
    ["no available account in your private group", "no_private_account"],
    ["no connected account", "no_private_account"],
    ["your plan does not have access to luma, please upgrade", "plan_lacks_access"],
    ["image generation quota insufficient (403 user quota)", "image_quota"],
    ["upstream returned 524", "upstream_timeout"],
    ["504 Gateway Time-out", "upstream_timeout"],
    ["307 Temporary Redirect", "redirect"],
    ["prompt was flagged by moderation", "content_refused"],
    ["an unknown message", "other"],
    ["", "other"],
  ])("of %j is %s", (text, reason) => {
    expect(failureReason([text])).toBe(reason);
    expect(taskFailures).toContain(failureReason(["?", text]));
  });
});
