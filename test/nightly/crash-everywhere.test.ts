import { expect, it } from "vitest";
import { simulate } from "../support/simulate.ts";

it("the simulation finds no fault with a crash at each step", { timeout: 1_200_000 }, async () => {
  const { code, output } = await simulate("--seeds", "21-35", "--crash-everywhere");
  expect(code, output).toBe(0);
});
