import { randomInt } from "node:crypto";
import { expect, it } from "vitest";
import { runCampaign } from "./campaign.ts";

/** `npm run crash` plays many more. Each way to end comes once. */
const times = 9;

it(
  "whatever ends the process, and whenever: nothing acknowledged is lost, and nothing billed is missing",
  { timeout: 240_000 },
  async () => {
    const seed = randomInt(1, 2 ** 31);
    const { broken, ...figures } = await runCampaign({ times, seed, clients: 30 });
    expect(broken, `seed ${seed}`).toEqual([]);
    expect(figures.rounds).toBe(times);
    expect(figures.recovered, "some were in the middle of it").toBeGreaterThan(20);
    expect(figures.answeredWhole).toBeGreaterThan(200);
  },
);
