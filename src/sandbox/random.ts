import { createHash } from "node:crypto";

/** Returns a number from 0 to 1, excluding 1. */
export type Random = () => number;

/** Returns the hex digest of these parts. All random values in the sandbox are derived from such digests. */
export function digest(...parts: readonly (string | number | Uint8Array)[]): string {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(typeof part === "number" ? `${part};` : part);
  return hash.digest("hex");
}

/** Returns a mulberry32 generator. The same digest gives the same numbers on every machine. */
export function randomFrom(hex: string): Random {
  let state = Number.parseInt(hex.slice(0, 8), 16);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Returns one of the items. */
export function pick<T>(random: Random, items: readonly [T, ...T[]]): T {
  return items[Math.floor(random() * items.length)] ?? items[0];
}
