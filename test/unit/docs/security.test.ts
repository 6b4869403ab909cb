import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { checkout, documents } from "../../support/documents.ts";

/** Rows of the threat model's tables: attacker, control and tests. */
const controls = (documents.get("SECURITY.md") ?? "")
  .split("\n")
  .filter((line) => line.startsWith("| ") && line.includes("`test/"))
  .map((line) => line.split(" | "));

it("every control of the threat model names existing tests", () => {
  expect(controls.length).toBeGreaterThan(30);
  const faults = controls.flatMap(([attacker = "", control = "", tests = "", ...more]) => {
    const files = [...tests.matchAll(/`([^`]+)`/g)].map(([, file = ""]) => file);
    const missing = files.filter((file) => !/^test\/.*\.test\.ts$/.test(file) || !existsSync(checkout + file));
    return files.length === 0 || control === "" || more.length > 0 || missing.length > 0 ? [[attacker, missing]] : [];
  });
  expect(faults).toEqual([]);
});

it("every row of a controls table has tests", () => {
  const model = (documents.get("SECURITY.md") ?? "").split("\n| attacker | control | test |\n|---|---|---|\n").slice(1);
  const rows = model.flatMap((table) => (table.split("\n\n")[0] ?? "").split("\n"));
  expect(rows.filter((row) => row !== "").length).toBe(controls.length);
});

it("every controls table follows a sentence about the protected assets", () => {
  const sections = (documents.get("SECURITY.md") ?? "").split("\n### ").slice(1);
  expect(sections.length).toBeGreaterThan(7);
  const assets = /^[^\n]+\n\nThe assets? (?:is|are) [^\n]+\n(?:[^\n]+\n)*\n\| attacker \| control \| test \|\n/;
  expect(sections.filter((section) => !assets.test(section)).map((section) => section.split("\n")[0])).toEqual([]);
});
