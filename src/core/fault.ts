import { editDistance } from "./edit-distance.ts";

/** One thing wrong in a file that people write: where, and what to write instead. Lines and columns count from 1. */
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

/** The known names that a mistyped one may have meant, nearest first. */
export function nearest(given: string, known: readonly string[]): string[] {
  return known
    .map((name) => ({ name, distance: editDistance(given.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, distance }) => distance <= Math.min(3, Math.floor(name.length / 2)))
    .sort((a, b) => a.distance - b.distance)
    .map(({ name }) => name);
}

/** ` did you mean "x"?`, or what is known where nothing is near; made to follow a semicolon. */
export function suggest(given: string, known: readonly string[]): string {
  const [near] = nearest(given, known);
  if (near !== undefined) return `did you mean "${near}"?`;
  return known.length === 0 ? "none is known here" : `known are ${known.join(", ")}`;
}

/** What a schema says of each field that a block does not know, one sentence a line. */
export function unknownFields(given: readonly string[], known: readonly string[]): string {
  return given.map((name) => `unknown field "${name}"; ${suggest(name, known)}`).join("\n");
}
