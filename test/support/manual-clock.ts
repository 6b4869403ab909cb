import type { Clock } from "../../src/ports/clock.ts";

export interface ManualClock extends Clock {
  /** Lets this many milliseconds pass. Due timers are called in order, each at its own instant. */
  advance(ms: number): void;
  /** Sets the wall clock forward or back, as an administrator does. Timers are not affected. */
  set(at: number): void;
  /** Number of waiting timers. */
  readonly waiting: number;
}

/** Returns a clock that moves only when the test moves it. `start` is milliseconds since 1970 or an ISO text. */
export function manualClock(start: number | string = "2026-01-01T00:00:00Z"): ManualClock {
  let wall = typeof start === "number" ? start : Date.parse(start);
  let elapsed = 0;
  let serial = 0;
  const timers = new Map<number, { readonly due: number; readonly callback: () => void }>();
  const pass = (until: number) => {
    wall += until - elapsed;
    elapsed = until;
  };
  const nextDue = (until: number) =>
    [...timers].filter(([, timer]) => timer.due <= until).sort(([a, x], [b, y]) => x.due - y.due || a - b)[0];
  return {
    now: () => wall,
    monotonic: () => elapsed,
    after(ms, callback) {
      const id = serial++;
      timers.set(id, { due: elapsed + Math.max(ms, 0), callback });
      return { cancel: () => void timers.delete(id) };
    },
    advance(ms) {
      const until = elapsed + ms;
      for (let next = nextDue(until); next !== undefined; next = nextDue(until)) {
        const [id, timer] = next;
        timers.delete(id);
        pass(timer.due);
        timer.callback();
      }
      pass(until);
    },
    set(at) {
      wall = at;
    },
    get waiting() {
      return timers.size;
    },
  };
}
