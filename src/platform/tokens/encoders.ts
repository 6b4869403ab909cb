import { get_encoding, type Tiktoken } from "tiktoken";
import type { Encoding } from "../../ports/catalogue.ts";

/**
 * This thread's encoders. The first costs about 110 ms and 50-80 MB, so each is loaded on first use and never freed.
 * Importing this file compiles tiktoken's WASM module, so on the main thread only `warm` imports it.
 */
const encoders = new Map<Encoding, Tiktoken>();

/**
 * Counts one piece of text. Special tokens count as plain text, lone surrogates as U+FFFD. The time grows with the square
 * of the length, so callers cut long texts first.
 */
export function countPiece(piece: string, encoding: Encoding): number {
  return encoderFor(encoding).encode_ordinary(piece).length;
}

/** Loads an encoder before its first use. Blocks the thread while it loads. */
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
