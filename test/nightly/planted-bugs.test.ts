import { expect, it } from "vitest";
import { mutations } from "../../simulation/mutations.ts";
import { fixedSeeds, simulate } from "../support/simulate.ts";

it.each(Object.keys(mutations))("the simulation catches %s", async (name) => {
  const { code, output } = await simulate("--seeds", fixedSeeds, "--mutation", name);
  expect(output).toMatch(/^seed \d+ fails:\n {2}step \d+: /m);
  // Code that cannot run fails too, without its bug.
  expect(output).not.toMatch(/is not defined|is not a function|parameter values/);
  expect(code).toBe(1);
});
