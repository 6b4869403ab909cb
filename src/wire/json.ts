const quote = 0x22;
const backslash = 0x5c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const colon = 0x3a;
const comma = 0x2c;

/** A JSON object of unknown shape. */
export type JsonObject = { readonly [name: string]: unknown };

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object, or an empty one in place of anything else. */
export function objectOr(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** The list, or an empty one in place of anything else. */
export function listOr(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The text, or an empty one in place of anything else. */
export function textOr(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The value as JSON; undefined where it is nested deeper than the stack. */
export function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** Shorter texts are parsed at once, whatever they are. */
const cheapUnits = 64 * 1024;

/** Parses a text; undefined if it is no JSON, or beyond `jsonBounds`. */
export function parseJson(text: string): unknown {
  if (text.length > cheapUnits && jsonSkeleton(Buffer.from(text)) === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Position of one top-level member of a JSON object in its bytes. Offsets are half-open. */
export interface JsonMember {
  readonly name: string;
  readonly valueStart: number;
  readonly valueEnd: number;
}

/**
 * Returns the top-level members of a parsed JSON object in their order, repeated names included; none for any other
 * value. `most`: the largest number of members to return.
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
    // The inside of a long string was not checked: a name that cannot be parsed is no known field.
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

/** Returns the bytes of each element of a parsed JSON list, at most `most`; undefined for any other value. */
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
function skipSpace(bytes: Buffer, from: number): number {
  let at = from;
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++;
  return at;
}

/** Returns the offset after the value that begins there. */
function skipValue(bytes: Buffer, from: number): number {
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

/** Strings of more bytes than this are cut out. No field that Farebox reads is that long. */
const stringBytesMax = 1024;
/** Longer than any string that is left, so that none can be taken for a placeholder. */
const filler = "x".repeat(stringBytesMax + 1);

/** Limits of a readable body: no model takes more, and reading it would delay all other requests. */
export const jsonBounds = { values: 500_000, skeletonBytes: 8 * 1024 * 1024, names: 10_000 } as const;

/**
 * Replaces every long string of a JSON text by a short placeholder with its length; the structure stays the same.
 * Parsing a prompt of 100 kB for a few fields would cost more than the rest of the request. The inside of a long string
 * is not checked. Returns the same bytes if no string is long, and undefined beyond `jsonBounds`.
 */
export function jsonSkeleton(bytes: Buffer): Buffer | undefined {
  const pieces: Buffer[] = [];
  let copied = 0;
  let keptBytes = 0;
  for (let start = bytes.indexOf(quote); start !== -1;) {
    if (keptBytes + start - copied > jsonBounds.skeletonBytes) return undefined;
    const after = skipString(bytes, start);
    const closing = after - 1;
    const length = closing - start - 1;
    if (length > stringBytesMax && bytes[closing] === quote) {
      const placeholder = Buffer.from(filler + String(length));
      pieces.push(bytes.subarray(copied, start + 1), placeholder);
      keptBytes += start + 1 - copied + placeholder.length;
      copied = closing;
    }
    start = bytes.indexOf(quote, after);
  }
  if (keptBytes + bytes.length - copied > jsonBounds.skeletonBytes) return undefined;
  const skeleton = pieces.length === 0 ? bytes : Buffer.concat([...pieces, bytes.subarray(copied)]);
  return hasTooManyValues(skeleton) ? undefined : skeleton;
}

/** Counts the signs before values, also those inside short strings. */
function hasTooManyValues(skeleton: Buffer): boolean {
  if (skeleton.length <= jsonBounds.values) return false;
  let signs = 0;
  for (let at = 0; at < skeleton.length && signs <= jsonBounds.values; at++) {
    const byte = skeleton[at];
    if (byte === comma || byte === colon || byte === openBrace || byte === openBracket) signs++;
  }
  return signs > jsonBounds.values;
}

/** Returns the length of a skeleton's string in the whole text: in bytes for a placeholder, else in characters. */
export function lengthInFull(text: string): number {
  return text.length > stringBytesMax ? Number(text.slice(filler.length)) : text.length;
}

/** Between escaped quotes that stand closer than this each byte is looked at: a search for each would cost more. */
const denseBytes = 16;

/** Returns the offset after the string that begins there, or the end. Jumps from quote to quote, so long texts cost little. */
export function skipString(bytes: Buffer, from: number): number {
  let at = from;
  for (;;) {
    const found = bytes.indexOf(quote, at + 1);
    if (found === -1) return bytes.length;
    let escapes = 0;
    while (bytes[found - 1 - escapes] === backslash) escapes++;
    if (escapes % 2 === 0) return found + 1;
    const isDense = found - at <= denseBytes;
    at = found;
    if (!isDense) continue;
    for (let next = found + 1; next - at <= denseBytes; next++) {
      const byte = bytes[next];
      if (byte === quote) return next + 1;
      if (byte === backslash) at = ++next;
    }
  }
}

/* Changes to JSON text that leave every other byte as it was. The text must have been parsed before. */

/** The same bytes with one span of them replaced. */
export function replaced(bytes: Buffer, start: number, end: number, text: string): Buffer {
  return Buffer.concat([bytes.subarray(0, start), Buffer.from(text), bytes.subarray(end)]);
}

/** Yields every member with a wanted name at any depth, repeated ones too, but none inside the value of another. */
export function* membersNamed(bytes: Buffer, isWanted: (name: string) => boolean): Generator<JsonMember> {
  // In JSON, quotes are only around strings, and a colon follows only a name.
  for (let start = bytes.indexOf(quote); start !== -1;) {
    const after = skipString(bytes, start);
    const mark = skipSpace(bytes, after);
    let next = after;
    if (bytes[mark] === colon) {
      const name = nameIn(bytes.subarray(start, after));
      if (isWanted(name)) {
        const valueStart = skipSpace(bytes, mark + 1);
        next = skipValue(bytes, valueStart);
        yield { name, valueStart, valueEnd: next };
      }
    }
    start = bytes.indexOf(quote, next);
  }
}

/** Replaces the value of every secret member, at any depth, by a text. Returns the same bytes where there is none. */
export function withMembersHidden(bytes: Buffer, isSecret: (name: string) => boolean, shown: string): Buffer {
  const replacement = Buffer.from(JSON.stringify(shown));
  const pieces: Buffer[] = [];
  let copied = 0;
  for (const { valueStart, valueEnd } of membersNamed(bytes, isSecret)) {
    pieces.push(bytes.subarray(copied, valueStart), replacement);
    copied = valueEnd;
  }
  return pieces.length === 0 ? bytes : Buffer.concat([...pieces, bytes.subarray(copied)]);
}

function nameIn(written: Buffer): string {
  return String(parseJson(written.toString("utf8")));
}

/** Returns the position of the value at a path of names. Of two equal names, the last counts, as for `JSON.parse`. */
export function valueAt(
  bytes: Buffer,
  path: readonly string[],
): Pick<JsonMember, "valueStart" | "valueEnd"> | undefined {
  let found: Pick<JsonMember, "valueStart" | "valueEnd"> = { valueStart: 0, valueEnd: bytes.length };
  for (const name of path) {
    const { valueStart: offset, valueEnd } = found;
    const member = jsonMembers(bytes.subarray(offset, valueEnd)).findLast((each) => each.name === name);
    if (member === undefined) return undefined;
    found = { valueStart: offset + member.valueStart, valueEnd: offset + member.valueEnd };
  }
  return found;
}

/** Sets one member of an object: in its place, or before the others if it is new. */
export function withMember(object: Buffer, name: string, value: string): Buffer {
  const members = jsonMembers(object);
  const stated = members.findLast((member) => member.name === name);
  if (stated !== undefined) return replaced(object, stated.valueStart, stated.valueEnd, value);
  const brace = object.indexOf(openBrace) + 1;
  return replaced(object, brace, brace, `${JSON.stringify(name)}:${value}${members.length === 0 ? "" : ","}`);
}

/** Rewrites every string that contains one of the texts; `rewrite` receives its meaning. The others stay as they are. */
export function withStringsRewritten(
  bytes: Buffer,
  texts: readonly string[],
  rewrite: (meaning: string) => string,
): Buffer {
  const needles = texts.filter((text) => text !== "");
  if (!needles.some((text) => bytes.includes(text))) return bytes;
  const pieces: Buffer[] = [];
  let copied = 0;
  for (let start = bytes.indexOf(quote); start !== -1;) {
    const after = skipString(bytes, start);
    const written = bytes.subarray(start, after);
    if (needles.some((text) => written.includes(text))) {
      pieces.push(bytes.subarray(copied, start), Buffer.from(JSON.stringify(rewrite(nameIn(written)))));
      copied = after;
    }
    start = bytes.indexOf(quote, after);
  }
  return Buffer.concat([...pieces, bytes.subarray(copied)]);
}

/** Longest text of the gateway that is stored, in UTF-16 units. */
export const storedCharsMax = 256;

/** The text as it may be stored: cut to `storedCharsMax`, never inside a surrogate pair. */
export function storedText(text: string): string {
  if (text.length <= storedCharsMax) return text;
  const cut = text.slice(0, storedCharsMax);
  return /[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut;
}
