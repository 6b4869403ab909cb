/** Longest text of the gateway that is stored, in UTF-16 units. */
export const storedCharsMax = 256;

/** The text as it may be stored: cut to `storedCharsMax`, never inside a surrogate pair. */
export function storedText(text: string): string {
  if (text.length <= storedCharsMax) return text;
  const cut = text.slice(0, storedCharsMax);
  return /[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut;
}
