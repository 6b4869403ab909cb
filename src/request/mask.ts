import type { HeaderList } from "../ports/exchange.ts";

/** Replacement for a secret or a private value. */
export const hidden = "<hidden>";

/** Replaces every occurrence of a secret in bytes; the same bytes where there is none. */
export type Mask = (bytes: Buffer) => Buffer;

/** Headers without a secret in their values; the same list where there is none. */
export function maskedHeaders(headers: HeaderList, mask: Mask): HeaderList {
  const values = Buffer.from(headers.map(([, value]) => value).join("\n"), "latin1");
  const masked = mask(values);
  if (masked === values) return headers;
  const shown = masked.toString("latin1").split("\n");
  return headers.map(([name], index) => [name, shown[index] ?? ""]);
}

/** A text of the gateway without the secret. */
export function maskedText(text: string, mask: Mask): string {
  const bytes = Buffer.from(text);
  const masked = mask(bytes);
  return masked === bytes ? text : masked.toString();
}

/** Base64 of fewer characters of a secret may be found by chance. */
const base64CharsMin = 12;

/**
 * Finds the secret as it is, in base64 (of both alphabets, inside a longer text too), and each of these with JSON's `\u` and
 * `\/` escapes. The text of escapes is searched only where there are any.
 */
export function createMask(secret: string): Mask {
  if (secret === "") return (bytes) => bytes;
  const forms = [secret, ...base64Forms(secret)];
  const needles = forms.map((form) => Buffer.from(form));
  const mayHold = filterFor(needles);
  const escaped = new RegExp(forms.map((form) => Array.from(form, escapable).join("")).join("|"), "g");
  return (bytes) => {
    const plain = mayHold(bytes) ? needles.reduce(without, bytes) : bytes;
    if (!plain.includes(backslash) || !(plain.includes(unicodeEscape) || plain.includes(slashEscape))) return plain;
    const text = plain.toString("latin1");
    const shown = text.replace(escaped, hidden);
    return shown === text ? plain : Buffer.from(shown, "latin1");
  };
}

const backslash = 0x5c;
const unicodeEscape = Buffer.from(String.raw`\u`);
const slashEscape = Buffer.from(String.raw`\/`);

/**
 * Returns a fast check whether bytes may hold one of the needles; it never misses one. It hashes four bytes at so many
 * places that any needle covers one of them, and compares them with all that the needles have.
 */
function filterFor(needles: readonly Buffer[]): (bytes: Buffer) => boolean {
  const step = Math.min(...needles.map(({ length }) => length)) - 3;
  if (step < 1) return () => true;
  const seen = new Uint8Array(1 << 16);
  for (const needle of needles) for (let at = 0; at + 4 <= needle.length; at++) seen[hashAt(needle, at)] = 1;
  return (bytes) => {
    for (let at = 0; at + 4 <= bytes.length; at += step) if (seen[hashAt(bytes, at)] === 1) return true;
    return false;
  };
}

function hashAt(bytes: Buffer, at: number): number {
  return Math.imul(bytes.readInt32LE(at), 0x9e3779b1) >>> 16;
}

function without(bytes: Buffer, needle: Buffer): Buffer {
  let found = bytes.indexOf(needle);
  if (found === -1) return bytes;
  const pieces: Buffer[] = [];
  let from = 0;
  while (found !== -1) {
    pieces.push(bytes.subarray(from, found), Buffer.from(hidden));
    from = found + needle.length;
    found = bytes.indexOf(needle, from);
  }
  pieces.push(bytes.subarray(from));
  return Buffer.concat(pieces);
}

/** The characters of base64 that depend on the secret alone, after 0, 1 or 2 other bytes of a group of three. */
function base64Forms(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const forms = [0, 1, 2].flatMap((before) => {
    const whole = Buffer.concat([Buffer.alloc(before), bytes]);
    const [from, to] = [Math.ceil((before * 8) / 6), Math.floor((whole.length * 8) / 6)];
    return [whole.toString("base64").slice(from, to), whole.toString("base64url").slice(from, to)];
  });
  return [...new Set(forms)].filter((form) => form.length >= base64CharsMin);
}

/** A pattern for one character, as it is or escaped; an escape within a text of JSON has more than one backslash. */
function escapable(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  const hex = Array.from(code.toString(16).padStart(4, "0"), (digit) =>
    /\d/.test(digit) ? digit : `[${digit}${digit.toUpperCase()}]`,
  ).join("");
  const slash = char === "/" ? String.raw`|\\{1,8}/` : "";
  return String.raw`(?:\x${code.toString(16).padStart(2, "0")}|\\{1,8}u${hex}${slash})`;
}
