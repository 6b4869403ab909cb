const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const colon = 0x3a;

/**
 * Largest event that the reader keeps, in bytes. Models send no larger event. Without this limit, a line without an end
 * would fill the memory.
 */
export const eventBytesMax = 16 * 1024 * 1024;

/**
 * Memory of a piece in addition to its content, in bytes. This overhead matters because a line may arrive byte by byte.
 */
const pieceBytes = 100;

/** Number of bytes to keep from a line that is too long. These bytes show the line's field. */
const lineStartBytes = 16;

/**
 * Splits a stream of server-sent events into the data of its events (WHATWG HTML, "Server-sent events"). Accepts LF, CR
 * and CRLF line ends, comments, blank keep-alives, several `data:` lines, a byte order mark, and chunks that end
 * anywhere. Ignores the fields `event`, `id` and `retry`, which the OpenAI format does not use. Reports the number of
 * unreadable bytes as they arrive. Bytes are unreadable if their event is too long or their line has no known field.
 */
export class SseReader {
  /** Pieces of a line whose end has not arrived yet. */
  #rest: Buffer[] = [];
  #restBytes = 0;
  /** Memory of the pieces, including their overhead, in bytes. */
  #restMemory = 0;
  #data: string[] = [];
  #dataBytes = 0;
  #dataMemory = 0;
  /** True if the current event is too long to be kept. */
  #isTooLong = false;
  /** Number of bytes kept of a line that is too long, which are already reported; 0 for any other line. */
  #reportedBytes = 0;
  #skipLineFeed = false;
  #atStart = true;
  readonly #onData: (data: string) => void;
  readonly #onUnreadable: (bytes: number) => void;

  constructor(onData: (data: string) => void, onUnreadable: (bytes: number) => void = () => undefined) {
    this.#onData = onData;
    this.#onUnreadable = onUnreadable;
  }

  /** Number of bytes that have arrived of an unfinished event, without comments. */
  get pendingBytes(): number {
    const first = this.#rest[0];
    return first === undefined || first[0] === colon ? this.#dataBytes : this.#dataBytes + this.#restBytes;
  }

