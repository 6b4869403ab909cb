/**
 * End of a cut that keeps a long text's count. The tokenizer's time grows with the square of a piece that its regular
 * expression cannot split, and a piece of 1M letters panics the WASM module, so pieces must be short. A cut after a
 * letter or digit is exact if no letter, digit, mark or apostrophe follows: no regex piece of o200k_base or cl100k_base
 * spans it. (Exception: a cut right after a letter new in Unicode 17, which tiktoken 1.0.22 does not know, may change
 * the count by a token.)
 */
const safeEnd = /[\p{L}\p{N}](?![\p{L}\p{N}\p{M}'’])/u;

/** UTF-16 units after which a safe cut is looked for. */
export const pieceUnitsMin = 512;
/** UTF-16 units after which a piece is cut whatever it holds; such a cut adds at most a few tokens. */
export const pieceUnitsMax = 1024;

/** Returns the end of the piece that begins at `start`: beyond `start`, at most `pieceUnitsMax` after it. */
export function pieceEnd(text: string, start: number): number {
  const last = start + pieceUnitsMax;
  if (last >= text.length) return text.length;
  const from = start + pieceUnitsMin;
  // Two units more than a cut may use, so that the character after the last possible cut is seen whole.
  const found = safeEnd.exec(text.slice(from, last + 2));
  if (found !== null) {
    const cut = from + found.index + found[0].length;
    if (cut <= last) return cut;
  }
  return splitsPair(text, last) ? last - 1 : last;
}

/** A piece with all but ASCII written as `\u` escapes, which the tokenizer's regular expression splits everywhere. */
export function escapedPiece(piece: string): string {
  return piece.replaceAll(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Counts a whole text piece by piece: exact but for hard cuts, in time that grows linearly with its length. */
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
