import type { BodyMemory } from "../../http/body.ts";
import type { PrimaryLink } from "./worker-link.ts";

/** So much a worker keeps at most that nobody uses, so that small bodies need not ask. Bytes. */
const spareBytesMax = 1024 ** 2;
/** All workers together keep at most this share of the whole unused. */
const spareShare = 8;

/**
 * A worker's part of the memory for bodies, which is lent by the primary. What all workers have is never more than there is;
 * what is lent and not used goes back.
 */
export class LentBodyMemory implements BodyMemory {
  readonly #link: PrimaryLink;
  readonly #spareBytes: number;
  #lent = 0;
  #used = 0;

  constructor(link: PrimaryLink, { bytesMax, workers }: { readonly bytesMax: number; readonly workers: number }) {
    this.#link = link;
    this.#spareBytes = Math.min(spareBytesMax, Math.floor(bytesMax / (spareShare * workers)));
  }

  take(bytes: number): boolean | Promise<boolean> {
    if (this.#used + bytes > this.#lent) return this.#borrow(bytes);
    this.#used += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#used -= bytes;
    const surplus = this.#lent - this.#used - this.#spareBytes;
    // Not for every small body: half of what is spare may come and go.
    if (surplus <= this.#spareBytes / 2) return;
    this.#lent -= surplus;
    this.#link.tell("giveBack", surplus);
  }

  async #borrow(bytes: number): Promise<boolean> {
    const lent = await this.#link.ask("borrow", { needed: bytes, wanted: bytes + this.#spareBytes });
    this.#lent += lent;
    // Where there was no room, something may have become free here meanwhile.
    if (this.#used + bytes > this.#lent) return false;
    this.#used += bytes;
    return true;
  }
}
