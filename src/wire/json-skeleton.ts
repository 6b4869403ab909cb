import { skipString } from "./json-string.ts";

const quote = 0x22;

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

const openBrace = 0x7b;
const openBracket = 0x5b;
const comma = 0x2c;
const colon = 0x3a;

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
