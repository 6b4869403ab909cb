import { expect, it } from "vitest";
import { Health, type StoreEvent } from "../../../src/ledger/queue.ts";
import { manualClock } from "../../support/manual-clock.ts";

function healthOver() {
  const clock = manualClock(0);
  const events: StoreEvent[] = [];
  return { clock, events, health: new Health(clock, (event) => events.push(event)) };
}

it("reports a failure once, and the recovery once with the number of waiting commands", () => {
  const { clock, events, health } = healthOver();
  health.succeeded(0);
  health.failed("full");
  clock.advance(700);
  health.failed("full");
  health.succeeded(3);
  health.succeeded(0);
  expect(events).toEqual([
    { kind: "unwritable", reason: "full" },
    { kind: "writable", afterMs: 700, waited: 3 },
  ]);
});

it("does not report every short failure, but reports a lasting one", () => {
  const { clock, events, health } = healthOver();
  for (let round = 0; round < 50; round++) {
    health.failed("full");
    clock.advance(10);
    health.succeeded(0);
  }
  expect(events).toHaveLength(2);
  health.failed("full");
  expect(events).toHaveLength(2);
  clock.advance(10_000);
  health.failed("still full");
  health.succeeded(1);
  expect(events.slice(2)).toEqual([
    { kind: "unwritable", reason: "still full" },
    { kind: "writable", afterMs: 10_000, waited: 1 },
  ]);
});
