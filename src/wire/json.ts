const quote = 0x22;
const backslash = 0x5c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const colon = 0x3a;
const comma = 0x2c;

/** Looking into JSON of unknown shape without trusting it. */
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

/** The text, or an empty one in place of anything else: `String` throws for an object whose own `toString` is no function. */
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

/** The parsed value; undefined where the text is no JSON, or hardly anything but structure, beyond `jsonBounds`. */
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

/** Strings of more bytes than this are cut out. What a request is looked at for is never so long. */
const stringBytesMax = 1024;
/** Longer than any string that is left, so that none can be taken for a stand-in. */
const filler = "x".repeat(stringBytesMax + 1);

/** Beyond these a body is no request that any model takes, and reading it would hold up all others for long. */
export const jsonBounds = { values: 500_000, skeletonBytes: 8 * 1024 * 1024, names: 10_000 } as const;

/**
 * The same JSON with every long string replaced by a short stand-in that tells its length: parsing a prompt of 100 kB to
 * look at a few fields beside it costs more than all else that is done for the request. Quotes stand nowhere in JSON but
 * around strings, so the structure stays what it was; what is inside of a long string is not checked. The same bytes
 * where no string is long. Undefined beyond `jsonBounds`: bytes that are hardly anything but structure cost a hundred
 * times what a long text costs.
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

/** Each value but the first stands behind one of four signs; those in the texts that are left count as well. */
function hasTooManyValues(skeleton: Buffer): boolean {
  if (skeleton.length <= jsonBounds.values) return false;
  let signs = 0;
  for (let at = 0; at < skeleton.length && signs <= jsonBounds.values; at++) {
    const byte = skeleton[at];
    if (byte === comma || byte === colon || byte === openBrace || byte === openBracket) signs++;
  }
  return signs > jsonBounds.values;
}

/** The length that a string of a skeleton had in the whole text: of a stand-in in bytes, else in characters. */
export function lengthInFull(text: string): number {
  return text.length > stringBytesMax ? Number(text.slice(filler.length)) : text.length;
}

/** Between escaped quotes that stand closer than this each byte is looked at: a search for each would cost more. */
const denseBytes = 16;

/** From an opening quote to after the closing one, or to the end. Jumps from quote to quote, so long texts cost little. */
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

/** Every member with such a name at any depth, repeated ones too; those within the value of one are passed over. */
export function* membersNamed(bytes: Buffer, isWanted: (name: string) => boolean): Generator<JsonMember> {
  // Quotes stand nowhere in JSON but around strings, and a colon follows no string but a name.
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

/** The value of every member with such a name, at any depth, is replaced by a text; the same bytes where there is none. */
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

/** The same object with one member set, at its place where it has one, else before the others. */
export function withMember(object: Buffer, name: string, value: string): Buffer {
  const members = jsonMembers(object);
  const stated = members.findLast((member) => member.name === name);
  if (stated !== undefined) return replaced(object, stated.valueStart, stated.valueEnd, value);
  const brace = object.indexOf(openBrace) + 1;
  return replaced(object, brace, brace, `${JSON.stringify(name)}:${value}${members.length === 0 ? "" : ","}`);
}

/** Every string that is written with one of these texts in it, put as `rewrite` says of what it means; the others stay as they are. */
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
