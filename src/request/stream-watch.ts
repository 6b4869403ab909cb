import type { Refusal } from "../core/refusals.ts";
import type { Clock } from "../ports/clock.ts";
import type { OutputListener } from "../wire/stream-output.ts";

/** Observer of a stream that passes. */
export interface StreamWatch {
  /** Called when the stream begins, with the means to pause it and to end it. */
  begin(stream: WatchedStream): void;
  /** Called if the output cannot be read: the answer is compressed, or is no stream. */
  cannotRead(): void;
  /** First bytes of a stream that need not be read: the hold covers their output. */
  readonly unreadBytes: number;
  /** Receives the output. */
  readonly output: OutputListener;
  /** Called after every chunk. */
  onChunk(): void;
  /** Called when the stream has ended. */
  end(): void;
}

export interface WatchedStream {
  readonly pace: Pace;
  /** Returns the total time without reading, for any reason, in milliseconds. */
  pausedMs(): number;
  /** Ends it with a reason for its charge and a refusal for its client. */
  stop(reason: string, refusal: Refusal): void;
}

/** Stops and resumes reading from the gateway. */
export interface Pace {
  pause(): void;
  resume(): void;
}

/** Shares one pace: reading continues when none of its users pauses it. Each call returns the pace of one user. */
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

/** Measures the time in which reading is paused. */
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
