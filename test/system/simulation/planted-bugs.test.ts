import { describe, expect, it } from "vitest";
import { mutations } from "../../../simulation/mutations.ts";
import { fixedSeeds, simulate } from "../../support/simulate.ts";

// In a separate file, so that it runs in parallel with the other tests of the simulation.
describe("the simulation", { timeout: 300_000 }, () => {
  it.each(Object.keys(mutations))("catches %s", async (name) => {
    const { code, output } = await simulate("--seeds", fixedSeeds, "--mutation", name);
    expect(output).toMatch(/^seed \d+ fails:\n {2}step \d+: /m);
    expect(code).toBe(1);
  });
});
