import { performance } from "node:perf_hooks";
import type { Clock } from "../ports/clock.ts";

/** The machine's clock. Its timers do not keep the process alive. */
export function systemClock(): Clock {
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    after(ms, callback) {
      const timer = setTimeout(callback, ms);
      timer.unref();
      return { cancel: () => clearTimeout(timer) };
    },
  };
}
