import type { Clock } from "../../src/ports/clock.ts";
import { systemClock } from "../../src/platform/clock.ts";

/** Timers of this duration and longer, in milliseconds, are time limits. They keep their length. */
const limitMs = 10_000;

/** Returns a clock that runs `times` as fast as the system clock, for tests with pauses. */
export function fastClock(times: number): Clock {
  const clock = systemClock();
  const [wall, origin] = [clock.now(), clock.monotonic()];
  const monotonic = () => origin + (clock.monotonic() - origin) * times;
  return {
    now: () => wall + Math.floor(monotonic() - origin),
    monotonic,
    after: (ms, callback) => clock.after(ms < limitMs ? ms / times : ms, callback),
  };
}
