import { get_encoding, type Tiktoken } from "tiktoken";
import type { Encoding } from "../../ports/catalogue.ts";

/**
 * This thread's encoders: about 110 ms and 50-80 MB for the first, so they are loaded when first used and never freed.
 * Importing this file compiles tiktoken's WASM module; on the main thread it is therefore imported only by `warm`.
 */
const encoders = new Map<Encoding, Tiktoken>();

/**
 * Counts one piece of text, special tokens' text as plain text; lone surrogates count as U+FFFD. The time grows with the
 * square of the length: longer texts go through the cuts.
 */
export function countPiece(piece: string, encoding: Encoding): number {
  return encoderFor(encoding).encode_ordinary(piece).length;
}

/** Loads an encoder ahead of its first use; blocks the thread meanwhile. */
export function loadEncoder(encoding: Encoding): void {
  encoderFor(encoding);
}

function encoderFor(encoding: Encoding): Tiktoken {
  let encoder = encoders.get(encoding);
  if (encoder === undefined) {
    encoder = get_encoding(encoding);
    encoders.set(encoding, encoder);
  }
  return encoder;
}
