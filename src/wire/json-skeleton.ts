import { skipString } from "./json-keys.ts";

const quote = 0x22;

/** Strings of more bytes than this are cut out. What a request is looked at for is never so long. */
const stringBytesMax = 1024;
/** Longer than any string that is left, so that none can be taken for a stand-in. */
const filler = "x".repeat(stringBytesMax + 1);

/**
 * The same JSON with every long string replaced by a short stand-in that tells its length: parsing a prompt of 100 kB to
 * look at a few fields beside it costs more than all else that is done for the request. Quotes stand nowhere in JSON but
 * around strings, so the structure stays what it was; what is inside of a long string is not checked. The same bytes
 * where no string is long.
 */
export function jsonSkeleton(bytes: Buffer): Buffer {
  const pieces: Buffer[] = [];
  let copied = 0;
  for (let start = bytes.indexOf(quote); start !== -1; ) {
    const after = skipString(bytes, start);
    const closing = after - 1;
    const length = closing - start - 1;
    if (length > stringBytesMax && bytes[closing] === quote) {
      pieces.push(bytes.subarray(copied, start + 1), Buffer.from(filler + String(length)));
      copied = closing;
    }
    start = bytes.indexOf(quote, after);
  }
  if (pieces.length === 0) return bytes;
  return Buffer.concat([...pieces, bytes.subarray(copied)]);
}

/** The length that a string of a skeleton had in the whole text: of a stand-in in bytes, else in characters. */
export function lengthInFull(text: string): number {
  return text.length > stringBytesMax ? Number(text.slice(filler.length)) : text.length;
}
