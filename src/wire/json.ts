export const quote = 0x22;
const backslash = 0x5c;
export const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const colon = 0x3a;
const comma = 0x2c;

/** Text that stands for omitted content in the outline of a JSON text. */
export const omittedText = "…";

/** A JSON object of unknown shape. */
export type JsonObject = { readonly [name: string]: unknown };

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the object; an empty object for any other value. */
export function objectOr(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** Returns the list; an empty list for any other value. */
export function listOr(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Returns the text; an empty text for any other value. */
export function textOr(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Returns the value as JSON; undefined if its nesting overflows the stack. */
export function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** Longest text that is parsed without checking `jsonBounds`, in UTF-16 units. */
const uncheckedUnitsMax = 64 * 1024;

/** Parses a text. Returns undefined if it is not JSON or exceeds `jsonBounds`. */
export function parseJson(text: string): unknown {
  if (text.length > uncheckedUnitsMax && jsonSkeleton(Buffer.from(text)) === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const byteOrderMark = Buffer.from("\ufeff");

/** Returns an answer without the byte order mark at its start, which clients skip. */
export function withoutByteOrderMark(answer: Buffer): Buffer {
  const { length } = byteOrderMark;
  return answer.subarray(0, length).equals(byteOrderMark) ? answer.subarray(length) : answer;
}

/** A member of a JSON object, with the position of its value in the bytes. `valueEnd` is the offset after the value. */
export interface JsonMember {
  readonly name: string;
  readonly valueStart: number;
  readonly valueEnd: number;
}

/**
 * Returns the members of a JSON object in their order, including repeated names; none for any other value. The bytes
 * must be valid JSON. `most` is the largest number of members to return.
 */
export function jsonMembers(bytes: Buffer, most = Infinity): JsonMember[] {
  const members: JsonMember[] = [];
  let at = skipSpace(bytes, 0);
  if (bytes[at] !== openBrace) return members;
  at = skipSpace(bytes, at + 1);
  while (bytes[at] === quote && members.length < most) {
    const nameEnd = skipString(bytes, at);
    const name = memberName(bytes.toString("utf8", at, nameEnd));
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

/** Returns the name of a member. Only a name with escapes needs a parser. */
function memberName(quoted: string): string {
  if (!quoted.includes("\\")) return quoted.slice(1, -1);
  const parsed = parseJson(quoted);
  // A long name may be invalid, because Farebox does not check long strings. Such a name is returned with its quotes.
  return typeof parsed === "string" ? parsed : quoted;
}

/** Returns the bytes of each element of a JSON list, up to `most` elements; undefined for any other value. */
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
 * Returns true if any object in a JSON value repeats a member name. Readers differ on which of the repeated members
 * counts. `value` is the parsed `json`.
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
    if (Array.isArray(next)) {
      for (const inner of next) if (typeof inner === "object") open.push(inner);
    } else if (isObject(next)) {
      for (const name in next) {
        count++;
        const inner = next[name];
        if (typeof inner === "object") open.push(inner);
      }
    }
  }
  return count;
}

/** Places in a JSON value by the names of the members that lead to them. Lists add no name. */
export type Places = ReadonlyMap<string, Places | "free">;

export const noPlaces: Places = new Map();

/**
 * Returns the path of the first member whose name its object has given before: "reasoning.mode". Returns undefined if
 * there is none. Members at a `free` place, and members in their values, may be repeated.
 */
export function repeatedMember(json: Buffer, places: Places): string | undefined {
  /** Objects and lists around the current position. Lists have no names. */
  const open: { readonly names: Set<string> | undefined; name: string; places: Places }[] = [];
  let inner = places;
  for (let at = 0; at < json.length;) {
    const byte = json[at];
    const around = open.at(-1);
    if (byte === openBrace || byte === openBracket) {
      open.push({ names: byte === openBrace ? new Set() : undefined, name: "", places: inner });
    } else if (byte === closeBrace || byte === closeBracket) {
      open.pop();
      inner = open.at(-1)?.places ?? places;
    }
    if (byte !== quote) {
      at++;
      continue;
    }
    const end = skipString(json, at);
    const mark = skipSpace(json, end);
    if (around?.names === undefined || json[mark] !== colon) {
      at = end;
      continue;
    }
    around.name = memberName(json.toString("utf8", at, end));
    const place = around.places.get(around.name) ?? noPlaces;
    at = skipSpace(json, mark + 1);
    if (place === "free") {
      at = skipValue(json, at);
      continue;
    }
    if (around.names.has(around.name)) return pathOf(open.map(({ name }) => name));
    around.names.add(around.name);
    inner = place;
  }
  return undefined;
}

function pathOf(names: readonly string[]): string {
  return storedText(names.filter((name) => name !== "").join("."));
}

/** Returns the offset of the first byte at or after `from` that is not white space. */
export function skipSpace(bytes: Buffer, from: number): number {
  let at = from;
  while (isSpace(bytes[at])) at++;
  return at;
}

/** Returns the offset after the value that begins at `from`. */
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

/**
 * Longest string that `jsonSkeleton` keeps, in bytes. Farebox needs only the length of longer strings.
 */
const stringBytesMax = 1024;
/**
 * Start of every placeholder. It is longer than every string that stays in a skeleton, so no such string looks like a
 * placeholder.
 */
const filler = Buffer.alloc(stringBytesMax + 1, "x");

/** Bounds of a body that Farebox reads. No model accepts more, and reading a larger body would delay other requests. */
export const jsonBounds = { values: 500_000, skeletonBytes: 8 * 1024 * 1024, names: 10_000 } as const;

/**
 * Replaces every long string of a JSON text with a placeholder that states its length. Otherwise parsing a prompt of
 * 100 kB for a few fields would cost more than all other work on the request. Does not check the content of long
 * strings. Returns the same bytes if no string is long, and undefined if the text exceeds `jsonBounds`.
 */
export function jsonSkeleton(bytes: Buffer): Buffer | undefined {
  if (bytes.length <= stringBytesMax) return bytes;
  const pieces: Buffer[] = [];
  let copied = 0;
  let keptBytes = 0;
  for (let start = bytes.indexOf(quote); start !== -1;) {
    if (keptBytes + start - copied > jsonBounds.skeletonBytes) return undefined;
    const after = skipString(bytes, start);
    const closing = after - 1;
    const length = closing - start - 1;
    if (length > stringBytesMax && bytes[closing] === quote) {
      const stated = Buffer.from(String(length));
      pieces.push(bytes.subarray(copied, start + 1), filler, stated);
      keptBytes += start + 1 - copied + filler.length + stated.length;
      copied = closing;
    }
    start = bytes.indexOf(quote, after);
  }
  if (keptBytes + bytes.length - copied > jsonBounds.skeletonBytes) return undefined;
  const skeleton = pieces.length === 0 ? bytes : Buffer.concat([...pieces, bytes.subarray(copied)]);
  return hasTooManyValues(skeleton) ? undefined : skeleton;
}

/**
 * Returns true if a skeleton has too many values. Counts commas, colons and opening brackets, because one of them
 * precedes each value.
 */
function hasTooManyValues(skeleton: Buffer): boolean {
  if (skeleton.length <= jsonBounds.values) return false;
  let signs = 0;
  for (let at = 0; at < skeleton.length && signs <= jsonBounds.values; at++) {
    const byte = skeleton[at];
    if (byte === comma || byte === colon || byte === openBrace || byte === openBracket) signs++;
  }
  return signs > jsonBounds.values;
}

/** Returns the original length of a skeleton's string: in bytes for a placeholder, otherwise in UTF-16 units. */
export function lengthInFull(text: string): number {
  return mayBeShortened(text) ? Number(text.slice(filler.length)) : text.length;
}

/** Returns true if a skeleton's string may be a placeholder. */
export function mayBeShortened(text: string): boolean {
  return text.length > stringBytesMax;
}

/**
 * Largest distance between escaped quotes, in bytes, at which reading each byte is faster than searching for quotes.
 */
const denseBytes = 16;

/** Returns the offset after the string that begins at `from`; the end of the bytes if the string does not end. */
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

/**
 * Yields every member with a wanted name, at any depth, including repeated names. Skips the members inside the value of
 * another wanted member.
 */
export function* membersNamed(bytes: Buffer, isWanted: (name: string) => boolean): Generator<JsonMember> {
  // In JSON, only strings have quotes, and only names are followed by a colon.
  for (let start = bytes.indexOf(quote); start !== -1;) {
    const after = skipString(bytes, start);
    const mark = skipSpace(bytes, after);
    let next = after;
    if (bytes[mark] === colon) {
      const name = memberName(bytes.toString("utf8", start, after));
      if (isWanted(name)) {
        const valueStart = skipSpace(bytes, mark + 1);
        next = skipValue(bytes, valueStart);
        yield { name, valueStart, valueEnd: next };
      }
    }
    start = bytes.indexOf(quote, next);
  }
}

/**
 * Returns the position of the value at a path of names; undefined if a member is missing. If a name is repeated, the
 * last counts, as in `JSON.parse`.
 */
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

/** Longest text from the gateway that Farebox stores, in UTF-16 units. */
export const storedCharsMax = 256;

/** Cuts a text to `storedCharsMax`, but never inside a surrogate pair. */
export function storedText(text: string): string {
  if (text.length <= storedCharsMax) return text;
  const cut = text.slice(0, storedCharsMax);
  return /[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut;
}
