import type { HeaderList } from "../ports/exchange.ts";

/** What stands in place of a secret or a private value. */
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

export function createMask(secret: string): Mask {
  const needle = Buffer.from(secret);
  const replacement = Buffer.from(hidden);
  return (bytes) => {
    let found = needle.length === 0 ? -1 : bytes.indexOf(needle);
    if (found === -1) return bytes;
    const pieces: Buffer[] = [];
    let from = 0;
    while (found !== -1) {
      pieces.push(bytes.subarray(from, found), replacement);
      from = found + needle.length;
      found = bytes.indexOf(needle, from);
    }
    pieces.push(bytes.subarray(from));
    return Buffer.concat(pieces);
  };
}
