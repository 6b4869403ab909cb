import type { Clock, Timer } from "../../ports/clock.ts";

/**
 * Pace that a body must keep. In each period of `ms`, at least `bytes` must arrive, and at least one part of `parts` of
 * the stated length, or of what has arrived if that is more. A body of a stated length therefore arrives within twenty
 * minutes: 32 MB need 28 kB a second, half of what a slow phone line carries.
 */
export const bodyPace = { ms: 60_000, bytes: 1024, parts: 20 } as const;

/**
 * Shortest pause that counts, in milliseconds. A worker pauses for a moment whenever it asks the primary for memory, and
 * a client could choose when it does.
 */
const pauseMsMin = 1000;

/**
 * Watches the pace of a body while it is read. Calls `onTooSlow` if the body arrives too slowly; otherwise such a body
 * could keep its memory and connection for an hour. Periods with a pause do not count, because Farebox did not read
 * then.
 */
export class BodyPace {
  readonly #clock: Clock;
  readonly #onTooSlow: () => void;
  readonly #stated: number;
  /** Bytes that arrived before the current period. */
  #before = 0;
  #bytes = 0;
  #pausedAt: number | null = null;
  /** True if Farebox paused reading during the current period. */
  #wasPaused = false;
  #timer: Timer;

  /** `stated`: length of the body as the client states it, in bytes; 0 for none. */
  constructor(clock: Clock, onTooSlow: () => void, stated = 0) {
    this.#clock = clock;
    this.#onTooSlow = onTooSlow;
    this.#stated = stated;
    this.#timer = this.#start();
  }

  received(bytes: number): void {
    this.#bytes += bytes;
  }

  pause(): void {
    this.#pausedAt = this.#clock.monotonic();
  }

  resume(): void {
    if (this.#pausedAt === null) return;
    this.#wasPaused ||= this.#clock.monotonic() - this.#pausedAt >= pauseMsMin;
    this.#pausedAt = null;
  }

  stop(): void {
    this.#timer.cancel();
  }

  #start(): Timer {
    return this.#clock.after(bodyPace.ms, () => {
      const least = Math.max(bodyPace.bytes, Math.max(this.#stated, this.#before) / bodyPace.parts);
      const isPaused = this.#pausedAt !== null;
      if (!isPaused && !this.#wasPaused && this.#bytes < least) return this.#onTooSlow();
      this.#before += this.#bytes;
      this.#bytes = 0;
      this.#wasPaused = isPaused;
      this.#timer = this.#start();
    });
  }
}
