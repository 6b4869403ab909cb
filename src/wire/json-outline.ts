import { parseJson } from "./json.ts";
import type { AnswerReader, ModelAnswer } from "./model-answer.ts";

const quote = 0x22;
const backslash = 0x5c;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** Strings of more bytes than this are left empty. */
const stringBytesMax = 1024;
/** Objects and lists within so many others are left empty. */
const depthMax = 3;
/** A larger outline is dropped: an answer that is priced has little text next to its data. */
const outlineBytesMax = 4 * 1024 * 1024;

/**
 * Makes the outline of a JSON text while it passes: the text without long strings and deep nesting, so that reading a
 * large answer of images or vectors takes a few bytes. Bytes may be cut anywhere. With `lines`, each line is a new text.
 */
export class JsonOutline {
  readonly #lines: boolean;
  readonly #write: (bytes: Buffer) => void;
  #depth = 0;
  #inString = false;
  #escaped = false;
  #stringBytes = 0;
  #kept: Buffer[] = [];
  /** End of the line in the current chunk; searched once a line, because a line may have any number of strings. */
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

  /** Up to the next string, or what is nested too deep. Answers where to go on. */
  #structure(bytes: Buffer, from: number): number {
    let kept = from;
    let at = from;
    const flush = (end: number) => {
      if (this.#depth <= depthMax && end > kept) this.#write(bytes.subarray(kept, end));
    };
    for (; at < bytes.length; at++) {
      const byte = bytes[at];
      if (byte === quote) {
        flush(at + 1);
        this.#inString = true;
        this.#escaped = false;
        this.#stringBytes = 0;
        this.#kept = [];
        return at + 1;
      }
      if (byte === 0x7b || byte === 0x5b) {
        // Its bracket is part of the outline, its content may not be.
        flush(at + 1);
        this.#depth++;
        kept = at + 1;
      } else if ((byte === 0x7d || byte === 0x5d) && this.#depth > 0) {
        flush(at);
        this.#depth--;
        kept = at;
      } else if (this.#depth > 0 && this.#endsLine(byte)) {
        flush(at);
        this.#depth = 0;
        kept = at;
      }
    }
    flush(at);
    return at;
  }

  /** Up to the string's end, jumping from quote to quote. Answers where to go on. */
  #string(bytes: Buffer, from: number): number {
    const start = this.#escaped && !this.#endsLine(bytes[from]) ? from + 1 : from;
    this.#escaped = false;
    const end = this.#endOfString(bytes, start);
    if (this.#stringBytes === 0 && bytes[end] === quote) {
      this.#inString = false;
      if (this.#depth <= depthMax) this.#write(bytes.subarray(end - from > stringBytesMax ? end : from, end + 1));
      return end + 1;
    }
    if (this.#depth <= depthMax) this.#keep(bytes.subarray(from, end));
    if (end === bytes.length) {
      this.#escaped = oddBackslashes(bytes, start, end);
      return end;
    }
    this.#inString = false;
    // A line break within a string is no JSON: what comes next is a line of its own.
    if (bytes[end] !== quote) return end;
    if (this.#depth <= depthMax) this.#write(Buffer.concat([...this.#kept, bytes.subarray(end, end + 1)]));
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

  /** A string is kept until it turns out to be long. The bytes are copied: a piece must not keep its whole chunk. */
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

/** Memory of a piece in addition to its bytes. */
const pieceBytes = 32;

/** Reads an answer by its outline. */
export function outlineReader(read: (body: unknown) => ModelAnswer | undefined): AnswerReader {
  const pieces: Buffer[] = [];
  let bytes = 0;
  const outline = new JsonOutline((piece) => {
    bytes += piece.length + pieceBytes;
    // A copy: what is kept of a large chunk must not keep all of it.
    if (bytes <= outlineBytesMax) pieces.push(Buffer.from(piece));
  });
  return {
    push(chunk) {
      if (bytes <= outlineBytesMax) outline.push(chunk);
    },
    end: () => (bytes > outlineBytesMax ? undefined : read(parseJson(Buffer.concat(pieces).toString("utf8")))),
  };
}
