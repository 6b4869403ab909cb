import { isUsageChunk } from "./chat-stream.ts";
import { objectOr, parseJson } from "./json.ts";
import { eventBytesMax, LineEnds, SseReader } from "./sse.ts";

/** A longer event is no usage chunk. */
const usageBytesMax = 64 * 1024;

/** An event that shows no choice up to here waits for its end. */
const shownBytesMax = 1024;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const nothing = Buffer.alloc(0);

/** Events to remove. */
interface Dropped {
  /** False where none of the events in these bytes is. Cheap: it is asked of every chunk. */
  mayHold(bytes: Buffer): boolean;
  is(data: string): boolean;
  /** Reports that the beginning of an event shows another kind of event. */
  isOther?(beginning: Buffer): boolean;
}

/**
 * Takes some events out of a stream; every other byte passes unchanged and in its tick. The bytes of an incomplete event wait
 * for its end, or until they show that it is another one: no client can read them before.
 */
export class EventFilter {
  readonly #dropped: Dropped;
  readonly #bytesMax: number;
  /** True if an event was removed. */
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
  constructor(dropped: Dropped, bytesMax: number) {
    this.#dropped = dropped;
    this.#bytesMax = bytesMax;
  }

  /** The bytes that may leave now. */
  pass(chunk: Buffer): Buffer {
    if (this.#isBetweenEvents(chunk) && endsEvent(chunk) && !this.#dropped.mayHold(chunk)) {
      this.#afterCarriage = false;
      this.#lastWasDropped = false;
      return chunk;
    }
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
    if (this.#passing || this.#waitingBytes > this.#bytesMax || this.#waitsForOther()) {
      this.#passing = true;
      kept.push(this.#takeWaiting());
    }
    return kept.length === 1 ? (kept[0] ?? nothing) : Buffer.concat(kept);
  }

  /** Returns the bytes that are left at the end of the stream. */
  rest(): Buffer {
    const rest = this.#takeWaiting();
    return this.#drops(rest) ? nothing : rest;
  }

  #isBetweenEvents(chunk: Buffer): boolean {
    const isLateFeed = this.#afterCarriage && chunk[0] === lineFeed;
    return this.#waitingBytes === 0 && !this.#passing && !this.#lineHasBytes && !isLateFeed;
  }

  #waitsForOther(): boolean {
    if (this.#waitingBytes === 0 || this.#waitingBytes > shownBytesMax) return false;
    return this.#dropped.isOther?.(Buffer.concat(this.#waiting)) === true;
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
    const isDropped = this.#dropped.mayHold(event) && holds(event, this.#dropped.is);
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
    super({ mayHold: hasUsage, is: isUsageChunk, isOther: hasChoice }, usageBytesMax);
  }
}

const usageName = Buffer.from('"usage"');
const noUsage = [":null", ": null"];

/** Reports a usage that is not plainly null, as it is in every chunk of a stream that will report it. */
function hasUsage(bytes: Buffer): boolean {
  for (let at = bytes.indexOf(usageName); at !== -1; at = bytes.indexOf(usageName, at)) {
    at += usageName.length;
    const value = bytes.toString("latin1", at, at + 6);
    if (!noUsage.some((none) => value.startsWith(none))) return true;
  }
  return false;
}

function hasChoice(beginning: Buffer): boolean {
  return /"choices"\s*:\s*\[\s*[^\]\s]/.test(beginning.toString("latin1"));
}

function endsEvent(bytes: Buffer): boolean {
  const end = bytes.toString("latin1", Math.max(0, bytes.length - 4));
  return end.endsWith("\n\n") || end === "\r\n\r\n";
}

/** Takes the event out that ends a response at its maximum; it repeats all of the output. */
export class CutResponseFilter extends EventFilter {
  constructor() {
    super({ mayHold: (bytes) => bytes.includes("response.incomplete"), is: endsAtMaximum }, eventBytesMax);
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
