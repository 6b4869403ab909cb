/** Mutants of a file as Stryker reports them. Lines and columns count from 1. */
export interface ReportedFile {
  readonly source: string;
  readonly mutants: readonly Mutant[];
}

export interface Mutant {
  readonly status:
    | "Killed"
    | "Timeout"
    | "Survived"
    | "NoCoverage"
    | "CompileError"
    | "RuntimeError"
    | "Ignored"
    | "Pending";
  readonly replacement?: string;
  readonly statusReason?: string;
  readonly location: { readonly start: Place; readonly end: Place };
}

interface Place {
  readonly line: number;
  readonly column: number;
}

/** Survivors in one file that have the same reason. */
export interface Accepted {
  /** Mutants as `describeMutant` names them. */
  readonly mutants: readonly string[];
  /** Reason why no test can distinguish the mutant from the original; if `isEquivalent` is false, why no test does so. */
  readonly why: string;
  readonly isEquivalent?: false;
}

const lengthMax = 100;

/** Names a mutant by its declaration, its text and the replacement, because line numbers and formatting change. */
export function describeMutant(source: string, { location: { start, end }, replacement = "" }: Mutant): string {
  const lines = source.split("\n");
  const declared = lines.slice(0, start.line).findLast((line) => declaration.test(line));
  const name = declaration.exec(declared ?? "")?.[1] ?? "the file";
  const text = source.slice(offsetOf(lines, start), offsetOf(lines, end));
  return `${name}: ${plain(text)} → ${plain(replacement)}`;
}

/** Matches the first line of a declaration of code that runs. The group is the declared name. */
export const declaration = /^(?:export )?(?:async )?(?:function|class|const) ([\w$]+)/;

function offsetOf(lines: readonly string[], { line, column }: Place): number {
  return lines.slice(0, line - 1).reduce((sum, { length }) => sum + length + 1, 0) + column - 1;
}

/** Returns the text on one line, without differences that a formatter makes. */
function plain(text: string): string {
  const line = text
    .replace(/\s+/g, " ")
    .replace(/ ([,;])/g, "$1")
    .replace(/,? ?([)\]}])/g, "$1")
    .replace(/([([{]) /g, "$1");
  return line.length > lengthMax ? `${line.slice(0, lengthMax)}…` : line;
}

export interface Verdict {
  readonly killed: number;
  readonly equivalent: number;
  /** Number of listed survivors that are not equivalent. */
  readonly accepted: number;
  /** Survivors that are not listed. */
  readonly unlisted: readonly string[];
  /** Listed mutants that were killed, or that no longer exist. */
  readonly gone: readonly string[];
  /** Mutants that could not be judged. */
  readonly broken: readonly string[];
}

/** Returns true for a mutant that makes a test fail, or that throws when a test imports it. */
function failsTest({ status, statusReason = "" }: Mutant): boolean {
  return (
    status === "Killed" ||
    (status === "RuntimeError" && statusReason.startsWith("An error occurred outside of a test run: "))
  );
}

/** Compares a file's mutants with the survivors that are listed for the file. A name that is listed twice stands for two mutants. */
export function judge({ source, mutants }: ReportedFile, listed: readonly Accepted[]): Verdict {
  const counts = { killed: 0, equivalent: 0, accepted: 0 };
  const [unlisted, broken]: [string[], string[]] = [[], []];
  const left = listed.flatMap((accepted) =>
    accepted.mutants.map((name) => ({ name, isEquivalent: accepted.isEquivalent ?? true })),
  );
  // Of two mutants with the same name, the listed one is the survivor, not the slow one.
  const isSlow = ({ status }: Mutant) => status === "Timeout";
  for (const mutant of [...mutants.filter((each) => !isSlow(each)), ...mutants.filter(isSlow)]) {
    const name = describeMutant(source, mutant);
    const index = left.findIndex((each) => each.name === name);
    // A mutant that never ends counts as killed. A listed mutant was only slow on a busy machine.
    if (failsTest(mutant) || (isSlow(mutant) && index < 0)) counts.killed += 1;
    else if (!["Survived", "NoCoverage", "Timeout"].includes(mutant.status))
      broken.push(`${name} (${mutant.status}: ${mutant.statusReason ?? "no reason"})`);
    else {
      const [found] = index < 0 ? [] : left.splice(index, 1);
      if (found === undefined) unlisted.push(name);
      else counts[found.isEquivalent ? "equivalent" : "accepted"] += 1;
    }
  }
  return { ...counts, unlisted, gone: left.map(({ name }) => name), broken };
}
