import { editDistance } from "../core/fault.ts";

/** Returns the known name that a mistyped name most likely means; undefined if none is similar. */
export function closest(mistyped: string, known: readonly string[]): string | undefined {
  const furthest = Math.max(2, Math.floor(mistyped.length / 4));
  let best: { name: string; distance: number } | undefined;
  for (const name of known) {
    const distance = editDistance(mistyped, name);
    if (distance <= furthest && distance < (best?.distance ?? Infinity)) best = { name, distance };
  }
  return best?.name;
}
