import type { Clock } from "../ports/clock.ts";

/** Stops and resumes reading from the gateway. */
export interface Pace {
  pause(): void;
  resume(): void;
}

/** One reading that several can stop: it goes on when none of them stops it any more. Each call makes one of them. */
export function sharedPace(pace: Pace): () => Pace {
  let stopping = 0;
  return () => {
    let stops = false;
    return {
      pause() {
        if (stops) return;
        stops = true;
        if (++stopping === 1) pace.pause();
      },
      resume() {
        if (!stops) return;
        stops = false;
        if (--stopping === 0) pace.resume();
      },
    };
  };
}

/** Measures how long nothing was read. */
export function timedPace(pace: Pace, clock: Pick<Clock, "monotonic">): { readonly pace: Pace; pausedMs(): number } {
  let pausedAt: number | undefined;
  let before = 0;
  const running = () => (pausedAt === undefined ? 0 : clock.monotonic() - pausedAt);
  return {
    pausedMs: () => before + running(),
    pace: {
      pause() {
        pausedAt ??= clock.monotonic();
        pace.pause();
      },
      resume() {
        before += running();
        pausedAt = undefined;
        pace.resume();
      },
    },
  };
}
