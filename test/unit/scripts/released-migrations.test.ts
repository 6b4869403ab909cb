import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { migrationDigests, migrationFaults } from "../../../scripts/released-migrations.ts";

const migrations = fileURLToPath(new URL("../../../src/ledger/migrations", import.meta.url));

/** A folder with these migrations, for as long as `use` runs. */
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

it("the migrations of the last release are as they were released", () => {
  expect(
    migrationFaults(migrationDigests(migrations), JSON.parse(readFileSync(join(migrations, "released.json"), "utf8"))),
  ).toEqual([]);
});

it("every migration of the product is covered", () => {
  expect(Object.keys(migrationDigests(migrations))).toEqual(
    expect.arrayContaining(["postgres/001-ledger.sql", "sqlite/001-ledger.sql", "sqlite/013-doubts.sql"]),
  );
});

describe("released migrations", () => {
  it("may be followed by new ones, of each engine by its own numbers", () => {
    expect(faultsOf(first)).toEqual([]);
    expect(faultsOf({ ...first, "sqlite/005-new.sql": "", "postgres/002-new.sql": "" })).toEqual([]);
  });

  it("leave files without a number free: functions are applied again on upgrade", () => {
    expect(faultsOf({ ...first, "postgres/functions.sql": "create or replace function f() …" })).toEqual([]);
  });

  it.each([
    [
      "one that is edited, by a space only",
      { ...first, "sqlite/004-more.sql": "create table c (d) ;\n" },
      "the migration sqlite/004-more.sql was released and is edited; put it back, and make the change in a new one",
    ],
    [
      "one that is missing",
      { "sqlite/001-ledger.sql": first["sqlite/001-ledger.sql"], "sqlite/004-more.sql": first["sqlite/004-more.sql"] },
      "the migration postgres/001-ledger.sql was released and is missing; put it back, and undo it in a new one",
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
