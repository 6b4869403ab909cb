import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { doubts } from "../../../src/core/usage.ts";
import { doubtPhrases } from "../../../src/reporting/charges.ts";

const root = new URL("../../../", import.meta.url);
const page = readFileSync(new URL("docs/guarantees.md", root), "utf8");
const { scripts } = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as {
  scripts: Record<string, string>;
};

interface Section {
  readonly title: string;
  readonly promise: string;
  readonly commands: readonly string[];
  /** Items by label. */
  readonly items: ReadonlyMap<string, string>;
}

/** Sections of the page, each with one promise. */
const sections: Section[] = page
  .slice(0, page.indexOf("\n## How an amount is known"))
  .split("\n### ")
  .slice(1)
  .map((section) => {
    const text = section.split("\n## ")[0] ?? "";
    const [title = "", promise = ""] = text.split("\n\n");
    const commands = (/```sh\n([^]*?)\n```/.exec(text)?.[1] ?? "").replaceAll(" \\\n", " ").split("\n");
    const items = text
      .split("\n- **")
      .slice(1)
      .map((item) => {
        const [, label = "", text = ""] = /^(.+?)\*\*(?: |:\s)([^]*)$/.exec(item) ?? [];
        return [label, text.trim()] as const;
      });
    return { title, promise, commands, items: new Map(items) };
  });

describe("docs/guarantees.md", () => {
  it("has promises with unique titles", () => {
    expect(sections.length).toBeGreaterThan(35);
    expect(new Set(sections.map(({ title }) => title)).size).toBe(sections.length);
  });

  it.each(sections)(
    "$title: states the promise, what is not covered, and the last result with its date",
    ({ promise, items }) => {
      expect(promise).toMatch(/^[^-][^]*\.$/);
      expect(items.get("Not covered")).toMatch(/\.$/);
      expect(items.get("Last result")).toMatch(/^\(\d{4}-\d{2}-\d{2}\): [^]+\.$/);
      expect([...items.keys()].filter((label) => !["Proof", "Last result", "Not covered"].includes(label))).toEqual([]);
    },
  );

  it("explains each doubt with the product's phrase", () => {
    const rows = page
      .split("\n")
      .filter((line) => /^\| `[a-z_]+` \| /.test(line))
      .map((line) => line.split(" | ").slice(0, 2));
    expect(rows).toEqual(doubts.map((doubt) => [`| \`${doubt}\``, doubtPhrases[doubt]]));
  });

  it.each(sections)("$title: its commands exist", ({ commands }) => {
    const files = commands.flatMap(
      (line) => /^(?:TEST_EFFORT=all )?npx vitest run (.*)$/.exec(line)?.[1]?.split(/\s+/) ?? [],
    );
    const runs = commands.flatMap((line) => /^npm run (?:--silent )?([\w:-]+)/.exec(line)?.[1] ?? []);
    const calls = commands.flatMap((line) => /^npm run --silent farebox -- ([a-z]+)/.exec(line)?.[1] ?? []);
    // In a checkout, a plain `farebox` may be missing or another version.
    const known = commands.filter((line) =>
      /^(?:(?:TEST_EFFORT=all )?npx vitest run|npm run (?!farebox)(?:--silent farebox -- )?[a-z])/.test(line),
    );
    expect(known).toEqual(commands);
    expect(files.filter((path) => !existsSync(new URL(path, root)))).toEqual([]);
    expect(runs.filter((name) => !Object.hasOwn(scripts, name))).toEqual([]);
    expect(calls.filter((name) => !existsSync(new URL(`src/cli/${name}.ts`, root)))).toEqual([]);
  });
});
