import { isUsageChunk } from "./chat-stream.ts";
import { objectOr, parseJson } from "./json.ts";
import { eventBytesMax, lastEventStart, LineEnds, SseReader } from "./sse.ts";

/** Largest usage chunk, in bytes. A longer event is forwarded as it arrives. */
const usageBytesMax = 64 * 1024;

/** Number of bytes at the start of an event in which the filter looks for signs of another kind of event. */
const beginningBytesMax = 1024;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const nothing = Buffer.alloc(0);

/** Selects the events to remove. */
interface RemovedEvents {
  /**
   * Returns an offset within the first event that may have to be removed; -1 if there is none. The search must be fast,
   * because it covers all bytes.
   */
  find(bytes: Buffer): number;
  /** Returns true if the filter must remove an event with this data. */
  matches(data: string): boolean;
  /** Returns true if the beginning of an event shows that the filter must not remove the event. */
  isOther?(beginning: Buffer): boolean;
}

/**
 * Removes some events from a stream. Forwards all other bytes unchanged and immediately. The bytes of an incomplete
 * event wait until the event ends, or until they show that the filter does not remove it. The wait does not delay
 * clients, because they cannot read an incomplete event.
 */
export class EventFilter {
  readonly #removed: RemovedEvents;
  readonly #bytesMax: number;
  /** True if an event was removed. */
  hasRemoved = false;
  /** Pieces of an incomplete event. */
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  /** True if the filter does not remove the current event but forwards its bytes as they arrive. */
  #isForwarding = false;
  #lineHasBytes = false;
  /** True if the last byte was a CR that ended a line. An LF directly after it belongs to the same line end. */
  #afterCarriage = false;
  #lastWasRemoved = false;

  /** Creates a filter that forwards an event of more than `bytesMax` bytes as it arrives. */
  constructor(removed: RemovedEvents, bytesMax: number) {
    this.#removed = removed;
    this.#bytesMax = bytesMax;
  }

  /** Returns the bytes to forward now. */
  pass(chunk: Buffer): Buffer {
    let from = this.#isBetweenEvents(chunk) ? this.#unaffected(chunk) : 0;
    if (from > 0) {
      this.#afterCarriage = false;
      this.#lastWasRemoved = false;
      if (from === chunk.length) return chunk;
    }
    const kept = from > 0 ? [chunk.subarray(0, from)] : [];
    let lineStart = from;
    if (this.#afterCarriage && chunk[0] === lineFeed) {
      lineStart = 1;
      const hasEnded = this.#waitingBytes === 0 && !this.#isForwarding;
      if (hasEnded) from = 1;
      if (hasEnded && !this.#lastWasRemoved) kept.push(chunk.subarray(0, 1));
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
      this.#endEvent(kept);
      from = lineStart;
    }
    if (lineStart < chunk.length) this.#lineHasBytes = true;
    this.#wait(chunk.subarray(from));
    if (this.#isForwarding || this.#waitingBytes > this.#bytesMax || this.#isOther()) {
      this.#isForwarding = true;
      kept.push(this.#takeWaiting());
    }
    return kept.length === 1 ? (kept[0] ?? nothing) : Buffer.concat(kept);
  }

  /** Returns the remaining bytes at the end of the stream. */
  rest(): Buffer {
    const rest = this.#takeWaiting();
    return this.#removes(rest) ? nothing : rest;
  }

  #isBetweenEvents(chunk: Buffer): boolean {
    const isLateFeed = this.#afterCarriage && chunk[0] === lineFeed;
    return this.#waitingBytes === 0 && !this.#isForwarding && !this.#lineHasBytes && !isLateFeed;
  }

  /** Returns the end of the complete events at the start of a chunk, before any event that may have to be removed. */
  #unaffected(chunk: Buffer): number {
    const found = this.#removed.find(chunk);
    if (found === -1 && endsEvent(chunk)) return chunk.length;
    return lastEventStart(chunk, found === -1 ? chunk.length : found);
  }

  #isOther(): boolean {
    if (this.#waitingBytes === 0 || this.#waitingBytes > beginningBytesMax) return false;
    return this.#removed.isOther?.(Buffer.concat(this.#waiting)) === true;
  }

  #wait(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
  }

  #endEvent(kept: Buffer[]): void {
    const event = this.#takeWaiting();
    this.#lastWasRemoved = !this.#isForwarding && event.length <= this.#bytesMax && this.#removes(event);
    this.#isForwarding = false;
    if (!this.#lastWasRemoved) kept.push(event);
  }

  #removes(event: Buffer): boolean {
    const isRemoved = this.#removed.find(event) !== -1 && hasData(event, this.#removed.matches);
    this.hasRemoved ||= isRemoved;
    return isRemoved;
  }

  #takeWaiting(): Buffer {
    const bytes = this.#waiting.length === 1 ? (this.#waiting[0] ?? nothing) : Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#waitingBytes = 0;
    return bytes;
  }
}

/** Removes the usage chunk from a stream whose client did not ask for it. */
export class UsageChunkFilter extends EventFilter {
  constructor() {
    super({ find: findUsage, matches: isUsageChunk, isOther: hasChoice }, usageBytesMax);
  }
}

/** Name without its first quote. The search for it is ten times as fast as with the quote. */
const usageName = Buffer.from('usage"');
const space = 0x20;
const colon = 0x3a;
const letterN = 0x6e;

/** Returns the offset after the first `usage` that is not null; -1 if there is none. Most chunks state null. */
function findUsage(bytes: Buffer): number {
  for (let at = bytes.indexOf(usageName); at !== -1; at = bytes.indexOf(usageName, at)) {
    at += usageName.length;
    const value = bytes[at] === colon && bytes[at + 1] === space ? at + 2 : at + 1;
    if (bytes[at] !== colon || bytes[value] !== letterN) return at;
  }
  return -1;
}

function hasChoice(beginning: Buffer): boolean {
  return /"choices"\s*:\s*\[\s*[^\]\s]/.test(beginning.toString("latin1"));
}

function endsEvent(bytes: Buffer): boolean {
  const end = bytes.toString("latin1", Math.max(0, bytes.length - 4));
  return end.endsWith("\n\n") || end === "\r\n\r\n";
}

/** Removes the event that ends a response at its output maximum. The event repeats the whole output. */
export class CutResponseFilter extends EventFilter {
  constructor() {
    super({ find: (bytes) => bytes.indexOf("response.incomplete"), matches: endsAtMaximum }, eventBytesMax);
  }
}

function hasData(event: Buffer, matches: (data: string) => boolean): boolean {
  let found = false;
  const reader = new SseReader((data) => {
    found ||= matches(data);
  });
  reader.feed(event);
  reader.finish();
  return found;
}

function endsAtMaximum(data: string): boolean {
  const event = objectOr(parseJson(data));
  const { incomplete_details: details } = objectOr(event["response"]);
  return event["type"] === "response.incomplete" && objectOr(details)["reason"] === "max_output_tokens";
}
