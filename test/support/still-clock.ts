import type { Clock } from "../../src/ports/clock.ts";
import { systemClock } from "../../src/platform/clock.ts";

/** Clock that stands still, while its timers run: no window or minute ends, and no task becomes due. */
export interface StillClock extends Clock {
  /** Sets the time forward by this many milliseconds. */
  forward(ms: number): void;
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
  };
}
