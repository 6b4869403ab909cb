import { describe, expect, it } from "vitest";
import { exceededCeiling, countTasks, familyOf, type TaskCeilings } from "../../../src/core/tasks.ts";

const task = (model: string, taskType: string | null = null) => ({ model, taskType });
const ceilings: TaskCeilings = { all: 5, suno: 2, luma: null, kling: 0, flux: 10 };

it.each([
  ["suno", null, "suno"],
  ["music-s", "generate_music_suno", "suno"],
  ["Qubico/flux1-dev", "txt2img", "flux"],
  ["luma", "video_generation", "luma"],
  ["dream-machine", null, "luma"],
  ["kling-v2", null, "kling"],
  ["hailuo", "video", null],
  ["udio", null, null],
])("%s %s is of the family %s", (model, taskType, family) => expect(familyOf(task(model, taskType))).toBe(family));

describe("the ceiling that one more task would exceed", () => {
  const running = (...models: string[]) => countTasks(models.map((model) => task(model)));

  it.each([
    [running(), "suno", null],
    [running("suno"), "suno", null],
    [running("suno", "suno"), "suno", { family: "suno", limit: 2 }],
    [running("suno", "suno"), "hailuo", null],
    [running("a", "b", "c", "d", "e"), "hailuo", { family: "all", limit: 5 }],
    [running("a", "b", "c", "d", "e"), "suno", { family: "all", limit: 5 }],
    // An unknown ceiling, and a ceiling of 0, whose meaning is unknown.
    [running("luma", "luma", "luma", "luma"), "luma", null],
    [running("kling", "kling"), "kling", null],
  ])("with %j running is, for %s, %j", (counts, model, met) =>
    expect(exceededCeiling(ceilings, counts, task(model))).toEqual(met),
  );

  it("is null while the account is unknown", () => {
    const unknown = { all: null, suno: null, luma: null, kling: null, flux: null };
    expect(exceededCeiling(unknown, running(...Array.from({ length: 100 }, () => "suno")), task("suno"))).toBeNull();
  });
});
