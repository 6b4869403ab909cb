import type { Clock } from "../ports/clock.ts";

/** What happens to the file of a running proxy. */
export type StoreEvent =
  /** Nothing can be written. Not reported again before `writable`. */
  | { readonly kind: "unwritable"; readonly reason: string }
  /** `waited`: settlements that are written now. */
  | { readonly kind: "writable"; readonly afterMs: number; readonly waited: number }
  /** A file with charges has lost its name: all that was in it is in this copy now. */
  | { readonly kind: "copied"; readonly copy: string }
  /** That could not be done. */
  | { readonly kind: "not_copied"; readonly reason: string };

/** Shortest time between two reports of a disk that is full now and then. Milliseconds. */
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

  /** `waited`: how many settlements were written only now. */
  works(waited: number): void {
    if (this.#failingSince === null) return;
    const afterMs = this.#clock.monotonic() - this.#failingSince;
    this.#failingSince = null;
    if (!this.#isReported) return;
    this.#isReported = false;
    this.#onEvent({ kind: "writable", afterMs, waited });
  }
}
