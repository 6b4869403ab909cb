import type { Clock } from "../../src/ports/clock.ts";
import { systemClock } from "../../src/platform/clock.ts";

/** System clock of which some timers run only when the test calls `runOut`. */
interface PatientClock extends Clock {
  runOut(): void;
  /** Number of timers that wait for `runOut`. */
  readonly waiting: number;
}

/**
 * Returns a clock whose timers of this duration wait for `runOut`. Requests wait for two seconds for a larger hold and
 * for the account record, which may take longer on a busy machine.
 */
export function patientClock(heldMs = 2_000): PatientClock {
  const clock = systemClock();
  const held = new Set<() => void>();
  return {
    ...clock,
    after(ms, callback) {
      if (ms !== heldMs) return clock.after(ms, callback);
      const timer = () => callback();
      held.add(timer);
      return { cancel: () => void held.delete(timer) };
    },
    get waiting() {
      return held.size;
    },
    runOut() {
      const all = [...held];
      held.clear();
      for (const timer of all) timer();
    },
  };
}
