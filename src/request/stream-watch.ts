import type { Refusal } from "../core/refusals.ts";
import type { Clock } from "../ports/clock.ts";
import type { OutputListener } from "../wire/stream-output.ts";

/** Observer of a stream that passes. */
export interface StreamWatch {
  /** The stream begins: it can be paused, and ended with a reason for its row and a refusal for its client. */
  begin(stream: WatchedStream): void;
  /** Reports that the output cannot be read: the answer is compressed, or is no stream. */
  cannotRead(): void;
  /** Bytes of a stream that can be left unread at first: what they say is within the hold. */
  readonly unreadBytes: number;
  /** Hears of what is written. */
  readonly output: OutputListener;
  /** After every chunk. */
  look(): void;
  /** Nothing more will come. */
  end(): void;
}

export interface WatchedStream {
  readonly pace: Pace;
  /** Returns the total time without reading, for any reason, in milliseconds. */
  pausedMs(): number;
  stop(reason: string, refusal: Refusal): void;
}

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
