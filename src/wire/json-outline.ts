import { hasOutputInOutline, orError } from "./error-answer.ts";
import { omittedText, parseJson, withoutByteOrderMark } from "./json.ts";
import type { AnswerReader, ModelAnswer } from "./model-answer.ts";

const quote = 0x22;
const backslash = 0x5c;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;
const tab = 0x09;

/** Longest string in an outline, in bytes. A longer string is `omittedText`. */
const stringBytesMax = 1024;
/** Largest depth of an outline. Deeper objects and lists contain only `omittedText`, unless they are empty. */
const depthMax = 3;

const omitted = Buffer.from(omittedText);
const omittedMember = Buffer.from(`"${omittedText}":"${omittedText}"`);
const omittedElement = Buffer.from(`"${omittedText}"`);
/** Largest memory for an outline, in bytes, including `pieceBytes` for each piece. A larger outline is discarded. */
const outlineBytesMax = 4 * 1024 * 1024;

/**
 * Writes the outline of a JSON text while Farebox forwards the text. The outline omits long strings and the content of
 * deep objects and lists. It is therefore small even if the text contains large images or vectors. Chunks may end
 * anywhere. With `lines`, each line is a separate text.
 */
export class JsonOutline {
  readonly #lines: boolean;
  readonly #write: (bytes: Buffer) => void;
  #depth = 0;
  /** Text to write instead of the content of an object or list that is too deep; undefined if none is due. */
  #replacement: Buffer | undefined;
  #inString = false;
  #escaped = false;
  #stringBytes = 0;
  #kept: Buffer[] = [];
  /**
   * End of the current line in the chunk; -1 if not searched yet. Stored because Farebox would otherwise search a line
   * again for each of its strings.
   */
  #lineEnd = -1;

  constructor(write: (bytes: Buffer) => void, options: { readonly lines: boolean } = { lines: false }) {
    this.#write = write;
    this.#lines = options.lines;
  }

  push(bytes: Buffer): void {
    this.#lineEnd = -1;
    let at = 0;
    while (at < bytes.length) at = this.#inString ? this.#string(bytes, at) : this.#structure(bytes, at);
  }

  /** Reads to the start of the next string, or to the end of the bytes. Returns the offset at which to continue. */
  #structure(bytes: Buffer, from: number): number {
    let unwritten = from;
    let at = from;
    const flush = (end: number) => {
      if (this.#depth <= depthMax && end > unwritten) this.#write(bytes.subarray(unwritten, end));
    };
    for (; at < bytes.length; at++) {
      const byte = bytes[at];
      if (this.#replacement !== undefined) this.#omit(byte);
      if (byte === quote) {
        flush(at + 1);
        this.#inString = true;
        this.#escaped = false;
        this.#stringBytes = 0;
        this.#kept = [];
        return at + 1;
      }
      if (byte === 0x7b || byte === 0x5b) {
        // The outline includes the bracket even if it omits the content.
        flush(at + 1);
        this.#depth++;
        if (this.#depth === depthMax + 1) this.#replacement = byte === 0x7b ? omittedMember : omittedElement;
        unwritten = at + 1;
      } else if ((byte === 0x7d || byte === 0x5d) && this.#depth > 0) {
        flush(at);
        this.#depth--;
        unwritten = at;
      } else if (this.#depth > 0 && this.#endsLine(byte)) {
        flush(at);
        this.#depth = 0;
        this.#replacement = undefined;
        unwritten = at;
      }
    }
    flush(at);
    return at;
  }

  /** Writes once that the content of an object or list is omitted, unless it is empty. */
  #omit(next: number | undefined): void {
    if (next === space || next === tab || next === lineFeed || next === carriageReturn) return;
    if (next !== 0x7d && next !== 0x5d) this.#write(this.#replacement ?? omitted);
    this.#replacement = undefined;
  }

  /** Reads to the end of a string or of the bytes. Returns the offset at which to continue. */
  #string(bytes: Buffer, from: number): number {
    const start = this.#escaped && !this.#endsLine(bytes[from]) ? from + 1 : from;
    this.#escaped = false;
    const end = this.#endOfString(bytes, start);
    if (this.#stringBytes === 0 && bytes[end] === quote) {
      this.#inString = false;
      if (this.#depth <= depthMax) {
        const isLong = end - from > stringBytesMax;
        if (isLong) this.#write(omitted);
        this.#write(bytes.subarray(isLong ? end : from, end + 1));
      }
      return end + 1;
    }
    if (this.#depth <= depthMax) this.#keep(bytes.subarray(from, end));
    if (end === bytes.length) {
      this.#escaped = oddBackslashes(bytes, start, end);
      return end;
    }
    this.#inString = false;
    // A line break within a string is not valid JSON. The text after it is a new line.
    if (bytes[end] !== quote) return end;
    if (this.#depth <= depthMax) {
      const kept = this.#stringBytes > stringBytesMax ? [omitted] : this.#kept;
      this.#write(Buffer.concat([...kept, bytes.subarray(end, end + 1)]));
    }
    return end + 1;
  }

  #endsLine(byte: number | undefined): boolean {
    return this.#lines && (byte === lineFeed || byte === carriageReturn);
  }

