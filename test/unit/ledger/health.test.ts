import { expect, it } from "vitest";
import { Health, type StoreEvent } from "../../../src/ledger/health.ts";
import { manualClock } from "../../support/manual-clock.ts";

function healthOver() {
  const clock = manualClock(0);
  const events: StoreEvent[] = [];
  return { clock, events, health: new Health(clock, (event) => events.push(event)) };
}

it("logs once that nothing can be written, and once that it can again, with what waited", () => {
  const { clock, events, health } = healthOver();
  health.works(0);
  health.failed("full");
  clock.advance(700);
  health.failed("full");
  health.works(3);
  health.works(0);
  expect(events).toEqual([
    { kind: "unwritable", reason: "full" },
    { kind: "writable", afterMs: 700, waited: 3 },
  ]);
});

it("does not log every short failure, but logs one that lasts", () => {
  const { clock, events, health } = healthOver();
  for (let blink = 0; blink < 50; blink++) {
    health.failed("full");
    clock.advance(10);
    health.works(0);
  }
  expect(events).toHaveLength(2);
  health.failed("full");
  expect(events).toHaveLength(2);
  clock.advance(10_000);
  health.failed("still full");
  health.works(1);
  expect(events.slice(2)).toEqual([
    { kind: "unwritable", reason: "still full" },
    { kind: "writable", afterMs: 10_000, waited: 1 },
  ]);
});
