/** A fault in a file that people write: its position and the fix. Lines and columns count from 1. */
export interface Fault {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** One line for people and editors: `pricing/openai.yaml:12:7: unknown field "outptu"; did you mean "output"?` */
export function formatFault(fault: Fault): string {
  return `${fault.file}:${fault.line}:${fault.column}: ${fault.message}`;
}

/** Returns known names similar to a mistyped one, nearest first. */
export function nearest(given: string, known: readonly string[]): string[] {
  return known
    .map((name) => ({ name, distance: editDistance(given.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, distance }) => distance <= Math.min(3, Math.floor(name.length / 2)))
    .sort((a, b) => a.distance - b.distance)
    .map(({ name }) => name);
}

/** Returns ` did you mean "x"?`, or the known names if none is similar; follows a semicolon. */
export function suggest(given: string, known: readonly string[]): string {
  const [near] = nearest(given, known);
  if (near !== undefined) return `did you mean "${near}"?`;
  return known.length === 0 ? "none is known here" : `known are ${known.join(", ")}`;
}

/** Returns one sentence a line for the fields that a block does not know. */
export function unknownFields(given: readonly string[], known: readonly string[]): string {
  return given.map((name) => `unknown field "${name}"; ${suggest(name, known)}`).join("\n");
}

/** Levenshtein distance of two names of a few dozen characters: letters to insert, remove or replace. */
export function editDistance(a: string, b: string): number {
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
