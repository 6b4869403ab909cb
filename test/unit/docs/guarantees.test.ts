import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { doubts } from "../../../src/core/usage.ts";
import { doubtPhrases } from "../../../src/reporting/charges.ts";

const root = new URL("../../../", import.meta.url);
const page = readFileSync(new URL("docs/guarantees.md", root), "utf8");
const { scripts } = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as {
  scripts: Record<string, string>;
};

interface Promised {
  readonly promise: string;
  readonly proof: string;
  readonly cells: readonly string[];
}

/** The rows of the table of promises. */
const promises: Promised[] = page
  .split("\n")
  .filter((line) => line.startsWith("| **"))
  .map((line) => {
    const cells = line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim());
    return { promise: /^\*\*(.+?)\*\*/.exec(cells[0] ?? "")?.[1] ?? line, proof: cells[2] ?? "", cells };
  });

describe("docs/guarantees.md", () => {
  it("has promises", () => {
    expect(promises.length).toBeGreaterThan(15);
    expect(new Set(promises.map(({ promise }) => promise)).size).toBe(promises.length);
  });

  it.each(promises)(
    "$promise: says what it does not cover, what proves it, and what that showed last, with its day",
    ({ cells }) => {
      expect(cells).toHaveLength(4);
      expect(cells.filter((cell) => cell === "")).toEqual([]);
      expect(cells[3]).toMatch(/\d{4}-\d{2}-\d{2}$/);
    },
  );

  it("says of each doubt what it means, in the words of the product", () => {
    const rows = page
      .split("\n")
      .filter((line) => /^\| `[a-z_]+` \| /.test(line))
      .map((line) => line.split(" | ").slice(0, 2));
    expect(rows).toEqual(doubts.map((doubt) => [`| \`${doubt}\``, doubtPhrases[doubt]]));
  });

  it.each(promises)("$promise: its proof is there", ({ proof }) => {
    const files = [...proof.matchAll(/`((?:test|bench|docs)\/[^\s`]*)`/g)].map(([, path = ""]) => path);
    const runs = [...proof.matchAll(/`npm run ([\w:-]+)/g)].map(([, name = ""]) => name);
    const commands = [...proof.matchAll(/`farebox ([a-z]+)/g)].map(([, name = ""]) => name);
    expect(files.length + runs.length + commands.length).toBeGreaterThan(0);
    expect(files.filter((path) => !existsSync(new URL(path, root)))).toEqual([]);
    expect(runs.filter((name) => !Object.hasOwn(scripts, name))).toEqual([]);
    expect(commands.filter((name) => !existsSync(new URL(`src/cli/${name}.ts`, root)))).toEqual([]);
  });
});
