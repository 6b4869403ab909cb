const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** An event of more bytes is left out: no answer of a model has one, and a line without an end would fill the memory. */
export const eventBytesMax = 16 * 1024 * 1024;

/** What a piece takes beside its bytes: a line may come byte by byte. */
const pieceBytes = 100;

/**
 * Splits a stream of server-sent events into the data of its events (WHATWG HTML, "Server-sent events"): LF, CR and
 * CRLF line ends, comments, blank keep-alives, several `data:` lines, a byte order mark, and bytes cut anywhere.
 * Fields other than `data` are left aside: the OpenAI format does not use them.
 */
export class SseReader {
  /** Pieces of a line whose end has not come yet. */
  #rest: Buffer[] = [];
  #restBytes = 0;
  #data: string[] = [];
  #dataBytes = 0;
  /** The event at hand is too long: nothing of it is kept. */
  #leftOut = false;
  #isComplete = true;
  #skipLineFeed = false;
  #atStart = true;
  readonly #onData: (data: string) => void;

  constructor(onData: (data: string) => void) {
    this.#onData = onData;
  }

  /** False once an event was left out. */
  get isComplete(): boolean {
    return this.#isComplete;
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
    const from = this.#atStart && bytes[start] === 0xef && bytes[start + 1] === 0xbb && bytes[start + 2] === 0xbf ? start + 3 : start;
    this.#atStart = false;
    if (from === end) return this.#dispatch();
    const value = dataOf(bytes, from, end);
    if (value === undefined || this.#leftOut) return;
    this.#data.push(value);
    this.#dataBytes += end - from + pieceBytes;
    if (this.#dataBytes > eventBytesMax) this.#leaveOut();
  }

  #keepRest(bytes: Buffer): void {
    this.#rest.push(bytes);
    this.#restBytes += bytes.length + pieceBytes;
    if (this.#restBytes <= eventBytesMax) return;
    // What is left of it still says what kind of line it is.
    const start = Buffer.from(Buffer.concat(this.#rest).subarray(0, 8));
    if (start.includes("data")) this.#leaveOut();
    this.#rest = [start];
    this.#restBytes = start.length;
  }

  #dropRest(): void {
    this.#rest = [];
    this.#restBytes = 0;
  }

  #leaveOut(): void {
    this.#leftOut = true;
    this.#isComplete = false;
    this.#data = [];
    this.#dataBytes = 0;
  }

  #dispatch(): void {
    this.#leftOut = false;
    this.#dataBytes = 0;
    if (this.#data.length === 0) return;
    const data = this.#data.length === 1 ? (this.#data[0] ?? "") : this.#data.join("\n");
    this.#data = [];
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

/** The value of a `data` field; undefined for comments and other fields. */
function dataOf(bytes: Buffer, start: number, end: number): string | undefined {
  // "data" in ASCII, then a colon or the end of the line.
  if (bytes[start] !== 0x64 || bytes[start + 1] !== 0x61 || bytes[start + 2] !== 0x74 || bytes[start + 3] !== 0x61) return undefined;
  if (end === start + 4) return "";
  if (bytes[start + 4] !== 0x3a) return undefined;
  const valueStart = bytes[start + 5] === 0x20 && start + 5 < end ? start + 6 : start + 5;
  return bytes.toString("utf8", valueStart, end);
}