  #endOfString(bytes: Buffer, from: number): number {
    const lineEnd = this.#lines ? this.#endOfLine(bytes, from) : bytes.length;
    for (let at = from; ;) {
      const found = bytes.indexOf(quote, at);
      if (found === -1 || found > lineEnd) return lineEnd;
      if (!oddBackslashes(bytes, from, found)) return found;
      at = found + 1;
    }
  }

  #endOfLine(bytes: Buffer, from: number): number {
    if (this.#lineEnd < from)
      this.#lineEnd = firstOf(bytes.indexOf(lineFeed, from), bytes.indexOf(carriageReturn, from), bytes.length);
    return this.#lineEnd;
  }

  /**
   * Keeps a part of a string until the string ends. Drops all parts of a string that is too long. Copies the bytes,
   * because a reference would keep the whole chunk in memory.
   */
  #keep(bytes: Buffer): void {
    this.#stringBytes += bytes.length;
    if (this.#stringBytes <= stringBytesMax) this.#kept.push(Buffer.from(bytes));
    else this.#kept = [];
  }
}

function oddBackslashes(bytes: Buffer, from: number, end: number): boolean {
  let count = 0;
  while (end - 1 - count >= from && bytes[end - 1 - count] === backslash) count++;
  return count % 2 === 1;
}

function firstOf(a: number, b: number, none: number): number {
  return Math.min(a === -1 ? none : a, b === -1 ? none : b);
}

/** Memory of a piece in addition to its content, in bytes. */
const pieceBytes = 32;

/**
 * Returns a reader that passes only the outline of an answer to `read`, and also reads the error that it states.
 * `isShortened`: true if the outline omits anything.
 */
export function outlineReader(read: (body: unknown, isShortened: boolean) => ModelAnswer | undefined): AnswerReader {
  const pieces: Buffer[] = [];
  let answerBytes = 0;
  let outlineBytes = 0;
  const outline = new JsonOutline((piece) => {
    outlineBytes += piece.length + pieceBytes;
    // Copies the piece, because a reference would keep the whole chunk in memory.
    if (outlineBytes <= outlineBytesMax) pieces.push(Buffer.from(piece));
  });
  return {
    push(chunk) {
      answerBytes += chunk.length;
      if (outlineBytes <= outlineBytesMax) outline.push(chunk);
    },
    end() {
      if (outlineBytes > outlineBytesMax) return undefined;
      const whole = Buffer.concat(pieces);
      const body = parseJson(withoutByteOrderMark(whole).toString("utf8"));
      return orError(read(body, whole.length < answerBytes), () => body, hasOutputInOutline);
    },
  };
}
