import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { claimJobs } from "../../../src/jobs/job-claims.ts";
import { silentLog } from "../../../src/platform/log.ts";
import { jobNames } from "../../../src/ports/fleet.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { TestFleet } from "../../support/fleet.ts";

/** Two proxies, each with a clock of its own: one that does not move is stopped. */
async function twoProxies() {
  let now = 0;
  const fleet = new TestFleet(() => now);
  const [first, second] = [proxy(fleet), proxy(fleet)];
  await nextTurn();
  return {
    first,
    second,
    /** Lets time pass for those that run. */
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

it("have one owner, who keeps them as long as it runs and gives them to the next one at its end", async () => {
  const { first, second, pass } = await twoProxies();
  await pass(30_000, first, second);
  expect(ownersOf(first, second)).toEqual([true, false]);
  expect(jobNames.map((job) => second.jobs.of(job).isMine())).toEqual(jobNames.map(() => false));
  await first.jobs[Symbol.asyncDispose]();
  await pass(1_000, second);
  expect(ownersOf(first, second)).toEqual([false, true]);
  expect([first.taken, second.taken]).toEqual([1, 1]);
});

it("are taken over within four seconds of a death, and a proxy that was stopped wakes without them", async () => {
  const { first, second, pass } = await twoProxies();
  await pass(4_000, second);
  expect(second.claim.isMine()).toBe(true);
  // Its clock jumps as the machine's does, and nothing of its own has run yet.
  first.clock.advance(4_000);
  expect(first.claim.isMine()).toBe(false);
  await pass(10_000, first, second);
  expect(ownersOf(first, second)).toEqual([false, true]);
});

it("end by themselves where the ledger does not answer, no later than another one can have them", async () => {
  const { first, second, pass } = await twoProxies();
  first.member.isReached = false;
  for (let passed = 0; passed < 6_000; passed += 500) {
    await pass(500, first, second);
    expect(ownersOf(first, second)).not.toEqual([true, true]);
  }
  expect(ownersOf(first, second)).toEqual([false, true]);
});

it("are all held by the only proxy of a ledger", async () => {
  const clock = manualClock();
  await using jobs = claimJobs({ claims: null, clock, log: silentLog });
  expect(jobNames.every((job) => jobs.of(job).isMine())).toBe(true);
  expect(clock.waiting).toBe(0);
});
