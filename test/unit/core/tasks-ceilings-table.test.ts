import { expect, it } from "vitest";
import {
  exceededCeiling,
  ceilingNames,
  countTasks,
  familyOf,
  taskFamilies,
  type TaskCeilings,
} from "../../../src/core/tasks.ts";

it.each<[string, string | null, string | null]>([
  ["suno", null, "suno"],
  ["x", "SUNO-v5", "suno"],
  ["suno", "flux", "suno"],
  ["luma-ray", null, "luma"],
  ["dream-machine", null, "luma"],
  ["dream machine", null, "luma"],
  ["Dream_Machine", null, "luma"],
  ["DreamMachine", null, "luma"],
  ["kling", null, "kling"],
  ["flux", null, "flux"],
  ["other", null, null],
  ["", null, null],
  ["dream", "machine", null],
])("%s of type %j is of the family %j", (model, taskType, family) => {
  expect(familyOf({ model, taskType })).toBe(family);
});

it("tasks are counted together and by family", () => {
  expect([taskFamilies, ceilingNames]).toEqual([
    ["suno", "luma", "kling", "flux"],
    ["all", "suno", "luma", "kling", "flux"],
  ]);
  const tasks = ["suno", "luma", "luma", "kling", "flux", "flux", "other"].map((model) => ({ model, taskType: null }));
  expect(countTasks(tasks)).toEqual({ all: 7, suno: 1, luma: 2, kling: 1, flux: 2 });
  expect(countTasks([])).toEqual({ all: 0, suno: 0, luma: 0, kling: 0, flux: 0 });
});

const none: TaskCeilings = { all: null, suno: null, luma: null, kling: null, flux: null };
it.each<[TaskCeilings, string, object | null]>([
  [none, "suno", null],
  [{ ...none, all: 3 }, "suno", null],
  [{ ...none, all: 2 }, "suno", { family: "all", limit: 2 }],
  [{ ...none, all: 2 }, "other", { family: "all", limit: 2 }],
  [{ ...none, all: 1 }, "suno", { family: "all", limit: 1 }],
  [{ ...none, all: 0 }, "suno", null],
  [{ ...none, suno: 2 }, "suno", { family: "suno", limit: 2 }],
  [{ ...none, suno: 3 }, "suno", null],
  [{ ...none, suno: 2 }, "other", null],
  [{ ...none, suno: 2 }, "luma", null],
  [{ ...none, suno: 0 }, "suno", null],
  [{ ...none, all: 2, suno: 1 }, "suno", { family: "all", limit: 2 }],
])("with the ceilings %j, one more task of %s exceeds %j", (ceilings, model, met) => {
  expect(exceededCeiling(ceilings, { all: 2, suno: 2, luma: 0, kling: 0, flux: 0 }, { model, taskType: null })).toEqual(
    met,
  );
});
