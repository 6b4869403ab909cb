/**
 * Matches where a long text can be cut without changing its count. Pieces must be short: the tokenizer's time grows with
 * the square of a piece that its regular expression cannot split, and 1M letters in one piece panic the WASM module.
 * A cut after a letter or digit is exact if no letter, digit, mark or apostrophe follows, because no regex piece of
 * o200k_base or cl100k_base spans it. Exception: tiktoken 1.0.22 does not know the letters that are new in Unicode 17.
 * A cut right after such a letter may change the count by one token.
 */
const safeEnd = /[\p{L}\p{N}](?![\p{L}\p{N}\p{M}'’])/u;

/** Shortest piece before a safe cut, in UTF-16 units. */
export const pieceUnitsMin = 512;
/** Longest piece, in UTF-16 units. A piece without a safe cut ends here, which adds at most a few tokens. */
export const pieceUnitsMax = 1024;

/** Returns the end of the piece that begins at `start`. The end is at most `pieceUnitsMax` after `start`. */
export function pieceEnd(text: string, start: number): number {
  const last = start + pieceUnitsMax;
  if (last >= text.length) return text.length;
  const from = start + pieceUnitsMin;
  // Two extra units, so that the search sees the whole character after the last possible cut.
  const found = safeEnd.exec(text.slice(from, last + 2));
  if (found !== null) {
    const cut = from + found.index + found[0].length;
    if (cut <= last) return cut;
  }
  return splitsPair(text, last) ? last - 1 : last;
}

/** Writes non-ASCII characters as `\u` escapes. The tokenizer's regular expression splits every escape. */
export function escapedPiece(piece: string): string {
  return piece.replaceAll(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Counts a text piece by piece, in linear time. The count is exact except at hard cuts. */
export function countInPieces(text: string, countPiece: (piece: string) => number): number {
  let tokens = 0;
  for (let start = 0; start < text.length;) {
    const end = pieceEnd(text, start);
    tokens += countPiece(text.slice(start, end));
    start = end;
  }
  return tokens;
}

function splitsPair(text: string, at: number): boolean {
  return isBetween(text.charCodeAt(at - 1), 0xd800, 0xdbff) && isBetween(text.charCodeAt(at), 0xdc00, 0xdfff);
}

function isBetween(unit: number, low: number, high: number): boolean {
  return unit >= low && unit <= high;
}
