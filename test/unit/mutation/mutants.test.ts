import { describe, expect, it } from "vitest";
import { describeMutant, judge, type Accepted, type Mutant } from "../../mutation/mutants.ts";

const source = `import { a } from "a";

/** Adds. */
export function sum(one: number, other: number): number {
  return one + other;
}

const table = [
  1,
  2,
];

class Pair {
  both() {
    return (
      this.one &&
      this.other
    );
  }
}
`;

/** Returns the mutant that replaces a text of the source. */
function mutant(text: string, replacement: string, status: Mutant["status"] = "Survived"): Mutant {
  const place = (offset: number) => {
    const before = source.slice(0, offset).split("\n");
    return { line: before.length, column: (before.at(-1) ?? "").length + 1 };
  };
  const offset = source.indexOf(text);
  return { status, replacement, location: { start: place(offset), end: place(offset + text.length) } };
}

const plus = (status: Mutant["status"]) => mutant("one + other", "one - other", status);
const name = "sum: one + other → one - other";
const listed = (...mutants: string[]): Accepted => ({ mutants, why: "a reason" });

describe("a mutant", () => {
  it.each([
    [mutant("one + other", "one - other"), name],
    [mutant('"a"', '""'), 'the file: "a" → ""'],
    [mutant("[\n  1,\n  2,\n]", "[]"), "table: [1, 2] → []"],
    [mutant("this.one &&\n      this.other", "true"), "Pair: this.one && this.other → true"],
    [
      mutant(source.slice(source.indexOf("export")), "{}"),
      /^sum: export function sum\(one: number, other: number\): number \{return one \+ other;\} const table = .*… → \{\}$/,
    ],
  ])("has a name that no formatter changes (case %#)", (each, expected) => {
    expect(describeMutant(source, each)).toMatch(expected);
  });
});

describe("a file", () => {
  const nothing = { killed: 0, equivalent: 0, accepted: 0, unlisted: [], gone: [], broken: [] };
  it.each<[string, Mutant[], Accepted[], object]>([
    ["whose mutant is killed", [plus("Killed")], [], { killed: 1 }],
    ["whose mutant times out", [plus("Timeout")], [], { killed: 1 }],
    [
      "whose mutant throws where a test imports it",
      [{ ...plus("RuntimeError"), statusReason: "An error occurred outside of a test run: sum.test.ts: no number" }],
      [],
      { killed: 1 },
    ],
    ["whose mutant survives", [plus("Survived")], [], { unlisted: [name] }],
    ["that no test covers", [plus("NoCoverage")], [], { unlisted: [name] }],
    ["whose survivor is listed", [plus("Survived")], [listed(name)], { equivalent: 1 }],
    [
      "whose survivor is listed with another reason",
      [plus("NoCoverage")],
      [{ ...listed(name), isEquivalent: false }],
      { accepted: 1 },
    ],
    [
      "with two survivors of which one is listed",
      [plus("Survived"), plus("Survived")],
      [listed(name)],
      { equivalent: 1, unlisted: [name] },
    ],
    [
      "with two survivors that are both listed",
      [plus("Survived"), plus("Survived")],
      [listed(name, name)],
      { equivalent: 2 },
    ],
    ["whose listed survivor times out on a busy machine", [plus("Timeout")], [listed(name)], { equivalent: 1 }],
    [
      "with two mutants of one name, of which one times out and one is listed",
      [plus("Timeout"), plus("Survived")],
      [listed(name)],
      { killed: 1, equivalent: 1 },
    ],
    ["whose listed survivor is killed", [plus("Killed")], [listed(name)], { killed: 1, gone: [name] }],
    ["whose listed survivor no longer exists", [], [listed(name)], { gone: [name] }],
    [
      "whose mutant could not be judged",
      [{ ...plus("RuntimeError"), statusReason: "no module" }],
      [],
      { broken: [`${name} (RuntimeError: no module)`] },
    ],
    ["whose mutant was ignored", [plus("Ignored")], [], { broken: [`${name} (Ignored: no reason)`] }],
  ])("%s has the expected result", (_, mutants, accepted, expected) => {
    expect(judge({ source, mutants }, accepted)).toEqual({ ...nothing, ...expected });
  });
});
