import type { Clock, Timer } from "../../ports/clock.ts";

/**
 * Smallest number of bytes of a body that must arrive in each period. A telephone with a bad connection sends a hundred
 * times as much.
 */
export const bodyPace = { ms: 60_000, bytes: 1024 } as const;

/**
 * Watches a body while it is read. Calls `onTooSlow` if it arrives too slowly, so that it does not keep its memory and
 * connection for an hour. Periods with a pause do not count, because Farebox did not read then.
 */
export class BodyPace {
  readonly #clock: Clock;
  readonly #onTooSlow: () => void;
  #bytes = 0;
  #paused = false;
  /** True if Farebox paused reading during the current period. */
  #wasPaused = false;
  #timer: Timer;

  constructor(clock: Clock, onTooSlow: () => void) {
    this.#clock = clock;
    this.#onTooSlow = onTooSlow;
    this.#timer = this.#start();
  }

  came(bytes: number): void {
    this.#bytes += bytes;
  }

  pause(): void {
    this.#paused = true;
    this.#wasPaused = true;
  }

  resume(): void {
    this.#paused = false;
  }

  stop(): void {
    this.#timer.cancel();
  }

  #start(): Timer {
    return this.#clock.after(bodyPace.ms, () => {
      if (!this.#wasPaused && this.#bytes < bodyPace.bytes) return this.#onTooSlow();
      this.#bytes = 0;
      this.#wasPaused = this.#paused;
      this.#timer = this.#start();
    });
  }
}
