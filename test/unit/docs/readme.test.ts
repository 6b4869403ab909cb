import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { configVariable, settingNames, settingOf, variableOf } from "../../../src/config/table.ts";

const readme = readFileSync(new URL("../../../README.md", import.meta.url), "utf8");

/** The variables named in the first cell of each row of the README's tables, in order. */
function documentedVariables(): string[] {
  const rows = readme.split("\n").filter((line) => /^\|\s*`FAREBOX_/.test(line));
  return rows.flatMap((row) => (row.split("|")[1] ?? "").match(/FAREBOX_[A-Z_]+/g) ?? []);
}

describe("the README's settings table", () => {
  it("names every setting, in the order of the table in code, and no other", () => {
    expect(documentedVariables().filter((name) => name !== configVariable)).toEqual(settingNames.map(variableOf));
  });

  it("states each default as it is", () => {
    for (const name of settingNames) {
      const row = readme
        .split("\n")
        .find((line) => line.startsWith("|") && line.split("|")[1]?.includes(`\`${variableOf(name)}\``));
      expect(row?.split("|")[2], variableOf(name)).toContain(settingOf(name).default ?? "none");
    }
  });

  it("tells of the settings file and of the files for secrets", () => {
    expect(readme).toContain(configVariable);
    expect(readme).toContain("_FILE");
  });
});
