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

  it("finds no fault with a crash at each step", async () => {
    // Short runs with many charges: each step of a run costs a run.
    expect(await simulate("--seeds", "27-28", "--crash-everywhere")).toMatchObject({
      code: 0,
      output: expect.stringContaining(" 0 failures"),
    });
  });

  it("finds no fault under random seeds", { timeout: (randomSeconds + 60) * 1000 }, async () => {
    const { code, output } = await simulate("--seconds", String(randomSeconds));
    // The seed must be seen where it fails.
    expect(code, output).toBe(0);
  });

  it("repeats a failing run to the letter", async () => {
    const planted = ["--mutation", "a hold without the check for room"];
    const { output } = await simulate("--seeds", fixedSeeds, ...planted);
    const [, seed = "", step = ""] = /^seed (\d+) fails:\n {2}step (\d+): at the admission of /m.exec(output) ?? [];
    expect(output).toContain(`see it again: npm run simulate -- --seed ${seed} --trace`);
    const again = async () =>
      (await simulate("--seed", seed, "--trace", ...planted)).output.replace(/^1 runs .*$/m, "");
    const first = await again();
    expect(first).toMatch(new RegExp(`^${step} \\+\\d+ ms {2}FAULT: at the admission of `, "m"));
    expect(await again()).toBe(first);
  });

  it("says what it cannot do", async () => {
    expect(await simulate("--seed", "one")).toEqual({
      code: 2,
      output: "--seed and --seeds: write whole numbers, as in --seed 17, --seeds 1-500 or --seconds 30\n",
    });
    expect(await simulate("--mutation", "none such")).toMatchObject({
      code: 2,
      output: expect.stringMatching(/^no such bug; there are:\n/),
    });
  });
});
