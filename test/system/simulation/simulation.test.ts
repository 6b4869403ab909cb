// @module-tag races
import { describe, expect, it } from "vitest";
import type { mutations } from "../../../simulation/mutations.ts";
import { fixedSeeds, simulate } from "../../support/simulate.ts";

describe("the simulation", { timeout: 300_000 }, () => {
  it("finds no fault under the fixed seeds", async () => {
    expect(await simulate("--seeds", fixedSeeds)).toMatchObject({
      code: 0,
      output: expect.stringMatching(/^700 runs .* 0 failures$/m),
    });
  });

  // Seeds of faults that random runs have found.
  it.each([
    ["452844332", "a raise ends after the last evaluation of alerts"],
    ["900016487", "the alert of an hour that has ended cannot be written at the first attempt"],
    ["900001483", "the clock is set forward and back while alerts cannot be written"],
    ["311515242", "the time zone changes between the sums of a new budget and its write"],
    ["774617812", "a stream breaks off while its client reads slowly, so more output may have been sent"],
  ])("finds no fault under seed %s: %s", async (seed) => {
    expect(await simulate("--seed", seed)).toMatchObject({ code: 0 });
  });

  it("finds no fault with a crash at each step", async () => {
    // A short run with many charges, because each of its steps needs a run of its own. Nightly tests repeat more runs.
    expect(await simulate("--seed", "28", "--crash-everywhere")).toMatchObject({
      code: 0,
      output: expect.stringContaining(" 0 failures"),
    });
  });

  // One bug of each kind. `npm run test:nightly` plants all of them.
  it.each<keyof typeof mutations>([
    "a settlement without the check for pending",
    "a raise that does not end",
    "an admission that ignores pending holds",
    "a window that is not built from the charges when a budget is set",
    "a recovery that voids instead of posting",
    "a burst that goes unnoticed",
    "a cut stream that costs nothing",
    "output in unknown members that is not counted",
    "an answer of another model that is charged at the requested model's price",
    "a key that is remembered beyond its revocation",
  ])("catches %s", async (name) => {
    const { code, output } = await simulate("--seeds", fixedSeeds, "--mutation", name);
    expect(output).toMatch(/^seed \d+ fails:\n {2}step \d+: /m);
    expect(code).toBe(1);
  });

  it("repeats a failing run exactly", async () => {
    const planted = ["--mutation", "a hold without the check for room"];
    const { output } = await simulate("--seeds", fixedSeeds, ...planted);
    const [, seed = "", step = ""] =
      /^seed (\d+) fails:\n {2}step (\d+): at the admission of r\d+, spent \+ held is /m.exec(output) ?? [];
    expect(output).toContain(`to reproduce it: npm run simulate -- --seed ${seed} --trace`);
    const again = async () =>
      (await simulate("--seed", seed, "--trace", ...planted)).output.replace(/^1 runs .*$/m, "");
    const first = await again();
    expect(first).toMatch(new RegExp(`^${step} \\+\\d+ ms {2}FAULT: at the admission of `, "m"));
    expect(await again()).toBe(first);
  });

  it("reports wrong options with exit code 2", async () => {
    expect(await simulate("--seed", "one")).toEqual({
      code: 2,
      output: "--seed and --seeds: write whole numbers, as in --seed 17, --seeds 1-500 or --seconds 30\n",
    });
    expect(await simulate("--mutation", "none such")).toMatchObject({
      code: 2,
      output: expect.stringMatching(/^unknown bug "none such"; known bugs:\n/),
    });
  });
});
