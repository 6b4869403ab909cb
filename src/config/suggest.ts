/** The known name that a mistyped one most likely meant; undefined when none is near. */
export function closest(mistyped: string, known: readonly string[]): string | undefined {
  const furthest = Math.max(2, Math.floor(mistyped.length / 4));
  let best: { name: string; distance: number } | undefined;
  for (const name of known) {
    const distance = editDistance(mistyped, name);
    if (distance <= furthest && distance < (best?.distance ?? Infinity)) best = { name, distance };
  }
  return best?.name;
}

/** Levenshtein distance: letters to insert, remove or replace. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const replaced = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      current.push(Math.min(replaced, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
}
