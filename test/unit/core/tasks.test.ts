import { describe, expect, it } from "vitest";
import {
  clientPauseMs,
  confirmMs,
  deadlineOf,
  finalStatusOf,
  generalLimitMs,
  isConfirming,
  isFinal,
  nextPollAt,
  pollPauseMsMax,
  sightEveryMs,
  taskStatuses,
  type TaskRecord,
} from "../../../src/core/tasks.ts";

const record: TaskRecord = {
  taskId: "t",
  status: "running",
  startedAt: null,
  endedAt: null,
  consumption: null,
  isPrivatePool: false,
  hasError: false,
  errors: [],
};

describe("a task", () => {
  it("has ended in three of its states", () => {
    expect(taskStatuses).toEqual(["pending", "running", "completed", "failed", "cancelled", "unknown"]);
    expect(taskStatuses.filter(isFinal)).toEqual(["completed", "failed", "cancelled"]);
  });

  it.each<[Partial<TaskRecord>, string | null]>([
    [{ status: "completed" }, "completed"],
    [{ status: "failed" }, "failed"],
    [{ status: "cancelled", hasError: true }, "cancelled"],
    [{ status: "running", endedAt: 5 }, null],
    [{ status: "pending" }, null],
    [{ status: "unknown" }, null],
    [{ status: "unknown", hasError: true }, null],
    [{ status: "unknown", endedAt: 5 }, "completed"],
    [{ status: "unknown", endedAt: 0, hasError: true }, "failed"],
  ])("whose record says %j has ended as %j", (changes, status) => {
    expect(finalStatusOf({ ...record, ...changes })).toBe(status);
  });

  it("is asked again for its consumption while it is completed and not settled", () => {
    expect(isConfirming({ status: "completed", settledAt: null })).toBe(true);
    expect(isConfirming({ status: "completed", settledAt: 0 })).toBe(false);
    expect(isConfirming({ status: "running", settledAt: null })).toBe(false);
  });

  it("has its times in milliseconds", () => {
    expect([confirmMs, generalLimitMs, clientPauseMs, sightEveryMs, pollPauseMsMax]).toEqual([
      600_000, 86_400_000, 60_000, 10_000, 75_000,
    ]);
  });
});

describe("a task's deadline", () => {
  const task = { model: "kling", taskType: null, createdAt: 1000, startedAt: null };
  const general = 1000 + 86_400_000;
  const musicMs = 16 * 60_000;
  it.each<[object, number]>([
    [{}, general],
    [{ startedAt: 5000 }, general],
    [{ model: "suno" }, general],
    [{ model: "suno", startedAt: 5000 }, 5000 + musicMs],
    [{ model: "x", taskType: "Music", startedAt: 5000 }, 5000 + musicMs],
    [{ model: "udio", startedAt: 5000 }, 5000 + musicMs],
    [{ model: "suno", startedAt: 5 }, 1000 + musicMs],
    [{ model: "suno", startedAt: 86_400_000 }, general],
    [{ model: "su", taskType: "no", startedAt: 5000 }, general],
  ])("for %j is at %i", (changes, deadline) => {
    expect(deadlineOf({ ...task, ...changes })).toBe(deadline);
  });
});

describe("the next poll of a task", () => {
  const task = { createdAt: 0, deadlineAt: 10_000_000 };
  it.each<[now: number, random: number, pause: number]>([
    [0, 0.5, 3000],
    [0, 0, 2250],
    [0, 0.999, 3749],
    [12_000, 0.5, 3000],
    [16_000, 0.5, 4000],
    [100_000, 0, 18_750],
    [240_000, 0.5, 60_000],
    [240_001, 0.5, 60_000],
    [5_000_000, 0.5, 60_000],
    [-5000, 0.5, 3000],
    [9_999_000, 0.5, 1000],
    [9_999_999, 0, 1],
    [10_000_000, 0.5, 60_000],
    [10_000_001, 0.5, 60_000],
  ])("at %i with chance %d is %i ms later", (now, random, pause) => {
    expect(nextPollAt(task, now, random)).toBe(now + pause);
  });
});
