import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { loop } from "../../../src/platform/loop.ts";
import { manualClock } from "../../support/manual-clock.ts";

/** Creates a loop that records the start of each run; the test ends the runs. */
function recordedLoop({ firstMs = 0, everyMs = 1000 } = {}) {
  const clock = manualClock(0);
  const runs: number[] = [];
  const errors: unknown[] = [];
  const self = {
    clock,
    runs,
    errors,
    /** Ends the run in progress. */
    end: (_nextMs?: number): void => {},
    fail: (_error: Error): void => {},
  };
  const job = loop(
    clock,
    () => {
      runs.push(clock.monotonic());
      const { promise, resolve, reject } = Promise.withResolvers<number | void>();
      self.end = resolve;
      self.fail = reject;
      return promise;
    },
    { firstMs, everyMs, onError: (error) => void errors.push(error) },
  );
  return { ...self, job, end: (nextMs?: number) => self.end(nextMs), fail: (error: Error) => self.fail(error) };
}

it("runs at once, then a period after the end of each run", async () => {
  const { job, clock, runs, end } = recordedLoop();
  await using _job = job;
  await nextTurn();
  expect(runs).toEqual([0]);
  clock.advance(5000);
  expect(runs).toEqual([0]);
  end();
  await nextTurn();
  clock.advance(999);
  expect(runs).toEqual([0]);
  clock.advance(1);
  expect(runs).toEqual([0, 6000]);
  end();
});

it("begins after the given delay", async () => {
  const { job, clock, runs, end } = recordedLoop({ firstMs: 300 });
  await using _job = job;
  await nextTurn();
  clock.advance(299);
  expect(runs).toEqual([]);
  clock.advance(1);
  expect(runs).toEqual([300]);
  end();
});

it("runs next after the delay that a run returns, or only when it is woken if that is Infinity", async () => {
  const { job, clock, runs, end } = recordedLoop();
  await using _job = job;
  await nextTurn();
  end(20);
  await nextTurn();
  clock.advance(20);
  expect(runs).toEqual([0, 20]);
  end(0);
  await nextTurn();
  expect(runs).toEqual([0, 20, 20]);
  end(Infinity);
  await nextTurn();
  expect(clock.waiting).toBe(0);
  clock.advance(100_000);
  job.wake();
  expect(runs).toEqual([0, 20, 20, 100_020]);
  end();
});

it("runs once for several wake calls, at the earliest time", async () => {
  const { job, clock, runs, end } = recordedLoop();
  await using _job = job;
  await nextTurn();
  end();
  await nextTurn();
  job.wake(5000);
  job.wake(50);
  job.wake(100);
  clock.advance(50);
  expect(runs).toEqual([0, 50]);
  end();
  await nextTurn();
  clock.advance(999);
  expect(runs).toEqual([0, 50]);
  clock.advance(1);
  expect(runs).toEqual([0, 50, 1050]);
  end();
});

it("runs once more if it was woken during a run, at the earliest of the times, counted from the end of the run", async () => {
  const { job, clock, runs, end } = recordedLoop();
  await using _job = job;
  await nextTurn();
  job.wake(70);
  job.wake(30);
  job.wake(90);
  clock.advance(500);
  expect(runs).toEqual([0]);
  end();
  await nextTurn();
  clock.advance(29);
  expect(runs).toEqual([0]);
  clock.advance(1);
  expect(runs).toEqual([0, 530]);
  job.wake();
  job.wake();
  end();
  await nextTurn();
  expect(runs).toEqual([0, 530, 530]);
  end();
  await nextTurn();
  expect(runs).toHaveLength(3);
});

it("resolves a requested run after a run that began later than the request", async () => {
  const { job, runs, end } = recordedLoop();
  await using _job = job;
  await nextTurn();
  const ended: string[] = [];
  const asked = ["first", "second"].map((name) => job.run().then(() => ended.push(name)));
  end();
  await nextTurn();
  expect(runs).toHaveLength(2);
  expect(ended).toEqual([]);
  end();
  await Promise.all(asked);
  expect(ended).toEqual(["first", "second"]);
  const third = job.run();
  expect(runs).toHaveLength(3);
  end();
  await third;
});

it("runs again if a run wakes the loop itself", async () => {
  let runs = 0;
  await using job = loop(
    manualClock(0),
    async () => {
      if (++runs < 3) job.wake();
    },
    { firstMs: 1, everyMs: 1000, onError: () => {} },
  );
  await job.run();
  await nextTurn();
  expect(runs).toBe(3);
});

it("passes errors to its handler and continues after a period", async () => {
  const { job, clock, runs, errors, end, fail } = recordedLoop();
  await using _job = job;
  await nextTurn();
  fail(new Error("no disk"));
  await nextTurn();
  expect(errors).toEqual([new Error("no disk")]);
  clock.advance(1000);
  expect(runs).toEqual([0, 1000]);
  end();
});

it("waits for the run in progress when it is disposed of, and then never runs again", async () => {
  const { job, clock, runs, end } = recordedLoop();
  await nextTurn();
  job.wake();
  let isOver = false;
  const over = job[Symbol.asyncDispose]().then(() => (isOver = true));
  expect(job.ending.aborted).toBe(true);
  await nextTurn();
  expect(isOver).toBe(false);
  end();
  await over;
  job.wake();
  job.wake(10);
  await job.run();
  expect(clock.waiting).toBe(0);
  expect(runs).toEqual([0]);
});

it("never runs if it is disposed of before its first run", async () => {
  for (const firstMs of [0, 10]) {
    const { job, clock, runs } = recordedLoop({ firstMs });
    await job[Symbol.asyncDispose]();
    clock.advance(1000);
    await nextTurn();
    expect(clock.waiting).toBe(0);
    expect(runs).toEqual([]);
  }
});
