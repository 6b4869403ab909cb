import { describe, expect, it } from "vitest";
import {
  clientPauseMs,
  consumptionWaitMs,
  deadlineOf,
  finalStatusOf,
  generalLimitMs,
  awaitsConsumption,
  isFinal,
  isPastTimeLimit,
  nextPollAt,
  pollPauseMsMax,
  observationEveryMs,
  taskStatuses,
  timeLimitOf,
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
  it("is final if it is completed, failed or cancelled", () => {
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
  ])("with the record %j has the final status %j", (changes, status) => {
    expect(finalStatusOf({ ...record, ...changes })).toBe(status);
  });

  it("is polled again for its consumption while it is completed and not settled", () => {
    expect(awaitsConsumption({ status: "completed", settledAt: null })).toBe(true);
    expect(awaitsConsumption({ status: "completed", settledAt: 0 })).toBe(false);
    expect(awaitsConsumption({ status: "running", settledAt: null })).toBe(false);
  });

  it("has its limits and pauses in milliseconds", () => {
    expect([consumptionWaitMs, generalLimitMs, clientPauseMs, observationEveryMs, pollPauseMsMax]).toEqual([
      600_000, 86_400_000, 60_000, 10_000, 75_000,
    ]);
  });
});

const limits = new Map([
  ["suno", 15 * 60_000],
  ["udio", 15 * 60_000],
  ["music", 15 * 60_000],
  ["long", 60 * 60_000],
]);

describe("the time limit of a task", () => {
  it.each<[string, string | null, number | null]>([
    ["suno", null, 15],
    ["Suno-v4", null, 15],
    ["sunoV5", null, 15],
    ["vendor/suno_v4.5", null, 15],
    ["MUSICGen", null, 15],
    ["x", "generate_music", 15],
    ["x", "generateMusic", 15],
    ["x", "text to music", 15],
    ["chirp:udio", "x", 15],
    // The longest limit of several families.
    ["suno-long", null, 60],
    ["suno", "long", 60],
    // Words that only contain a family's name.
    ["studio-video", null, null],
    ["kling", "text_to_audio", null],
    ["Studio", "audio", null],
    ["musical-ly", null, null],
    ["sunoco", "audios", null],
    ["mu sic", "su-no", null],
    ["\u0430udio", "\u00e9suno", null],
    ["", "", null],
    ["kling", null, null],
  ])("of the model %s and the type %s is %s minutes", (model, taskType, minutes) => {
    expect(timeLimitOf(limits, { model, taskType })).toBe(minutes === null ? null : minutes * 60_000);
    expect(timeLimitOf(new Map(), { model, taskType })).toBeNull();
  });
});

it("a name of any length has its words", () => {
  expect(timeLimitOf(limits, { model: `${"-".repeat(1_000_000)}suno`, taskType: null })).toBe(15 * 60_000);
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
    expect(deadlineOf(limits, { ...task, ...changes })).toBe(deadline);
  });
});

describe("a music task", () => {
  const created = 1000;
  const task = { model: "suno", taskType: null, createdAt: created, startedAt: 5000 };
  const limit = 15 * 60_000;
  const grace = 60_000;
  const day = 86_400_000;
  it.each<[string, object, number | null, number, boolean]>([
    ["is not past its limit if it ended at the limit", {}, 5000 + limit, 0, false],
    ["is past its limit if it ended later", {}, 5001 + limit, 0, true],
    ["is past its limit if it ended later and a day has passed", {}, 5001 + limit, created + day, true],
    ["is not past its limit within the grace period", {}, null, 4999 + limit + grace, false],
    ["is past its limit if it runs after the grace period", {}, null, 5000 + limit + grace, true],
    ["is past its limit if it runs up to a day after its creation", {}, null, created + day - 1, true],
    ["is not past its limit after a day, which has another reason", {}, null, created + day, false],
    ["is not past its limit without a known start", { startedAt: null }, 5001 + limit, 5000 + limit + grace, false],
    ["is not past its limit without a known start and end", { startedAt: null }, null, 5000 + limit + grace, false],
    ["has no limit in another family", { model: "kling" }, 5001 + limit, 5000 + limit + grace, false],
    ["has no limit in another family while it runs", { model: "kling" }, null, created + day - 1, false],
  ])("%s", (_, changes, endedAt, now, expected) => {
    expect(isPastTimeLimit(limits, { ...task, ...changes }, endedAt, now)).toBe(expected);
  });
});

describe("the next poll of a task", () => {
  const task = { createdAt: 7000, deadlineAt: 10_007_000 };
  it.each<[age: number, random: number, pause: number]>([
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
  ])("at the age of %i ms, with the random value %d, is %i ms later", (age, random, pause) => {
    const now = task.createdAt + age;
    expect(nextPollAt(task, now, random)).toBe(now + pause);
  });
});
