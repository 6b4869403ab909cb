import type { Clock } from "../../src/ports/clock.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { until } from "./until.ts";

/** Clock that stands still, while its timers run: no window or minute ends, and no task becomes due. */
interface StillClock extends Clock {
  /** Sets the time forward by this many milliseconds. */
  forward(ms: number): void;
  /** Sets the time forward by this many milliseconds until the promise has settled, however late its limit begins. */
  forwardUntil<T>(ms: number, settled: Promise<T>): Promise<T>;
}

export function stillClock(): StillClock {
  const clock = systemClock();
  const start = { now: clock.now(), monotonic: clock.monotonic() };
  let passedMs = 0;
  return {
    ...clock,
    now: () => start.now + passedMs,
    monotonic: () => start.monotonic + passedMs,
    forward: (ms) => void (passedMs += ms),
    async forwardUntil(ms, settled) {
      let isSettled = false;
      const note = () => void (isSettled = true);
      settled.then(note, note);
      await until(() => {
        if (!isSettled) passedMs += ms;
        return isSettled;
      }, "the time limit ends it");
      return settled;
    },
  };
}
