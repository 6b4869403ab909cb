// @module-tag races
import { expect, it } from "vitest";
import { runCampaign } from "./campaign.ts";

/** Enough for each kind of end. `npm run crash` runs many more, from random seeds. */
const times = 9;

it(
  "the ledger keeps everything acknowledged and everything billed, however and whenever the process ends",
  { timeout: 240_000 },
  async () => {
    const { broken, ...figures } = await runCampaign({
      times,
      seed: 17,
      clients: 30,
      // Some were in the middle of their work, some did not fit their budget, and many were answered.
      isEnough: ({ recovered, refused, answeredWhole }) => recovered > 20 && refused > 0 && answeredWhole > 200,
    });
    expect(broken).toEqual([]);
    expect(figures.rounds).toBeGreaterThanOrEqual(times);
  },
);
