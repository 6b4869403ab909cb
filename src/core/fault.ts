/** A fault in a user's file: its position, and a message that says how to fix it. Lines and columns count from 1. */
export interface Fault {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/**
 * Formats a fault as one line for people and editors: `pricing/openai.yaml:12:7: unknown field "outptu"; did you mean
 * "output"?`
 */
export function formatFault(fault: Fault): string {
  return `${fault.file}:${fault.line}:${fault.column}: ${fault.message}`;
}

/** Returns the known names that are similar to a mistyped name, nearest first. */
export function nearest(given: string, known: readonly string[]): string[] {
  return known
    .map((name) => ({ name, distance: editDistance(given.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, distance }) => distance <= Math.min(3, Math.floor(name.length / 2)))
    .sort((a, b) => a.distance - b.distance)
    .map(({ name }) => name);
}

/** Returns `did you mean "x"?`, or the list of known names if none is similar. The text follows a semicolon. */
export function suggest(given: string, known: readonly string[]): string {
  const [near] = nearest(given, known);
  if (near !== undefined) return `did you mean "${near}"?`;
  return known.length === 0 ? "none is known here" : `known are ${known.join(", ")}`;
}

/** Returns one line for each unknown field of a block. */
export function unknownFields(given: readonly string[], known: readonly string[]): string {
  return given.map((name) => `unknown field "${name}"; ${suggest(name, known)}`).join("\n");
}

/** Returns the Levenshtein distance between two short names: the number of letters to insert, remove or replace. */
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
