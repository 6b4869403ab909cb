import { randomInt } from "node:crypto";
import { expect, it } from "vitest";
import { runCampaign } from "./campaign.ts";

/** Enough for each kind of end. `npm run crash` runs many more. */
const times = 9;

it(
  "the ledger keeps everything acknowledged and everything billed, however and whenever the process ends",
  { timeout: 240_000 },
  async () => {
    const seed = randomInt(1, 2 ** 31);
    const { broken, ...figures } = await runCampaign({ times, seed, clients: 30 });
    expect(broken, `seed ${seed}`).toEqual([]);
    expect(figures.rounds).toBe(times);
    expect(figures.recovered, "some were in the middle of it").toBeGreaterThan(20);
    expect(figures.refused, "some did not fit their budget").toBeGreaterThan(0);
    expect(figures.answeredWhole).toBeGreaterThan(200);
  },
);
