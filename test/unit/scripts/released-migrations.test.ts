import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { migrationDigests, migrationFaults } from "../../../scripts/released-migrations.ts";

const migrations = fileURLToPath(new URL("../../../src/ledger/migrations", import.meta.url));

/** Calls `use` with a temporary folder that contains these migrations. */
function withFolder<Result>(files: Readonly<Record<string, string>>, use: (folder: string) => Result): Result {
  const folder = mkdtempSync(join(tmpdir(), "farebox-migrations-"));
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(folder, path, ".."), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    return use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const first = {
  "sqlite/001-ledger.sql": "create table a (b);\n",
  "sqlite/004-more.sql": "create table c (d);\n",
  "postgres/001-ledger.sql": "create table a (b int);\n",
};
const released = withFolder(first, migrationDigests);
const faultsOf = (files: Readonly<Record<string, string>>) =>
  migrationFaults(withFolder(files, migrationDigests), released);

it("the migrations of the last release are unchanged", () => {
  expect(
    migrationFaults(migrationDigests(migrations), JSON.parse(readFileSync(join(migrations, "released.json"), "utf8"))),
  ).toEqual([]);
});

/** Returns true if a changelog has a released version, although no release recorded its migrations. */
const isUnrecorded = (changelog: string, recorded: object) =>
  /^## \[?v?\d+\.\d+\.\d+/m.test(changelog) && Object.keys(recorded).length === 0;

it("a release that the changelog names has recorded its migrations", () => {
  const checkout = (path: string) => readFileSync(fileURLToPath(new URL(`../../../${path}`, import.meta.url)), "utf8");
  const recorded = JSON.parse(checkout("src/ledger/migrations/released.json"));
  expect(isUnrecorded(checkout("CHANGELOG.md"), recorded)).toBe(false);
});

it.each<[string, object, boolean]>([
  ["## Unreleased\n\n- A change in 1.0.0\n", {}, false],
  ["## Unreleased\n\n## 1.0.0 - 2026-12-01\n", {}, true],
  ["## [1.0.0] - 2026-12-01\n", {}, true],
  ["## v1.0.0\n", {}, true],
  ["## Unreleased\n\n## 1.0.0 - 2026-12-01\n", released, false],
])("the changelog %j with the record %j lacks a record: %s", (changelog, recorded, expected) => {
  expect(isUnrecorded(changelog, recorded)).toBe(expected);
});

it("the digests cover the product's migrations of both engines", () => {
  expect(Object.keys(migrationDigests(migrations))).toEqual(
    expect.arrayContaining(["postgres/016-ledger.sql", "sqlite/023-ledger.sql"]),
  );
});

describe("released migrations", () => {
  it("may be followed by new ones, which are numbered separately for each engine", () => {
    expect(faultsOf(first)).toEqual([]);
    expect(faultsOf({ ...first, "sqlite/005-new.sql": "", "postgres/002-new.sql": "" })).toEqual([]);
  });

  it("do not restrict files without a number, because functions are applied again on upgrade", () => {
    expect(faultsOf({ ...first, "postgres/functions.sql": "create or replace function f() …" })).toEqual([]);
  });

  it.each([
    [
      "an edit, even of a single space",
      { ...first, "sqlite/004-more.sql": "create table c (d) ;\n" },
      "the migration sqlite/004-more.sql was released, but is edited; restore it, and make the change in a new migration",
    ],
    [
      "a missing file",
      { "sqlite/001-ledger.sql": first["sqlite/001-ledger.sql"], "sqlite/004-more.sql": first["sqlite/004-more.sql"] },
      "the migration postgres/001-ledger.sql was released, but is missing; restore it, and undo it in a new migration",
    ],
    [
      "a new one with a number below the last",
      { ...first, "sqlite/003-late.sql": "" },
      "the new migration sqlite/003-late.sql would be skipped by ledgers of the last release; give it a number above 4",
    ],
    [
      "a new one with the number of the last",
      { ...first, "sqlite/004-twice.sql": "" },
      "the new migration sqlite/004-twice.sql would be skipped by ledgers of the last release; give it a number above 4",
    ],
  ])("refuse %s", (_, files, sentence) => {
    expect(faultsOf(files)).toEqual([sentence]);
  });
});
