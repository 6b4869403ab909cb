import { isUsageChunk } from "./chat-stream.ts";
import { LineEnds, SseReader } from "./sse.ts";

/** An event longer than this is passed on as it comes: it is no usage chunk. */
const eventBytesMax = 64 * 1024;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const nothing = Buffer.alloc(0);

/**
 * Takes the usage chunk out of a stream whose client did not ask for one; every other byte passes unchanged and in its
 * tick. Only the bytes of an event that is still incomplete wait for their end: no client can read them before.
 */
export class UsageChunkFilter {
  /** Pieces of the event whose blank line has not come yet. */
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  /** The event at hand is too long for a usage chunk: what comes of it leaves at once. */
  #passing = false;
  #lineHasBytes = false;
  /** The last byte was a CR that ended a line: an LF right after it belongs to the same end. */
  #afterCarriage = false;
  #lastWasDropped = false;

  /** The bytes that may leave now. */
  pass(chunk: Buffer): Buffer {
    const kept: Buffer[] = [];
    let from = 0;
    let lineStart = 0;
    if (this.#afterCarriage && chunk[0] === lineFeed) {
      lineStart = 1;
      const eventIsOver = this.#waitingBytes === 0 && !this.#passing;
      if (eventIsOver) from = 1;
      if (eventIsOver && !this.#lastWasDropped) kept.push(chunk.subarray(0, 1));
    }
    if (chunk.length > 0) this.#afterCarriage = false;
    const ends = new LineEnds(chunk);
    for (let end = ends.next(lineStart); end !== -1; end = ends.next(lineStart)) {
      const isBlank = end === lineStart && !this.#lineHasBytes;
      const isCarriage = chunk[end] === carriageReturn;
      this.#lineHasBytes = false;
      this.#afterCarriage = isCarriage && end + 1 === chunk.length;
      lineStart = isCarriage && chunk[end + 1] === lineFeed ? end + 2 : end + 1;
      if (!isBlank) continue;
      this.#wait(chunk.subarray(from, lineStart));
      this.#eventOver(kept);
      from = lineStart;
    }
    if (lineStart < chunk.length) this.#lineHasBytes = true;
    this.#wait(chunk.subarray(from));
    if (this.#passing || this.#waitingBytes > eventBytesMax) {
      this.#passing = true;
      kept.push(this.#takeWaiting());
    }
    return kept.length === 1 ? (kept[0] ?? nothing) : Buffer.concat(kept);
  }

  /** What is left at the end of the stream. */
  rest(): Buffer {
    const rest = this.#takeWaiting();
    return holdsUsageChunk(rest) ? nothing : rest;
  }

  #wait(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
  }

  #eventOver(kept: Buffer[]): void {
    const event = this.#takeWaiting();
    this.#lastWasDropped = !this.#passing && event.length <= eventBytesMax && holdsUsageChunk(event);
    this.#passing = false;
    if (!this.#lastWasDropped) kept.push(event);
  }

  #takeWaiting(): Buffer {
    const bytes = this.#waiting.length === 1 ? (this.#waiting[0] ?? nothing) : Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#waitingBytes = 0;
    return bytes;
  }
}

function holdsUsageChunk(event: Buffer): boolean {
  if (!event.includes('"usage"')) return false;
  let found = false;
  const reader = new SseReader((data) => {
    found ||= isUsageChunk(data);
  });
  reader.feed(event);
  reader.finish();
  return found;
}
