import type { Clock } from "../ports/clock.ts";

/** Event of a running proxy's store. */
export type StoreEvent =
  /** Writes fail. Not reported again before `writable`. */
  | { readonly kind: "unwritable"; readonly reason: string }
  /** `waited`: number of settlements written only now. */
  | { readonly kind: "writable"; readonly afterMs: number; readonly waited: number }
  /** A file with charges was deleted or replaced while open. Everything in it is now in this copy. */
  | { readonly kind: "copied"; readonly copy: string }
  /** The copy failed. */
  | { readonly kind: "not_copied"; readonly reason: string };

/** Shortest time between two reports of a disk that is full intermittently. Milliseconds. */
const reportEveryMs = 10_000;

/** Tracks whether writing works, and reports each change. */
export class Health {
  readonly #clock: Clock;
  readonly #onEvent: (event: StoreEvent) => void;
  #failingSince: number | null = null;
  #reportedAt: number | null = null;
  #isReported = false;

  constructor(clock: Clock, onEvent: (event: StoreEvent) => void) {
    this.#clock = clock;
    this.#onEvent = onEvent;
  }

  failed(reason: string): void {
    const now = this.#clock.monotonic();
    this.#failingSince ??= now;
    if (this.#isReported || (this.#reportedAt !== null && now - this.#reportedAt < reportEveryMs)) return;
    this.#isReported = true;
    this.#reportedAt = now;
    this.#onEvent({ kind: "unwritable", reason });
  }

  /** `waited`: number of settlements written only now. */
  works(waited: number): void {
    if (this.#failingSince === null) return;
    const afterMs = this.#clock.monotonic() - this.#failingSince;
    this.#failingSince = null;
    if (!this.#isReported) return;
    this.#isReported = false;
    this.#onEvent({ kind: "writable", afterMs, waited });
  }
}
