import { describe, expect, it } from "vitest";
import { fixedSeeds, simulate } from "../../support/simulate.ts";

const randomSeconds = Number(process.env["FAREBOX_TEST_SIMULATION_SECONDS"] ?? 10);

describe("the simulation", { timeout: 120_000 + randomSeconds * 1_000 }, () => {
  it("finds no fault under the fixed seeds", async () => {
    expect(await simulate("--seeds", fixedSeeds)).toMatchObject({
      code: 0,
      output: expect.stringMatching(/^700 runs .* 0 failures$/m),
    });
  });

  it("reports no missing alert if a raise ends after the last evaluation", async () => {
    expect(await simulate("--seed", "452844332")).toMatchObject({ code: 0 });
  });

  it("finds no fault with a crash at each step", async () => {
    // Two short runs with many charges, because each of their steps needs a run of its own.
    expect(await simulate("--seeds", "27-28", "--crash-everywhere")).toMatchObject({
      code: 0,
      output: expect.stringContaining(" 0 failures"),
    });
  });

  it("finds no fault under random seeds", { timeout: (randomSeconds + 60) * 1000 }, async () => {
    const { code, output } = await simulate("--seconds", String(randomSeconds));
    // A failure prints the output, which has the seed.
    expect(code, output).toBe(0);
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
