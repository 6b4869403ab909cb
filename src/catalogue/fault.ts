/** One thing wrong in a price file: where, and what to write instead. Lines and columns count from 1. */
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

/** ` did you mean "x"?`, or what is known where nothing is near; made to follow a semicolon. */
export function suggest(given: string, known: readonly string[]): string {
  const near = known
    .map((name) => ({ name, distance: editDistance(given.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, distance }) => distance <= Math.min(3, Math.floor(name.length / 2)))
    .sort((a, b) => a.distance - b.distance)[0];
  if (near !== undefined) return `did you mean "${near.name}"?`;
  return known.length === 0 ? "none is known here" : `known are ${known.join(", ")}`;
}

/** Insertions, deletions and replacements from one text to the other; both are names of a few dozen characters. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[b.length] ?? 0;
}
