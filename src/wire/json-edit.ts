import { jsonElements, jsonMembers, membersNamed, openBrace, parseJson, quote, skipSpace, skipString } from "./json.ts";

/* These functions change only a part of a JSON text. The text must be valid JSON. */

/** Returns the bytes with the span from `start` to `end` replaced. */
export function replaced(bytes: Buffer, start: number, end: number, by: string | Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, start), typeof by === "string" ? Buffer.from(by) : by, bytes.subarray(end)]);
}

/**
 * Replaces the value of every secret member, at any depth, with the text `shown`. Returns the same bytes if there are
 * no secret members.
 */
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

/** Sets one member of an object. `value` is JSON. Adds a missing member at the start. */
export function withMember(object: Buffer, name: string, value: string): Buffer {
  const members = jsonMembers(object);
  const stated = members.findLast((member) => member.name === name);
  if (stated !== undefined) return replaced(object, stated.valueStart, stated.valueEnd, value);
  const brace = object.indexOf(openBrace) + 1;
  return replaced(object, brace, brace, `${JSON.stringify(name)}:${value}${members.length === 0 ? "" : ","}`);
}

/** Removes members of an object by their names, including repeated ones. */
export function withoutMembers(object: Buffer, names: ReadonlySet<string>): Buffer {
  let next = skipSpace(object, 0) + 1;
  const parts = jsonMembers(object).map(({ name, valueEnd }) => {
    const part = { start: skipSpace(object, next), end: valueEnd, isKept: !names.has(name) };
    // After the comma that follows the value.
    next = skipSpace(object, valueEnd) + 1;
    return part;
  });
  return keptParts(object, parts);
}

/** Removes elements of a list by their indexes. */
export function withoutElements(list: Buffer, indexes: ReadonlySet<number>): Buffer {
  const parts = (jsonElements(list, Infinity) ?? []).map((element, index) => {
    const start = element.byteOffset - list.byteOffset;
    return { start, end: start + element.length, isKept: !indexes.has(index) };
  });
  return keptParts(list, parts);
}

/** Removes members or elements, each with the comma before it, or after it if no earlier one is kept. */
function keptParts(
  bytes: Buffer,
  parts: readonly { readonly start: number; readonly end: number; readonly isKept: boolean }[],
): Buffer {
  const [first, last] = [parts[0], parts.at(-1)];
  if (first === undefined || last === undefined || parts.every(({ isKept }) => isKept)) return bytes;
  const pieces: Buffer[] = [];
  parts.forEach(({ start, end, isKept }, index) => {
    if (isKept) pieces.push(bytes.subarray(pieces.length === 0 ? start : (parts[index - 1]?.end ?? start), end));
  });
  return Buffer.concat([bytes.subarray(0, first.start), ...pieces, bytes.subarray(last.end)]);
}

/**
 * Replaces every string that contains one of the texts with the result of `rewrite`, which receives the parsed string.
 */
export function withStringsRewritten(
  bytes: Buffer,
  texts: readonly string[],
  rewrite: (parsed: string) => string,
): Buffer {
  const needles = texts.filter((text) => text !== "");
  if (!needles.some((text) => bytes.includes(text))) return bytes;
  const pieces: Buffer[] = [];
  let copied = 0;
  for (let start = bytes.indexOf(quote); start !== -1;) {
    const after = skipString(bytes, start);
    const quoted = bytes.subarray(start, after);
    if (needles.some((text) => quoted.includes(text))) {
      pieces.push(bytes.subarray(copied, start), Buffer.from(JSON.stringify(rewrite(parsedString(quoted)))));
      copied = after;
    }
    start = bytes.indexOf(quote, after);
  }
  return Buffer.concat([...pieces, bytes.subarray(copied)]);
}

function parsedString(quoted: Buffer): string {
  return String(parseJson(quoted.toString("utf8")));
}
