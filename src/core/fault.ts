/** A fault in a user's file, with its position. The message says how to fix it. Lines and columns count from 1. */
export interface Fault {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** Values read from a user's files, or the faults of the files. */
export type OrFaults<Values> =
  | ({ readonly ok: true } & Readonly<Values>)
  | { readonly ok: false; readonly faults: readonly Fault[] };

/** Values, or the reason why there are none. */
export type OrProblem<Values> =
  | ({ readonly ok: true } & Readonly<Values>)
  | { readonly ok: false; readonly problem: string };

/** Returns the message of a caught error. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Formats a fault as one line for people and editors: `pricing/openai.yaml:12:7: unknown field "outptu"; did you mean
 * "output"?`
 */
export function formatFault(fault: Fault): string {
  return `${fault.file}:${fault.line}:${fault.column}: ${fault.message}`;
}

/** Largest distance between two names that count as similar. */
const distanceMax = 3;

/** Returns the known names that are similar to a mistyped name, most similar first. */
export function nearest(given: string, known: readonly string[]): string[] {
  return known
    .filter((name) => Math.abs(name.length - given.length) <= distanceMax)
    .map((name) => ({ name, distance: editDistance(given.toLowerCase(), name.toLowerCase()) }))
    .filter(
      ({ name, distance }) => distance <= Math.min(distanceMax, Math.floor(Math.max(given.length, name.length) * 0.4)),
    )
    .sort((a, b) => a.distance - b.distance)
    .map(({ name }) => name);
}

/** Returns `did you mean "x"?`, or the list of valid names if none is similar. For use after a semicolon. */
export function suggest(given: string, known: readonly string[]): string {
  const [near] = nearest(given, known);
  if (near !== undefined) return `did you mean "${near}"?`;
  return known.length === 0 ? "no name is valid here" : `valid names are ${known.join(", ")}`;
}

/** Returns `; did you mean "x"?` for the most similar known name. Returns "" if none is similar. */
export function didYouMean(given: unknown, known: readonly unknown[]): string {
  if (typeof given !== "string") return "";
  const [near] = nearest(
    given,
    known.filter((name) => typeof name === "string"),
  );
  return near === undefined ? "" : `; did you mean ${JSON.stringify(near)}?`;
}

/**
 * Returns `didYouMean` for a schema's fault if the schema lists the valid values, otherwise "". Needs zod's
 * `reportInput`.
 */
export function meantValue(issue: {
  readonly code?: string;
  readonly input?: unknown;
  readonly values?: unknown;
}): string {
  return issue.code === "invalid_value" && Array.isArray(issue.values) ? didYouMean(issue.input, issue.values) : "";
}

/**
 * Returns one line for each of these unknown fields of a block, with a suggestion or the known fields. `advice` says
 * what to write instead of a field that belongs elsewhere.
 */
export function unknownFields(
  unknown: readonly string[],
  known: readonly string[],
  advice: Readonly<Record<string, string>> = {},
): string {
  const begun = (name: string) => known.find((other) => name.length > 2 && other.startsWith(name));
  return unknown
    .map((name) => {
      const glued = known.find((other) => name.startsWith(`${other}:`));
      if (glued !== undefined) return `unknown field ${JSON.stringify(name)}; write a space after "${glued}:"`;
      const meant = begun(name);
      const instead = Object.hasOwn(advice, name) ? advice[name] : meant && `did you mean "${meant}"?`;
      return `unknown field "${name}"; ${instead ?? suggest(name, known)}`;
    })
    .join("\n");
}

/**
 * Returns the distance between two short names: the smallest number of edits that turn one into the other. An edit
 * inserts, removes or replaces a letter, or swaps two adjacent letters.
 */
export function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  let beforePrevious = previous;
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const replaced = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      const isSwapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      const swapped = isSwapped ? (beforePrevious[column - 2] ?? 0) + 1 : replaced;
      current.push(Math.min(replaced, swapped, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    beforePrevious = previous;
    previous = current;
  }
  return previous[b.length] ?? 0;
}
