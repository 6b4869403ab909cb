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
const tellEveryMs = 10_000;

/** Tracks whether writing works, and reports each change. */
export class Health {
  readonly #clock: Clock;
  readonly #tell: (event: StoreEvent) => void;
  #failingSince: number | null = null;
  #toldAt: number | null = null;
  #isTold = false;

  constructor(clock: Clock, tell: (event: StoreEvent) => void) {
    this.#clock = clock;
    this.#tell = tell;
  }

  failed(reason: string): void {
    const now = this.#clock.monotonic();
    this.#failingSince ??= now;
    if (this.#isTold || (this.#toldAt !== null && now - this.#toldAt < tellEveryMs)) return;
    this.#isTold = true;
    this.#toldAt = now;
    this.#tell({ kind: "unwritable", reason });
  }

  /** `waited`: how many settlements were written only now. */
  works(waited: number): void {
    if (this.#failingSince === null) return;
    const afterMs = this.#clock.monotonic() - this.#failingSince;
    this.#failingSince = null;
    if (!this.#isTold) return;
    this.#isTold = false;
    this.#tell({ kind: "writable", afterMs, waited });
  }
}
