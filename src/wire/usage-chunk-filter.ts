import { isObject, jsonMembers, listOr, objectOr, parseJson, type JsonObject } from "./json.ts";
import { envelope, type Shape } from "./output-members.ts";
import { readStatedError } from "./stated-error.ts";
import { dataLines, eventBytesMax, lastEventStart, LineEnds, startsWithMark, type Span } from "./sse.ts";

/** Largest usage chunk, in bytes. A longer event is forwarded as it arrives. */
const usageBytesMax = 64 * 1024;

/** Number of bytes at the start of an event in which the filter looks for a sign that it need not change the event. */
const beginningBytesMax = 1024;

const retryField = "retry:";
const markBytes = 3;
/** Number of bytes that show the field of a line. */
const lineStartBytes = markBytes + retryField.length;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const openBrace = 0x7b;
const comma = 0x2c;
const nothing = Buffer.alloc(0);

/** Selects the events to change. */
interface ChangedEvents {
  /**
   * Returns an offset within the first event that may have to be changed; -1 if there is none. The search must be fast,
   * because it covers all bytes.
   */
  find(bytes: Buffer): number;
  /**
   * Returns the parts of the data to remove: an empty list if the filter must not change the event, `wholeEvent` to
   * remove the event.
   */
  removes(data: Buffer): readonly Span[];
  /** Returns true if the beginning of an event shows that the filter must not change the event. */
  staysUnchanged?(beginning: Buffer): boolean;
}

const wholeEvent: readonly Span[] = [{ start: 0, end: Infinity }];

/**
 * Removes some events, or a part of them, from a stream. Forwards all other bytes unchanged and immediately. The bytes
 * of an incomplete event wait until the event ends, or until they show that the filter does not change it. The wait
 * does not delay clients, because they cannot read an incomplete event. Comments and `retry` lines before the other
 * lines of an event do not wait, because they take effect without the rest of the event. Heartbeats are often such
 * lines.
 */
export class EventFilter {
  readonly #changed: ChangedEvents;
  readonly #bytesMax: number;
  /** True if an event was removed. */
  hasRemoved = false;
  /** Pieces of an incomplete event. */
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  /** True if the filter does not remove the current event but forwards its bytes as they arrive. */
  #isForwarding = false;
  #lineHasBytes = false;
  /** True if the current event has a line that waits or was forwarded with its event. */
  #hasLines = false;
  #isFirstLine = true;
  /** True if the last byte was a CR that ended a line. An LF directly after it belongs to the same line end. */
  #afterCarriage = false;
  #lastWasRemoved = false;

  /** Creates a filter that forwards an event of more than `bytesMax` bytes as it arrives. */
  constructor(changed: ChangedEvents, bytesMax: number) {
    this.#changed = changed;
    this.#bytesMax = bytesMax;
  }

  /** Returns the bytes to forward now. */
  pass(chunk: Buffer): Buffer {
    let from = this.#isBetweenEvents(chunk) ? this.#unaffected(chunk) : 0;
    if (from > 0) {
      this.#afterCarriage = false;
      this.#lastWasRemoved = false;
      this.#isFirstLine = false;
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
      if (!isBlank && this.#hasLines) continue;
      this.#wait(chunk.subarray(from, lineStart));
      from = lineStart;
      if (isBlank) this.#endEvent(kept);
      else if (this.#isForwarding || !this.#standsAlone()) this.#hasLines = true;
      else {
        this.#lastWasRemoved = false;
        kept.push(this.#takeWaiting());
      }
      this.#isFirstLine = false;
    }
    if (lineStart < chunk.length) this.#lineHasBytes = true;
    this.#wait(chunk.subarray(from));
    if (this.#isForwarding || this.#waitingBytes > this.#bytesMax || this.#waitingStaysUnchanged()) {
      this.#isForwarding = true;
      kept.push(this.#takeWaiting());
    }
    return kept.length === 1 ? (kept[0] ?? nothing) : Buffer.concat(kept);
  }

  /** Returns the remaining bytes at the end of the stream. */
  rest(): Buffer {
    return this.#filtered(this.#takeWaiting());
  }

  #isBetweenEvents(chunk: Buffer): boolean {
    const isLateFeed = this.#afterCarriage && chunk[0] === lineFeed;
    return this.#waitingBytes === 0 && !this.#isForwarding && !this.#lineHasBytes && !isLateFeed;
  }

  /** Returns the end of the complete events at the start of a chunk, before any event that may have to be changed. */
  #unaffected(chunk: Buffer): number {
    const found = this.#changed.find(chunk);
    if (found === -1 && endsEvent(chunk)) return chunk.length;
    return lastEventStart(chunk, found === -1 ? chunk.length : found);
  }

  /** Returns true if the waiting line is a comment, or sets the time to reconnect. */
  #standsAlone(): boolean {
    const [first = nothing] = this.#waiting;
    const start = first.length < lineStartBytes ? Buffer.concat(this.#waiting) : first;
    const at = this.#isFirstLine && startsWithMark(start, 0) ? markBytes : 0;
    return start[at] === colon || start.toString("latin1", at, at + retryField.length) === retryField;
  }

  #waitingStaysUnchanged(): boolean {
    if (this.#waitingBytes === 0 || this.#waitingBytes > beginningBytesMax) return false;
    return this.#changed.staysUnchanged?.(Buffer.concat(this.#waiting)) === true;
  }

  #wait(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
  }

  #endEvent(kept: Buffer[]): void {
    const event = this.#takeWaiting();
    const remaining = this.#isForwarding || event.length > this.#bytesMax ? event : this.#filtered(event);
    this.#isForwarding = false;
    this.#hasLines = false;
    this.#lastWasRemoved = remaining.length === 0;
    if (remaining.length > 0) kept.push(remaining);
  }

