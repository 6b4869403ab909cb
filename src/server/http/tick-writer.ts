import type { ServerResponse } from "node:http";

/**
 * Writes to a response what gathers in one tick in one piece: a read from the gateway may hold hundreds of small chunks,
 * and each would cost a frame and three entries of a system call. Everything leaves behind the callback in which it came.
 */
export class TickWriter {
  readonly #response: ServerResponse;
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  #scheduled = false;
  #waiting: (() => void)[] = [];

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  /** The head has been written; it leaves with what comes in the same tick, or alone. */
  begin(): void {
    this.#schedule();
  }

  /** False when the reader is slow: what more comes should wait for `onDrain`. */
  write(bytes: Uint8Array): boolean {
    this.#chunks.push(bytes);
    this.#bytes += bytes.length;
    this.#schedule();
    return this.#bytes + this.#response.writableLength < this.#response.writableHighWaterMark;
  }

  /** Calls back once, when there is room again. */
  onDrain(listener: () => void): void {
    this.#waiting.push(listener);
    this.#schedule();
  }

  end(): void {
    const rest = this.#take();
    if (rest === undefined) this.#response.end();
    else this.#response.end(rest);
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    process.nextTick(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    const response = this.#response;
    const bytes = this.#take();
    if (response.destroyed || response.writableEnded) return;
    if (bytes !== undefined) response.write(bytes);
    else response.flushHeaders();
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    const goOn = (): void => {
      for (const listener of waiting) listener();
    };
    if (response.writableNeedDrain) response.once("drain", goOn);
    else goOn();
  }

  #take(): Uint8Array | undefined {
    const chunks = this.#chunks;
    if (chunks.length === 0) return undefined;
    this.#chunks = [];
    const bytes = this.#bytes;
    this.#bytes = 0;
    return chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, bytes);
  }
}
