import type { Clock, Timer } from "../../ports/clock.ts";

/** So much of a body must come in each such time; a telephone on a bad line sends a hundred times as much. */
export const bodyPace = { ms: 60_000, bytes: 1024 } as const;

/**
 * Watches a body that is being read, so that one that does not move, or moves a byte at a time, does not keep its memory
 * and its connection for an hour. What is not asked for (a pause) is not missed.
 */
export class BodyPace {
  readonly #clock: Clock;
  readonly #onTooSlow: () => void;
  #bytes = 0;
  #paused = false;
  /** True if the current period had a pause of ours. */
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
