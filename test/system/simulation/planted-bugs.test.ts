import { describe, expect, it } from "vitest";
import { mutations } from "../../../simulation/mutations.ts";
import { fixedSeeds, simulate } from "../../support/simulate.ts";

// A file of its own, so that it and the other one are run at the same time.
describe("the simulation", { timeout: 120_000 }, () => {
  it.each(Object.keys(mutations))("catches %s", async (name) => {
    const { code, output } = await simulate("--seeds", fixedSeeds, "--mutation", name);
    expect(output).toMatch(/^seed \d+ fails:\n {2}step \d+: /m);
    expect(code).toBe(1);
  });
});
