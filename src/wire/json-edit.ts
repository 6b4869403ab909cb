import { jsonMembers, skipSpace, skipValue, type JsonMember } from "./json-keys.ts";
import { skipString } from "./json-string.ts";
import { parseJson } from "./json.ts";

/* Changes to JSON text that leave every other byte as it was. The text must have been parsed before. */

/** The same bytes with one span of them replaced. */
export function replaced(bytes: Buffer, start: number, end: number, text: string): Buffer {
  return Buffer.concat([bytes.subarray(0, start), Buffer.from(text), bytes.subarray(end)]);
}

const quote = 0x22;
const colon = 0x3a;

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

const openBrace = 0x7b;

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
