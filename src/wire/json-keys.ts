import { skipString } from "./json-string.ts";
import { parseJson } from "./json.ts";

/** Position of one top-level member of a JSON object in its bytes. Offsets are half-open. */
export interface JsonMember {
  readonly name: string;
  readonly valueStart: number;
  readonly valueEnd: number;
}

const quote = 0x22;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const colon = 0x3a;
const comma = 0x2c;

/**
 * The top-level members of a JSON object in their order, repeated names included: what `JSON.parse` does not tell.
 * The bytes must have been read before; anything but an object gives an empty list. `most`: no more than so many are told.
 */
export function jsonMembers(bytes: Buffer, most = Infinity): JsonMember[] {
  const members: JsonMember[] = [];
  let at = skipSpace(bytes, 0);
  if (bytes[at] !== openBrace) return members;
  at = skipSpace(bytes, at + 1);
  while (bytes[at] === quote && members.length < most) {
    const nameEnd = skipString(bytes, at);
    const written = bytes.toString("utf8", at, nameEnd);
    const parsed = parseJson(written);
    // Inside of a long string nothing was checked: a name that is none is nobody's field.
    const name = typeof parsed === "string" ? parsed : written;
    at = skipSpace(bytes, nameEnd);
    if (bytes[at] !== colon) break;
    const valueStart = skipSpace(bytes, at + 1);
    const valueEnd = skipValue(bytes, valueStart);
    members.push({ name, valueStart, valueEnd });
    at = skipSpace(bytes, valueEnd);
    if (bytes[at] !== comma) break;
    at = skipSpace(bytes, at + 1);
  }
  return members;
}

/** The elements of a JSON list in their bytes, at most so many; undefined for anything else. The bytes must have been read before. */
export function jsonElements(bytes: Buffer, most: number): Buffer[] | undefined {
  let at = skipSpace(bytes, 0);
  if (bytes[at] !== openBracket) return undefined;
  const elements: Buffer[] = [];
  at = skipSpace(bytes, at + 1);
  while (at < bytes.length && bytes[at] !== closeBracket && elements.length < most) {
    const end = skipValue(bytes, at);
    elements.push(bytes.subarray(at, end));
    at = skipSpace(bytes, end);
    if (bytes[at] !== comma) break;
    at = skipSpace(bytes, at + 1);
  }
  return elements;
}

/**
 * Reports that an object within a JSON value has a member twice: readers differ on which they take. `value`: the parsed
 * JSON.
 */
export function repeatsMember(json: Buffer, value: unknown): boolean {
  let names = 0;
  for (let at = json.indexOf(quote); at !== -1;) {
    const end = skipString(json, at);
    if (json[skipSpace(json, end)] === colon) names++;
    at = json.indexOf(quote, end);
  }
  return names > membersIn(value);
}

function membersIn(value: unknown): number {
  let count = 0;
  const open = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next !== "object" || next === null) continue;
    if (!Array.isArray(next)) count += Object.keys(next).length;
    for (const inner of Object.values(next)) if (typeof inner === "object") open.push(inner);
  }
  return count;
}

/** The first byte from there on that is no white space. */
export function skipSpace(bytes: Buffer, from: number): number {
  let at = from;
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++;
  return at;
}

export function skipValue(bytes: Buffer, from: number): number {
  const first = bytes[from];
  if (first === quote) return skipString(bytes, from);
  if (first === openBrace || first === openBracket) return skipNested(bytes, from);
  let at = from;
  while (at < bytes.length && bytes[at] !== comma && bytes[at] !== closeBrace && !isSpace(bytes[at])) at++;
  return at;
}

function skipNested(bytes: Buffer, from: number): number {
  let depth = 0;
  let at = from;
  while (at < bytes.length) {
    const byte = bytes[at];
    if (byte === quote) {
      at = skipString(bytes, at);
      continue;
    }
    if (byte === openBrace || byte === openBracket) depth++;
    if (byte === closeBrace || byte === closeBracket) depth--;
    at++;
    if (depth === 0) return at;
  }
  return at;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}
