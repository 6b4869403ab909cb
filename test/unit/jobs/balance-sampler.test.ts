import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { startBalanceSampler } from "../../../src/jobs/balance-sampler.ts";
import { alwaysMine } from "../../../src/jobs/job-claims.ts";
import { silentLog } from "../../support/captured-log.ts";
import { endAt, holdOf, memoryStore, noon, posting } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";

const minuteMs = 60_000;

/** Creates a sampler with a ledger in memory and a gateway that answers with `record`. */
function world({ everyMs = minuteMs } = {}) {
  const clock = manualClock(noon);
  const { ledger, samples } = memoryStore({ clock });
  const warnings: string[] = [];
  const self = {
    clock,
    ledger,
    samples,
    warnings,
    record: { data: { id: 1, equivalent_in_usd: 25, api_key: "sk-secret" } } as unknown,
    requests: 0,
    start: () =>
      startBalanceSampler({
        ledger,
        samples,
        clock,
        everyMs,
        claim: alwaysMine,
        log: { ...silentLog, warn: (_fields, message) => void warnings.push(message) },
        fetch: async () => {
          self.requests++;
          return self.record;
        },
      }),
    /** Advances the clock in steps of 15 seconds, and runs what is due. */
    async pass(ms: number) {
      for (let left = ms; left > 0; left -= 15_000) {
        clock.advance(Math.min(left, 15_000));
        await nextTurn();
      }
    },
    async spend(id: string) {
      await ledger.hold(holdOf(id, usd("1"), { at: clock.now() }));
      await ledger.post(id, posting(1000, 10), endAt(clock.now()));
    },
    times: async () => (await samples.list(0, Number.MAX_SAFE_INTEGER)).map(({ askedAt }) => (askedAt - noon) / 1000),
  };
  return self;
}

it("samples soon after the start, in each period with traffic and once after it, otherwise hourly", async () => {
  const { pass, spend, times, start, ledger } = world();
  await using _sampler = start();
  await pass(14_000);
  expect(await times()).toEqual([]);
  await pass(1000);
  expect(await times()).toEqual([15]);
  await pass(10 * minuteMs);
  expect(await times()).toEqual([15]);
  await spend("a");
  await pass(minuteMs);
  await spend("b");
  await pass(5 * minuteMs);
  // Two samples with traffic, and one after it.
  expect(await times()).toEqual([15, 675, 735, 795]);
  await ledger.hold(holdOf("open", usd("1")));
  await pass(3 * minuteMs);
  expect((await times()).slice(4)).toEqual([1035, 1095, 1155]);
  await ledger.void("open", "client_left", endAt(noon));
  await pass(2 * 60 * minuteMs);
  expect((await times()).slice(7)).toEqual([1215, 1275, 4875]);
});

it("samples at most once a minute, or less often with a longer time to live", async () => {
  const hasty = world({ everyMs: 1000 });
  await using _hasty = hasty.start();
  for (let index = 0; index < 60; index++) {
    await hasty.spend(`r${index}`);
    await hasty.pass(15_000);
  }
  expect(hasty.requests).toBe(15);
  const slow = world({ everyMs: 10 * minuteMs });
  await using _slow = slow.start();
  for (let index = 0; index < 60; index++) {
    await slow.spend(`r${index}`);
    await slow.pass(minuteMs);
  }
  expect(slow.requests).toBe(6);
});

it("logs once that the gateway returns no record, and continues", async () => {
  const self = world();
  self.record = undefined;
  await using sampler = self.start();
  await self.pass(5 * minuteMs);
  expect(self.requests).toBe(5);
  expect(self.warnings).toEqual(["no sample of the gateway's account could be taken"]);
  expect(await sampler.sample()).toBeUndefined();
  self.record = { equivalent_in_usd: "24.5" };
  expect(await sampler.sample()).toMatchObject({ account: null, figures: { equivalent_in_usd: "24.5" } });
});

it("keeps the order of samples when the clock is set back, and thins out old samples daily", async () => {
  const self = world();
  await using sampler = self.start();
  await sampler.sample();
  self.clock.set(noon - 3_600_000);
  const second = await sampler.sample();
  expect(second?.askedAt).toBe(noon + 1);
  self.clock.set(noon);
  for (let index = 0; index < 300; index++) {
    await self.spend(`r${index}`);
    await self.pass(minuteMs);
  }
  const before = (await self.times()).length;
  expect(before).toBeGreaterThan(290);
  self.clock.set(noon + 9 * 86_400_000);
  await self.pass(2 * minuteMs);
  expect(await self.times()).toEqual([...[0, 1, 2, 3, 4, 5].map((hour) => hour * 3600), 9 * 86_400 + 60]);
});

it("ends with its timer, after the sample that is being taken", async () => {
  const self = world();
  const sampler = self.start();
  const last = sampler.sample();
  await sampler[Symbol.asyncDispose]();
  expect(await last).toBeDefined();
  expect(self.clock.waiting).toBe(0);
});
