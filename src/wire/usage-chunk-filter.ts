import { isUsageChunk } from "./chat-stream.ts";
import { objectOr, parseJson } from "./json.ts";
import { eventBytesMax, LineEnds, SseReader } from "./sse.ts";

/** A longer event is no usage chunk. */
const usageBytesMax = 64 * 1024;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const nothing = Buffer.alloc(0);

/**
 * Takes some events out of a stream; every other byte passes unchanged and in its tick. Only the bytes of an event that is
 * still incomplete wait for their end: no client can read them before.
 */
export class EventFilter {
  readonly #isDropped: (event: Buffer) => boolean;
  readonly #bytesMax: number;
  /** Whether an event was taken out. */
  hasDropped = false;
  /** Pieces of the event whose blank line has not come yet. */
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  /** The event at hand is too long for a usage chunk: what comes of it leaves at once. */
  #passing = false;
  #lineHasBytes = false;
  /** The last byte was a CR that ended a line: an LF right after it belongs to the same end. */
  #afterCarriage = false;
  #lastWasDropped = false;

  /** An event of more than `bytesMax` is passed on as it comes. */
  constructor(isDropped: (event: Buffer) => boolean, bytesMax: number) {
    this.#isDropped = isDropped;
    this.#bytesMax = bytesMax;
  }

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
    if (this.#passing || this.#waitingBytes > this.#bytesMax) {
      this.#passing = true;
      kept.push(this.#takeWaiting());
    }
    return kept.length === 1 ? (kept[0] ?? nothing) : Buffer.concat(kept);
  }

  /** What is left at the end of the stream. */
  rest(): Buffer {
    const rest = this.#takeWaiting();
    return this.#drops(rest) ? nothing : rest;
  }

  #wait(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
  }

  #eventOver(kept: Buffer[]): void {
    const event = this.#takeWaiting();
    this.#lastWasDropped = !this.#passing && event.length <= this.#bytesMax && this.#drops(event);
    this.#passing = false;
    if (!this.#lastWasDropped) kept.push(event);
  }

  #drops(event: Buffer): boolean {
    const isDropped = this.#isDropped(event);
    this.hasDropped ||= isDropped;
    return isDropped;
  }

  #takeWaiting(): Buffer {
    const bytes = this.#waiting.length === 1 ? (this.#waiting[0] ?? nothing) : Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#waitingBytes = 0;
    return bytes;
  }
}

/** Takes the usage chunk out of a stream whose client did not ask for one. */
export class UsageChunkFilter extends EventFilter {
  constructor() {
    super((event) => event.includes('"usage"') && holds(event, isUsageChunk), usageBytesMax);
  }
}

/** Takes the event out that ends a response at its maximum; it repeats all of the output. */
export class CutResponseFilter extends EventFilter {
  constructor() {
    super((event) => event.includes("response.incomplete") && holds(event, endsAtMaximum), eventBytesMax);
  }
}

function holds(event: Buffer, isIt: (data: string) => boolean): boolean {
  let found = false;
  const reader = new SseReader((data) => {
    found ||= isIt(data);
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
