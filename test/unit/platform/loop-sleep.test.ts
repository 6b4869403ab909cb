import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { sleep } from "../../../src/platform/loop.ts";
import { manualClock } from "../../support/manual-clock.ts";

it("sleep resolves after its time or when it is aborted", async () => {
  const clock = manualClock(0);
  const ending = new AbortController();
  const over: string[] = [];
  const slept = sleep(clock, 100).then(() => over.push("slept"));
  const ended = sleep(clock, 1000, ending.signal).then(() => over.push("ended"));
  clock.advance(99);
  await nextTurn();
  expect(over).toEqual([]);
  clock.advance(1);
  await slept;
  expect(over).toEqual(["slept"]);
  ending.abort();
  await ended;
  expect(over).toEqual(["slept", "ended"]);
  expect(clock.waiting).toBe(0);
  await sleep(clock, 1000, ending.signal);
  expect(clock.waiting).toBe(0);
});
