import type { Clock } from "../../src/ports/clock.ts";
import { systemClock } from "../../src/platform/clock.ts";

/** A clock on which time passes so many times as fast as on the machine's, for pauses that a test has to sit out. */
export function fastClock(times: number): Clock {
  const clock = systemClock();
  const [wall, origin] = [clock.now(), clock.monotonic()];
  const monotonic = () => origin + (clock.monotonic() - origin) * times;
  return {
    now: () => wall + Math.floor(monotonic() - origin),
    monotonic,
    after: (ms, callback) => clock.after(ms / times, callback),
  };
}
