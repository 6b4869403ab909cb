const quote = 0x22;
const backslash = 0x5c;

/** Between escaped quotes that stand closer than this each byte is looked at: a search for each would cost more. */
const denseBytes = 16;

/** From an opening quote to after the closing one, or to the end. Jumps from quote to quote, so long texts cost little. */
export function skipString(bytes: Buffer, from: number): number {
  let at = from;
  for (;;) {
    const found = bytes.indexOf(quote, at + 1);
    if (found === -1) return bytes.length;
    let escapes = 0;
    while (bytes[found - 1 - escapes] === backslash) escapes++;
    if (escapes % 2 === 0) return found + 1;
    const isDense = found - at <= denseBytes;
    at = found;
    if (!isDense) continue;
    for (let next = found + 1; next - at <= denseBytes; next++) {
      const byte = bytes[next];
      if (byte === quote) return next + 1;
      if (byte === backslash) at = ++next;
    }
  }
}

/** From a value's first byte to after its last one. */
