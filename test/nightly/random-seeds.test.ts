import { expect, it } from "vitest";
import { simulate } from "../support/simulate.ts";

const seconds = Number(process.env["FAREBOX_TEST_SIMULATION_SECONDS"] ?? 600);

it("the simulation finds no fault under random seeds", { timeout: (seconds + 180) * 1000 }, async () => {
  const { code, output } = await simulate("--seconds", String(seconds));
  // A failure prints the output, which has the seed. Its fix adds the seed to test/system/simulation/simulation.test.ts.
  expect(code, output).toBe(0);
});
