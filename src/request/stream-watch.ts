import type { Refusal } from "../core/refusals.ts";
import type { Clock } from "../ports/clock.ts";
import type { OutputListener } from "../wire/stream-output.ts";

/** Observer of a stream that is passed on. */
export interface StreamWatch {
  /** Called when the stream begins, with the means to pause it and to end it. */
  begin(stream: WatchedStream): void;
  /** Called if the output cannot be read, because the answer is compressed or is not a stream. */
  cannotRead(): void;
  /** Receives the size so far of an answer that is one JSON text. Its bytes bound its output. */
  whole(bytes: number): void;
  /**
   * Returns true if the unread bytes of the stream must be read now. `isLast`: true if they are known to complete the
   * stream and the client took them at once.
   */
  mustRead(unreadBytes: number, isLast: boolean): boolean;
  /** Receives the output that is read. */
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
  /** Ends the stream, with a reason for its charge and a refusal for its client. */
  stop(reason: string, refusal: Refusal): void;
}

/** Stops and resumes reading from the gateway. */
export interface Pace {
  pause(): void;
  resume(): void;
}

/**
 * Shares one pace among several users. Each call of the returned function creates the pace of one user. Reading
 * continues when no user pauses it.
 */
export function sharedPace(pace: Pace): () => Pace {
  let pausingUsers = 0;
  return () => {
    let isPausing = false;
    return {
      pause() {
        if (isPausing) return;
        isPausing = true;
        if (++pausingUsers === 1) pace.pause();
      },
      resume() {
        if (!isPausing) return;
        isPausing = false;
        if (--pausingUsers === 0) pace.resume();
      },
    };
  };
}

/** Wraps a pace to measure how long reading is paused. */
export function timedPace(pace: Pace, clock: Pick<Clock, "monotonic">): { readonly pace: Pace; pausedMs(): number } {
  let pausedAt: number | undefined;
  let earlierPausesMs = 0;
  const currentPauseMs = () => (pausedAt === undefined ? 0 : clock.monotonic() - pausedAt);
  return {
    pausedMs: () => earlierPausesMs + currentPauseMs(),
    pace: {
      pause() {
        pausedAt ??= clock.monotonic();
        pace.pause();
      },
      resume() {
        earlierPausesMs += currentPauseMs();
        pausedAt = undefined;
        pace.resume();
      },
    },
  };
}
