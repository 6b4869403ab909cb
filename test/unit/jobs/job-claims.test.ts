import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { claimJobs } from "../../../src/jobs/job-claims.ts";
import { silentLog } from "../../support/captured-log.ts";
import { jobNames } from "../../../src/ports/fleet.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { TestFleet } from "../../support/fleet.ts";

/** Creates two proxies with separate clocks; a proxy whose clock does not move is stopped. */
async function twoProxies() {
  let now = 0;
  const fleet = new TestFleet(() => now);
  const [first, second] = [proxy(fleet), proxy(fleet)];
  await nextTurn();
  return {
    first,
    second,
    /** Advances the clocks of the running proxies. */
    async pass(ms: number, ...running: (typeof first)[]) {
      for (let left = ms; left > 0; left -= 500) {
        now += 500;
        for (const { clock } of running) clock.advance(500);
        await nextTurn();
      }
    },
  };
}

function proxy(fleet: TestFleet) {
  const clock = manualClock();
  const member = fleet.join();
  const jobs = claimJobs({ claims: member.claims, clock, log: silentLog });
  const claim = jobs.of("deliveries");
  const self = { clock, member, jobs, claim, taken: 0 };
  claim.onTaken(() => self.taken++);
  return self;
}

const ownersOf = ({ claim: a }: ReturnType<typeof proxy>, { claim: b }: ReturnType<typeof proxy>) => [
  a.isMine(),
  b.isMine(),
];

it("job claims have one owner, which keeps them while it runs and releases them when it ends", async () => {
  const { first, second, pass } = await twoProxies();
  await pass(30_000, first, second);
  expect(ownersOf(first, second)).toEqual([true, false]);
  expect(jobNames.map((job) => second.jobs.of(job).isMine())).toEqual(jobNames.map(() => false));
  await first.jobs[Symbol.asyncDispose]();
  await pass(1_000, second);
  expect(ownersOf(first, second)).toEqual([false, true]);
  expect([first.taken, second.taken]).toEqual([1, 1]);
});

it("job claims are taken over within four seconds of a death, and a stopped proxy wakes without them", async () => {
  const { first, second, pass } = await twoProxies();
  await pass(4_000, second);
  expect(second.claim.isMine()).toBe(true);
  // Its clock has jumped, but none of its timers has run yet.
  first.clock.advance(4_000);
  expect(first.claim.isMine()).toBe(false);
  await pass(10_000, first, second);
  expect(ownersOf(first, second)).toEqual([false, true]);
});

it("job claims expire when the ledger does not answer, before another proxy can own them", async () => {
  const { first, second, pass } = await twoProxies();
  first.member.isReached = false;
  for (let passed = 0; passed < 6_000; passed += 500) {
    await pass(500, first, second);
    expect(ownersOf(first, second)).not.toEqual([true, true]);
  }
  expect(ownersOf(first, second)).toEqual([false, true]);
});

it("job claims all belong to the only proxy of a ledger", async () => {
  const clock = manualClock();
  await using jobs = claimJobs({ claims: null, clock, log: silentLog });
  expect(jobNames.filter((job) => jobs.of(job).isMine())).toEqual(jobNames);
  expect(clock.waiting).toBe(0);
});
