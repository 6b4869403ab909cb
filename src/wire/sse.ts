const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const colon = 0x3a;

/** A longer event is not kept: no answer of a model has one, and a line without an end would fill the memory. */
export const eventBytesMax = 16 * 1024 * 1024;

/** Memory of a piece in addition to its bytes: a line may come byte by byte. */
const pieceBytes = 100;

/** Kept of a line that is too long: enough to know its field. */
const lineStartBytes = 16;

/**
 * Splits a stream of server-sent events into the data of its events (WHATWG HTML, "Server-sent events"): LF, CR and
 * CRLF line ends, comments, blank keep-alives, several `data:` lines, a byte order mark, and bytes cut anywhere.
 * The fields `event`, `id` and `retry` are left aside: the OpenAI format does not use them. What cannot be read, because an event
 * is too long or a line has no known field, is reported by its bytes as it comes.
 */
export class SseReader {
  /** Pieces of a line whose end has not come yet. */
  #rest: Buffer[] = [];
  #restBytes = 0;
  /** Size of the pieces in memory, their overhead included. */
  #restSize = 0;
  #data: string[] = [];
  #dataBytes = 0;
  #dataSize = 0;
  /** True if the current event is too long to be kept. */
  #leftOut = false;
  /** Bytes of the line at hand that were reported before its end. */
  #reported = 0;
  #skipLineFeed = false;
  #atStart = true;
  readonly #onData: (data: string) => void;
  readonly #onUnreadable: (bytes: number) => void;

  constructor(onData: (data: string) => void, onUnreadable: (bytes: number) => void = () => undefined) {
    this.#onData = onData;
    this.#onUnreadable = onUnreadable;
  }

  /** Bytes of the event that has begun and not ended, comments aside. */
  get pendingBytes(): number {
    const first = this.#rest[0];
    return first === undefined || first[0] === colon ? this.#dataBytes : this.#dataBytes + this.#restBytes;
  }

  feed(chunk: Buffer): void {
    if (chunk.length === 0) return;
    if (!chunk.includes(lineFeed) && !chunk.includes(carriageReturn)) {
      this.#keepRest(chunk);
      this.#skipLineFeed = false;
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

  /** An event that the end of the stream left without its blank line, as lenient clients read it. */
  finish(): void {
    const rest = Buffer.concat(this.#rest);
    this.#dropRest();
    if (rest.length > 0) this.#line(rest, 0, rest.length);
    this.#dispatch();
  }

  #line(bytes: Buffer, start: number, end: number): void {
    const from = this.#atStart && startsWithMark(bytes, start) ? start + 3 : start;
    this.#atStart = false;
    const unreported = end - from - this.#reported;
    this.#reported = 0;
    if (from === end) return this.#dispatch();
    const isData = isDataLine(bytes, from, end);
    if (!isData || this.#leftOut) {
      if (isData || !isLeftAside(bytes, from, end)) this.#onUnreadable(unreported);
      return;
    }
    this.#data.push(valueOf(bytes, from, end));
    this.#dataBytes += end - from;
    this.#dataSize += end - from + pieceBytes;
    if (this.#dataSize > eventBytesMax) this.#leaveOut();
  }

  #keepRest(bytes: Buffer): void {
    if (this.#reported > 0) {
      if (!this.#isRestLeftAside()) this.#onUnreadable(bytes.length);
      return;
    }
    this.#rest.push(bytes);
    this.#restBytes += bytes.length;
    this.#restSize += bytes.length + pieceBytes;
    if (this.#restSize <= eventBytesMax) return;
    // The start of the line still says what kind of line it is.
    const came = this.#restBytes;
    const start = Buffer.from(Buffer.concat(this.#rest).subarray(0, lineStartBytes));
    this.#rest = [start];
    this.#restBytes = start.length;
    this.#reported = start.length;
    if (this.#isRestLeftAside()) return;
    if (!this.#leftOut) this.#leaveOut();
    this.#onUnreadable(came);
  }

  #isRestLeftAside(): boolean {
    const start = this.#rest[0] ?? Buffer.alloc(0);
    return isLeftAside(start, this.#atStart && startsWithMark(start, 0) ? 3 : 0, start.length);
  }

  #dropRest(): void {
    this.#rest = [];
    this.#restBytes = 0;
    this.#restSize = 0;
  }

  #leaveOut(): void {
    this.#leftOut = true;
    this.#onUnreadable(this.#dataBytes);
    this.#dropData();
  }

  #dropData(): void {
    this.#data = [];
    this.#dataBytes = 0;
    this.#dataSize = 0;
  }

  #dispatch(): void {
    this.#leftOut = false;
    if (this.#data.length === 0) return;
    const data = this.#data.length === 1 ? (this.#data[0] ?? "") : this.#data.join("\n");
    this.#dropData();
    this.#onData(data);
  }
}

/** The line ends of some bytes, LF or CR. Each kind is looked for once, so that a stream of one kind costs no more. */
export class LineEnds {
  readonly #bytes: Buffer;
  #feed = -2;
  #carriage = -2;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** The first one at or after this place; -1 when there is none. Places must not go backwards. */
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

function startsWithMark(bytes: Buffer, at: number): boolean {
  return bytes[at] === 0xef && bytes[at + 1] === 0xbb && bytes[at + 2] === 0xbf;
}

/** "data" in ASCII, then a colon or the end of the line. */
function isDataLine(bytes: Buffer, start: number, end: number): boolean {
  return (
    bytes[start] === 0x64 &&
    bytes[start + 1] === 0x61 &&
    bytes[start + 2] === 0x74 &&
    bytes[start + 3] === 0x61 &&
    (end === start + 4 || (end > start + 4 && bytes[start + 4] === colon))
  );
}

/** The value of a `data` field. */
function valueOf(bytes: Buffer, start: number, end: number): string {
  if (end === start + 4) return "";
  const valueStart = bytes[start + 5] === 0x20 && start + 5 < end ? start + 6 : start + 5;
  return bytes.toString("utf8", valueStart, end);
}

/** Reports that a line is a comment, or a field that does not matter. */
function isLeftAside(bytes: Buffer, start: number, end: number): boolean {
  if (bytes[start] === colon) return true;
  const name = /^(?:event|id|retry)(?=:|$)/;
  return name.test(bytes.toString("latin1", start, Math.min(end, start + 6)));
}
