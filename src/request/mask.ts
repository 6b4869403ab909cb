import type { HeaderList } from "../ports/exchange.ts";

/** Replacement for a secret or a private value. */
export const hidden = "<hidden>";

/** Replaces every occurrence of a secret in bytes. Returns the same object if there is none. */
export type Mask = (bytes: Buffer) => Buffer;

/** Replaces the secret in the values of headers. Returns the same list if there is none. */
export function maskedHeaders(headers: HeaderList, mask: Mask): HeaderList {
  const values = Buffer.from(headers.map(([, value]) => value).join("\n"), "latin1");
  const masked = mask(values);
  if (masked === values) return headers;
  const shown = masked.toString("latin1").split("\n");
  return headers.map(([name], index) => [name, shown[index] ?? ""]);
}

/** Replaces the secret in a text of the gateway. */
export function maskedText(text: string, mask: Mask): string {
  const bytes = Buffer.from(text);
  const masked = mask(bytes);
  return masked === bytes ? text : masked.toString();
}

/** Least number of base64 characters that are searched for. Fewer may match other text by chance. */
const base64CharsMin = 12;

/**
 * Creates a mask for a secret. It finds the secret as it is, in base64 (both alphabets, also inside longer encoded text),
 * and each of these with JSON's `\u` and `\/` escapes. It searches for escaped forms only if there are escapes.
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
 * Returns a fast check for bytes that may contain a needle. It never misses one. It hashes four bytes at intervals so short
 * that any needle covers such a group, and compares each hash with those of all groups of four bytes in the needles.
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

/** Returns the base64 characters that depend only on the secret, if 0, 1 or 2 other bytes precede it in a group of three. */
function base64Forms(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const forms = [0, 1, 2].flatMap((before) => {
    const whole = Buffer.concat([Buffer.alloc(before), bytes]);
    const [from, to] = [Math.ceil((before * 8) / 6), Math.floor((whole.length * 8) / 6)];
    return [whole.toString("base64").slice(from, to), whole.toString("base64url").slice(from, to)];
  });
  return [...new Set(forms)].filter((form) => form.length >= base64CharsMin);
}

/** Returns a pattern for a character, plain or escaped. An escape inside a JSON string within JSON has several backslashes. */
function escapable(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  const hex = Array.from(code.toString(16).padStart(4, "0"), (digit) =>
    /\d/.test(digit) ? digit : `[${digit}${digit.toUpperCase()}]`,
  ).join("");
  const slash = char === "/" ? String.raw`|\\{1,8}/` : "";
  return String.raw`(?:\x${code.toString(16).padStart(2, "0")}|\\{1,8}u${hex}${slash})`;
}
