import { once } from "node:events";
import type { Transform } from "node:stream";
import { setImmediate } from "node:timers/promises";
import {
  brotliCompressSync,
  createBrotliCompress,
  createGzip,
  createZstdCompress,
  gzipSync,
  zstdCompressSync,
} from "node:zlib";
import type { Call } from "./call.ts";
import { pause } from "./pause.ts";
import { digest, randomFrom, type Random } from "./random.ts";
import { numberOf, type Scenario } from "./scenarios.ts";

type Encoding = "gzip" | "br" | "zstd";

/** Returns the compression that the scenario asks for; undefined for none. */
export function encodingOf(scenario: Scenario): Encoding | undefined {
  return (["gzip", "br", "zstd"] as const).find((name) => name in scenario);
}

const compressors = { gzip: gzipSync, br: brotliCompressSync, zstd: zstdCompressSync };
const streamCompressors = { gzip: createGzip, br: createBrotliCompress, zstd: createZstdCompress };

export function compress(body: Buffer, encoding: Encoding | undefined): Buffer {
  return encoding === undefined ? body : compressors[encoding](body);
}

/** Writes an answer's body as the scenario asks: compressed or in pieces. Never writes faster than the client reads. */
export class BodyWriter {
  readonly #call: Call;
  readonly #encoder: Transform | undefined;
  readonly #encoded: Buffer[] = [];
  readonly #random: Random;

  constructor(call: Call, encoding: Encoding | undefined) {
    this.#call = call;
    this.#random = randomFrom(digest(call.shared.options.seed, call.seen.body));
    if (encoding === undefined) return;
    this.#encoder = streamCompressors[encoding]();
    this.#encoder.on("data", (bytes: Buffer) => this.#encoded.push(bytes));
  }

  /** Writes a part of the body. Resolves to true when more may be written, and to false when the client is gone. */
  async write(text: string | Buffer): Promise<boolean> {
    if (this.#call.gone.aborted) return false;
    const bytes = await this.#encode(text);
    if (!("split" in this.#call.scenario)) return this.#put(bytes);
    for (const piece of this.#pieces(typeof bytes === "string" ? Buffer.from(bytes) : bytes)) {
      if (!(await this.#put(piece)) || !(await this.#endPacket())) return false;
    }
    return true;
  }

  /** Ends the body. Resolves when the response has received the whole body, or the client is gone. */
  async end(): Promise<void> {
    const encoder = this.#encoder;
    if (encoder !== undefined) {
      encoder.end();
      await once(encoder, "end");
      await this.#put(this.#takeEncoded());
    }
    this.#call.response.end();
  }

  /**
   * Resolves when the kernel has received all written bytes, or the client is gone. Destroying the socket after that
   * loses no bytes.
   */
  async flush(): Promise<void> {
    const { response, gone } = this.#call;
    if (gone.aborted) return;
    await new Promise<void>((resolve) => {
      gone.addEventListener("abort", () => resolve(), { once: true });
      response.socket?.write("", () => resolve());
    });
  }

  async #encode(text: string | Buffer): Promise<string | Buffer> {
    const encoder = this.#encoder;
    if (encoder === undefined) return text;
    await new Promise<void>((resolve, reject) => {
      encoder.once("error", reject);
      encoder.write(text);
      flushEncoder(encoder, () => {
        encoder.off("error", reject);
        resolve();
      });
    });
    return this.#takeEncoded();
  }

  #takeEncoded(): Buffer {
    return Buffer.concat(this.#encoded.splice(0));
  }

  async #put(bytes: string | Buffer): Promise<boolean> {
    const { response, gone } = this.#call;
    if (gone.aborted) return false;
    if (bytes.length === 0 || response.write(bytes)) return true;
    await once(response, "drain", { signal: gone }).catch(() => undefined);
    return !gone.aborted;
  }

  *#pieces(bytes: Buffer): Generator<Buffer> {
    const size = numberOf(this.#call.scenario, "split");
    for (let from = 0; from < bytes.length;) {
      const length = size === undefined || size === 0 ? 1 + Math.floor(this.#random() * 40) : size;
      yield bytes.subarray(from, from + length);
      from += length;
    }
  }

  /** Ends the current packet, so that the next write goes into another one. Returns false if the client is gone. */
  async #endPacket(): Promise<boolean> {
    await setImmediate();
    return !this.#call.gone.aborted;
  }
}

function flushEncoder(encoder: Transform, done: () => void): void {
  if ("flush" in encoder && typeof encoder.flush === "function") encoder.flush(done);
  else done();
}

/** Returns the delay before each delta, in milliseconds. */
export function delayOf(call: Call): number {
  return numberOf(call.scenario, "slow") ?? numberOf(call.scenario, "endless") ?? call.shared.options.chunkDelayMs;
}

/** Sends the headers and waits, if the scenario delays the body. Returns false if the client is gone. */
export async function pauseAfterHeaders(call: Call): Promise<boolean> {
  const delayMs = numberOf(call.scenario, "headers-first");
  if (delayMs === undefined) return !call.gone.aborted;
  call.response.flushHeaders();
  return pause(delayMs, call.gone);
}
