import { isUsageChunk } from "./chat-stream.ts";
import { SseReader } from "./sse.ts";

/** An event longer than this is passed on as it comes: it is no usage chunk. */
const eventBytesMax = 64 * 1024;

/**
 * Takes the usage chunk out of a stream whose client did not ask for one; every other byte passes unchanged and in its
 * tick. Only the bytes of an event that is still incomplete wait for their end: no client can read them before.
 */
export class UsageChunkFilter {
  #waiting: Buffer = Buffer.alloc(0);
  #passing = false;

  /** The bytes that may leave now. */
  pass(chunk: Buffer): Buffer {
    let bytes = this.#waiting.length === 0 ? chunk : Buffer.concat([this.#waiting, chunk]);
    const kept: Buffer[] = [];
    for (;;) {
      const end = eventEnd(bytes);
      if (end === -1) break;
      const event = bytes.subarray(0, end);
      if (this.#passing || !holdsUsageChunk(event)) kept.push(event);
      this.#passing = false;
      bytes = bytes.subarray(end);
    }
    if (this.#passing || bytes.length > eventBytesMax) {
      kept.push(bytes);
      this.#passing = true;
      bytes = Buffer.alloc(0);
    }
    this.#waiting = bytes;
    return kept.length === 1 ? (kept[0] ?? Buffer.alloc(0)) : Buffer.concat(kept);
  }

  /** What is left at the end of the stream. */
  rest(): Buffer {
    const rest = this.#waiting;
    this.#waiting = Buffer.alloc(0);
    return holdsUsageChunk(rest) ? Buffer.alloc(0) : rest;
  }
}

/** After the first blank line; -1 when there is none yet. A CR at the very end may be half of a CRLF, so it waits. */
function eventEnd(bytes: Buffer): number {
  for (let at = 0; at < bytes.length; at++) {
    const first = lineBreak(bytes, at);
    if (first === 0) continue;
    const second = lineBreak(bytes, at + first);
    if (second > 0) return at + first + second;
    at += first - 1;
  }
  return -1;
}

/** Length of the line break at this place: 0 for none, or for a CR whose LF may still come. */
function lineBreak(bytes: Buffer, at: number): number {
  if (bytes[at] === 0x0a) return 1;
  if (bytes[at] !== 0x0d) return 0;
  if (bytes[at + 1] === 0x0a) return 2;
  return at + 1 < bytes.length ? 1 : 0;
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
