import { describe, expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import { chatWith } from "../support/new-charges.ts";
import { patientClock } from "../support/patient-clock.ts";
import { startProxy } from "../support/running-proxy.ts";
import { watchWindows } from "../support/window-watch.ts";
import { fetchAnswer, eventsIn } from "../support/wire-client.ts";
import { isThorough } from "../support/effort.ts";

const limit = usd("0.05");
const parallel = 50;

describe("50 parallel endless streams of 100 tokens per second on a budget of 0.05 USD", () => {
  it.each(isThorough ? ["64", "128"] : ["64"])(
    "spend at least 90% and at most 100% of it by the gateway's bill, in slices of %s",
    async (slice) => {
      // Time passes as the gateway writes, because Farebox estimates from a stream's speed what is still on its way.
      let written = () => 0;
      const clock = { ...patientClock(), monotonic: () => (10 * written()) / parallel };
      await using proxy = await startProxy({ env: { FAREBOX_STREAM_SLICE: slice }, clock });
      written = () => proxy.sandbox.requests.reduce((sum, { deltas }) => sum + deltas, 0);
      await proxy.budget("key:alice", "0.05", "1mo");
      const watch = watchWindows(proxy);
      const answers = await Promise.all(
        Array.from({ length: parallel }, () => fetchAnswer(proxy, chatWith("endless:10", { stream: true }))),
      );
      const charges = await proxy.charges();
      expect(await watch.stop()).toEqual([]);

      for (const { status, body, broken: connection } of answers) {
        expect([status, connection]).toEqual([200, null]);
        expect(JSON.parse(eventsIn(body).at(-1) ?? "{}")).toEqual({
          error: {
            message: expect.stringContaining("cannot pay for more of this stream"),
            type: "insufficient_quota",
            param: null,
            code: "budget_exceeded",
            metadata: {
              scope: "key:alice",
              subject: null,
              period: "1mo",
              limit_usd: "0.05",
              spent_usd: expect.stringMatching(/^0\.0/),
              held_usd: expect.stringMatching(/^0\.0/),
              needed_usd: expect.stringMatching(/^0\.000\d+$/),
              resets_at: expect.stringMatching(/-01T00:00:00\.000Z$/),
            },
          },
        });
      }
      await proxy.sandbox.waitFor(({ activeStreams }) => activeStreams === 0);
      const { billed, ledger } = proxy.sandbox;
      expect(ledger.filter((call) => call.deliveredTokens !== call.completionTokens)).toEqual([]);
      expect(billed.cost).toBeLessThanOrEqual(limit);
      expect(Number((billed.cost * 100n) / limit)).toBeGreaterThanOrEqual(90);

      expect(charges).toHaveLength(parallel);
      for (const charge of charges)
        expect(charge).toMatchObject({
          state: "posted",
          source: "partial",
          reason: "budget_exceeded",
          overage: 0n,
          status: 200,
        });
      const spent = charges.reduce((sum, { cost }) => sum + (cost ?? 0n), 0n);
      expect(spent).toBeGreaterThanOrEqual(billed.cost);
      expect(await proxy.serving.ledger.windows(Date.now())).toMatchObject([{ spent, held: 0n }]);
      expect(await proxy.serving.ledger.verify()).toMatchObject({ differences: [] });
    },
  );
});
