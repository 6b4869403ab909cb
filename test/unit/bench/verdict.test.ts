import { describe, expect, it } from "vitest";
import { formatVerdict, verdictOn } from "../../../bench/verdict.ts";
import type { Sample } from "../../../bench/load.ts";
import { readOptions } from "../../../bench/options.ts";

/** Samples of ten requests each, from the CPU of one request in each round. */
function samplesOf(...cpuUs: readonly number[]): Sample[] {
  return cpuUs.map((each) => ({
    requests: 10,
    seconds: 1,
    cpuUs: 10 * each,
    p50Us: 0,
    p99Us: 0,
    heldBytes: null,
  }));
}

describe("a comparison with another commit", () => {
  it("divides the CPU of each round, because the machine's speed differs between rounds", () => {
    const samples = { bare: samplesOf(10, 40, 20), base: samplesOf(20, 80, 30), change: samplesOf(22, 80, 60) };
    const verdict = verdictOn(samples);
    expect(verdict).toEqual({
      baseByBare: 2,
      changeByBare: 2.2,
      changeByBase: { median: 1.1, min: 1, max: 2 },
      isWorse: false,
    });
    expect(formatVerdict("plain", verdict)).toBe(
      "plain: 2.00 x bare before, 2.20 x with the change; ratio 1.10 (1.00-2.00)",
    );
  });

  it.each([
    ["at most 15% above", 115, false],
    ["more than 15% above", 116, true],
    ["below", 50, false],
    ["not known", Number.NaN, true],
  ])("with a median %s the other commit's", (_, cpu, isWorse) => {
    const verdict = verdictOn({ bare: samplesOf(50), base: samplesOf(100), change: samplesOf(cpu) });
    expect(verdict.isWorse).toBe(isWorse);
    expect(formatVerdict("plain", verdict).endsWith("MORE THAN 15% WORSE")).toBe(isWorse);
  });

  it("is requested with --check, alone or with --against", () => {
    expect(readOptions(["--check"])).toEqual({ against: null });
    expect(readOptions(["--check", "--against", "v1"])).toEqual({ against: "v1" });
    expect(() => readOptions(["--check", "--rounds", "2"])).toThrow("--check takes only --against, not --rounds");
    expect(() => readOptions(["--against", "v1"])).toThrow("--against requires --check");
  });
});
