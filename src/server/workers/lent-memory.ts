import type { BodyMemory } from "../http/body.ts";
import type { PrimaryLink } from "./protocol.ts";

/** Most unused memory that a worker keeps, so that small bodies need no call. Bytes. */
const spareBytesMax = 1024 ** 2;
/** All workers together keep at most this fraction of the whole unused: 1/8. */
const spareShare = 8;

/**
 * A worker's part of the memory for bodies, acquired from the primary. All workers together never have more than there is;
 * a worker releases what it does not use.
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
    if (this.#used + bytes > this.#lent) return this.#acquire(bytes);
    this.#used += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#used -= bytes;
    const surplus = this.#lent - this.#used - this.#spareBytes;
    // Not for every small body: half of the spare memory may be used and freed without a call.
    if (surplus <= this.#spareBytes / 2) return;
    this.#lent -= surplus;
    this.#link.notify("release", surplus);
  }

  async #acquire(bytes: number): Promise<boolean> {
    const lent = await this.#link.ask("acquire", { needed: bytes, wanted: bytes + this.#spareBytes });
    this.#lent += lent;
    // Without room there, some may have been freed here meanwhile.
    if (this.#used + bytes > this.#lent) return false;
    this.#used += bytes;
    return true;
  }
}