  feed(chunk: Buffer): void {
    if (chunk.length === 0) return;
    // Joins the pieces of a line only once.
    if (this.#rest.length > 0 && !chunk.includes(lineFeed) && !chunk.includes(carriageReturn)) {
      this.#keepRest(chunk);
      return;
    }
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([...this.#rest, chunk]);
    let lineStart = this.#skipLineFeed && bytes[0] === lineFeed ? 1 : 0;
    this.#skipLineFeed = false;
    const ends = new LineEnds(bytes);
    for (;;) {
      const end = ends.next(lineStart);
      if (end === -1) break;
      this.#line(bytes, lineStart, end);
      lineStart = end + 1;
      if (bytes[end] !== carriageReturn) continue;
      if (lineStart === bytes.length) this.#skipLineFeed = true;
      else if (bytes[lineStart] === lineFeed) lineStart++;
    }
    this.#dropRest();
    if (lineStart < bytes.length) this.#keepRest(bytes.subarray(lineStart));
  }

  /** Reports the last event even if the blank line after it is missing, as lenient clients do. */
  finish(): void {
    const rest = Buffer.concat(this.#rest);
    this.#dropRest();
    if (rest.length > 0) this.#line(rest, 0, rest.length);
    this.#dispatch();
  }

  #line(bytes: Buffer, start: number, end: number): void {
    const from = this.#atStart && startsWithMark(bytes, start) ? start + 3 : start;
    this.#atStart = false;
    const unreported = end - from - this.#reportedBytes;
    this.#reportedBytes = 0;
    if (from === end) return this.#dispatch();
    const isData = isDataLine(bytes, from, end);
    if (!isData || this.#isTooLong) {
      if (isData || !isIgnored(bytes, from, end)) this.#onUnreadable(unreported);
      return;
    }
    this.#data.push(valueOf(bytes, from, end));
    this.#dataBytes += end - from;
    this.#dataMemory += end - from + pieceBytes;
    if (this.#dataMemory > eventBytesMax) this.#discardEvent();
  }

  #keepRest(bytes: Buffer): void {
    if (this.#reportedBytes > 0) {
      if (!this.#isRestIgnored()) this.#onUnreadable(bytes.length);
      return;
    }
    this.#rest.push(bytes);
    this.#restBytes += bytes.length;
    this.#restMemory += bytes.length + pieceBytes;
    if (this.#restMemory <= eventBytesMax) return;
    // Keeps the start of the line, because it shows the line's field.
    const arrived = this.#restBytes;
    const start = Buffer.from(Buffer.concat(this.#rest).subarray(0, lineStartBytes));
    this.#rest = [start];
    this.#restBytes = start.length;
    this.#reportedBytes = start.length;
    if (this.#isRestIgnored()) return;
    if (!this.#isTooLong) this.#discardEvent();
    this.#onUnreadable(arrived);
  }

  #isRestIgnored(): boolean {
    const start = this.#rest[0] ?? Buffer.alloc(0);
    return isIgnored(start, this.#atStart && startsWithMark(start, 0) ? 3 : 0, start.length);
  }

  #dropRest(): void {
    this.#rest = [];
    this.#restBytes = 0;
    this.#restMemory = 0;
  }

  #discardEvent(): void {
    this.#isTooLong = true;
    this.#onUnreadable(this.#dataBytes);
    this.#dropData();
  }

  #dropData(): void {
    this.#data = [];
    this.#dataBytes = 0;
    this.#dataMemory = 0;
  }

  #dispatch(): void {
    this.#isTooLong = false;
    if (this.#data.length === 0) return;
    const data = this.#data.length === 1 ? (this.#data[0] ?? "") : this.#data.join("\n");
    this.#dropData();
    this.#onData(data);
  }
}

/**
 * Finds line ends (LF or CR) in bytes. Remembers the next line end of each kind, so it searches only once for a kind
 * that is absent.
 */
export class LineEnds {
  readonly #bytes: Buffer;
  #feed = -2;
  #carriage = -2;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Returns the offset of the first line end at or after `from`; -1 if there is none. `from` must never decrease. */
  next(from: number): number {
    this.#feed = this.#after(this.#feed, lineFeed, from);
    this.#carriage = this.#after(this.#carriage, carriageReturn, from);
    if (this.#feed === -1 || this.#carriage === -1) return Math.max(this.#feed, this.#carriage);
    return Math.min(this.#feed, this.#carriage);
  }

  #after(known: number, byte: number, from: number): number {
    return known === -1 || known >= from ? known : this.#bytes.indexOf(byte, from);
  }
}

/**
 * Returns the start of the last event before `end`; 0 if it is the first event. Blank lines directly before `end`
 * belong to that event. Searches backwards, and reads only the bytes of that event.
 */
export function lastEventStart(bytes: Buffer, end: number): number {
  let at = end;
  while (at > 0 && isLineEnd(bytes[at - 1])) at--;
  for (;;) {
    while (at > 0 && !isLineEnd(bytes[at - 1])) at--;
    const lineStart = at;
    if (at > 0) at -= at > 1 && bytes[at - 1] === lineFeed && bytes[at - 2] === carriageReturn ? 2 : 1;
    if (at === 0) return 0;
    if (isLineEnd(bytes[at - 1])) return lineStart;
  }
}

function isLineEnd(byte: number | undefined): boolean {
  return byte === lineFeed || byte === carriageReturn;
}

/** Returns true if a byte order mark is at this offset. */
export function startsWithMark(bytes: Buffer, at: number): boolean {
  return bytes[at] === 0xef && bytes[at + 1] === 0xbb && bytes[at + 2] === 0xbf;
}

/** Form of an answer: one JSON value, or server-sent events. */
export type AnswerForm = "json" | "events";

/** Largest number of bytes at the start of an answer that are searched for its form. They may be white space. */
const answerFormBytesMax = 64 * 1024;

const eventFields = ["data:", "event:", "id:", "retry:", ":"];

/**
 * Returns the form that the first bytes of an answer show: `other` if they show none, `undefined` if more bytes are
 * needed. No JSON text begins like an event.
 */
export function answerFormOf(bytes: Buffer): AnswerForm | "other" | undefined {
  const markBytes = startsWithMark(bytes, 0) ? 3 : 0;
  let start = markBytes;
  while (isWhiteSpace(bytes[start])) start++;
  const beginning = bytes.toString("latin1", start, start + 6);
  if (/^[[{]/.test(beginning)) return "json";
  if (eventFields.some((field) => beginning.startsWith(field))) return "events";
  const isOpen = eventFields.some((field) => field.startsWith(beginning)) || "\u00ef\u00bb".startsWith(beginning);
  return isOpen && bytes.length <= answerFormBytesMax ? undefined : "other";
}

function isWhiteSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x09 || byte === lineFeed || byte === carriageReturn;
}

/** Returns true if a line is "data", followed by a colon or the end of the line. */
function isDataLine(bytes: Buffer, start: number, end: number): boolean {
  return (
    bytes[start] === 0x64 &&
    bytes[start + 1] === 0x61 &&
    bytes[start + 2] === 0x74 &&
    bytes[start + 3] === 0x61 &&
    (end === start + 4 || (end > start + 4 && bytes[start + 4] === colon))
  );
}

/** Returns the value of a `data` field. */
function valueOf(bytes: Buffer, start: number, end: number): string {
  return bytes.toString("utf8", valueStart(bytes, start, end), end);
}

function valueStart(bytes: Buffer, start: number, end: number): number {
  if (end === start + 4) return end;
  return bytes[start + 5] === 0x20 && start + 5 < end ? start + 6 : start + 5;
}

/** Range of bytes. `end` is the offset after its last byte. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** Returns the ranges of the values of the `data` lines in one event. */
export function dataLines(event: Buffer): Span[] {
  const lines: Span[] = [];
  const ends = new LineEnds(event);
  let start = startsWithMark(event, 0) ? 3 : 0;
  while (start < event.length) {
    const next = ends.next(start);
    const end = next === -1 ? event.length : next;
    if (isDataLine(event, start, end)) lines.push({ start: valueStart(event, start, end), end });
    start = end + 1;
  }
  return lines;
}

/** Returns true if a line is a comment or has a field that is ignored. */
function isIgnored(bytes: Buffer, start: number, end: number): boolean {
  if (bytes[start] === colon) return true;
  const name = /^(?:event|id|retry)(?=:|$)/;
  return name.test(bytes.toString("latin1", start, Math.min(end, start + 6)));
}
