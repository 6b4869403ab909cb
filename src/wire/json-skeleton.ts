const quote = 0x22;
const backslash = 0x5c;

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
    const end = stringEnd(bytes, start);
    if (end === -1) break;
    const length = end - start - 1;
    if (length > stringBytesMax) {
      pieces.push(bytes.subarray(copied, start + 1), Buffer.from(filler + String(length)));
      copied = end;
    }
    start = bytes.indexOf(quote, end + 1);
  }
  if (pieces.length === 0) return bytes;
  return Buffer.concat([...pieces, bytes.subarray(copied)]);
}

/** The length that a string of a skeleton had in the whole text: of a stand-in in bytes, else in characters. */
export function lengthInFull(text: string): number {
  return text.length > stringBytesMax ? Number(text.slice(filler.length)) : text.length;
}

/** The place of the closing quote; -1 when there is none. */
function stringEnd(bytes: Buffer, start: number): number {
  let at = start;
  for (;;) {
    at = bytes.indexOf(quote, at + 1);
    if (at === -1) return -1;
    let escapes = 0;
    while (bytes[at - 1 - escapes] === backslash) escapes++;
    if (escapes % 2 === 0) return at;
  }
}