  /** Returns what remains of a complete event. The result depends only on the event, not on how it arrived. */
  #filtered(event: Buffer): Buffer {
    const { find, staysUnchanged, removes } = this.#changed;
    if (find(event) === -1 || staysUnchanged?.(event.subarray(0, beginningBytesMax)) === true) return event;
    const lines = dataLines(event);
    const removed = removes(joined(event, lines));
    if (removed !== wholeEvent) return removed.length === 0 ? event : without(event, lines, removed);
    this.hasRemoved = true;
    return nothing;
  }

  #takeWaiting(): Buffer {
    const bytes = this.#waiting.length === 1 ? (this.#waiting[0] ?? nothing) : Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#waitingBytes = 0;
    return bytes;
  }
}

/** Returns the data of an event: its lines, with a line feed between two of them. */
function joined(event: Buffer, lines: readonly Span[]): Buffer {
  const [only] = lines;
  if (only !== undefined && lines.length === 1) return event.subarray(only.start, only.end);
  return Buffer.from(lines.map(({ start, end }) => event.toString("latin1", start, end)).join("\n"), "latin1");
}

/** Returns an event without parts of its data. All other bytes, such as line ends and comments, stay the same. */
function without(event: Buffer, lines: readonly Span[], removed: readonly Span[]): Buffer {
  const kept: Buffer[] = [];
  let copied = 0;
  // Offset of the line in the data.
  let at = 0;
  for (const { start, end } of lines) {
    const inEvent = (offset: number) => Math.min(Math.max(start + offset - at, start), end);
    for (const span of removed) {
      const [from, to] = [inEvent(span.start), inEvent(span.end)];
      if (from === to) continue;
      kept.push(event.subarray(copied, from));
      copied = to;
    }
    at += end - start + 1;
  }
  return Buffer.concat([...kept, event.subarray(copied)]);
}

/**
 * Removes the usage from a stream whose client did not ask for it. If a chunk without choices contains nothing else for
 * the client, the whole chunk is removed; otherwise only its usage is. A chunk with a choice stays as it is: clients
 * expect it, and many gateways state a usage in it whether or not a client asks.
 */
export class UsageChunkFilter extends EventFilter {
  constructor() {
    super({ find: findUsage, removes: unaskedUsage, staysUnchanged: hasChoice }, usageBytesMax);
  }
}

/** Returns the parts of a chunk's data that exist only because Farebox asked for usage. */
function unaskedUsage(data: Buffer): readonly Span[] {
  const event = parseJson(data.toString("utf8"));
  if (!isObject(event) || !isObject(event["usage"])) return [];
  if (listOr(event["choices"]).length > 0 || listOr(event["candidates"]).length > 0) return [];
  return informsClient(event) ? memberSpans(data, "usage") : wholeEvent;
}

/**
 * Returns true if a chunk without choices contains something for the client, such as an error, sources or measurements.
 * Only members of the envelope and empty members contain nothing.
 */
function informsClient(event: JsonObject): boolean {
  const { choices: _, candidates: _none, ...rest } = event;
  return readStatedError(event) !== undefined || hasOther(rest, envelope);
}

function hasOther(object: JsonObject, { members }: Shape): boolean {
  return Object.entries(object).some(([name, value]) => {
    const known = members[name];
    if (known === "free" || isEmpty(value)) return false;
    return typeof known === "object" && isObject(value) ? hasOther(value, known) : true;
  });
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/** Returns the spans whose removal leaves a valid object without the members of that name. */
function memberSpans(object: Buffer, name: string): Span[] {
  const members = jsonMembers(object);
  const spans: Span[] = [];
  /** End of the last member that stays; undefined before the first. */
  let keptEnd: number | undefined;
  members.forEach((member, index) => {
    if (member.name !== name) keptEnd = member.valueEnd;
    else if (keptEnd !== undefined) spans.push({ start: keptEnd, end: member.valueEnd });
    else {
      const start = spans.at(-1)?.end ?? object.indexOf(openBrace) + 1;
      spans.push({
        start,
        end: index + 1 < members.length ? object.indexOf(comma, member.valueEnd) + 1 : member.valueEnd,
      });
    }
  });
  return spans;
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

/**
 * Finds a choice of a chunk, if only texts and numbers precede its list of choices. Also accepts lines of other fields
 * than `data`, which would otherwise wait for the end of an event.
 */
const firstChoice =
  /^(?:[^:{"\r\n]+:? ?)?\{\s*(?:"(?:[^"\\]|\\.)*"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[\w.+-]+)\s*,\s*)*"choices"\s*:\s*\[\s*[^\]\s]/m;

function hasChoice(beginning: Buffer): boolean {
  return beginning.includes(choicesName) && firstChoice.test(beginning.toString("latin1"));
}

const choicesName = Buffer.from('choices"');

function endsEvent(bytes: Buffer): boolean {
  const { length } = bytes;
  if (bytes[length - 1] !== lineFeed) return false;
  return bytes[length - 2] === lineFeed || (length >= 4 && bytes.toString("latin1", length - 4) === "\r\n\r\n");
}

/** Removes the event that ends a response at its output maximum. The event repeats the whole output. */
export class CutResponseFilter extends EventFilter {
  constructor() {
    const find = (bytes: Buffer) => bytes.indexOf("response.incomplete");
    super({ find, removes: (data) => (endsAtMaximum(data) ? wholeEvent : []) }, eventBytesMax);
  }
}

function endsAtMaximum(data: Buffer): boolean {
  const event = objectOr(parseJson(data.toString("utf8")));
  const { incomplete_details: details } = objectOr(event["response"]);
  return event["type"] === "response.incomplete" && objectOr(details)["reason"] === "max_output_tokens";
}
