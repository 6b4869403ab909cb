import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { migrationsOf } from "../../../src/ledger/migrations.ts";
import { connectToWrite, createPrivateFile } from "../../../src/ledger/sqlite/connection.ts";
import { knownSchema, migrate } from "../../../src/ledger/sqlite/migrate.ts";
import { oldLedgers } from "../../fixtures/old-ledgers/ledgers.ts";
import { harness } from "../../support/cli-harness.ts";
import { tempFolder } from "../../support/ledger-fixtures.ts";
import {
  expectSessionsUpgraded,
  expectUpgrade,
  oldLedgerSql,
  sessionsWithoutSecrets,
} from "../../support/old-ledgers.ts";

const ledgers = oldLedgers.filter(({ engine }) => engine === "sqlite");

/** Returns every column and index of a ledger, independent of the order in which they were added. */
function partsOf(path: string): unknown[] {
  const db = new Database(path, { readonly: true });
  const sql = `select type, name, coalesce((select group_concat(name || type, ',' order by name) from pragma_table_info(schema.name)), '') as columns
    from sqlite_schema as schema where name not like 'sqlite_%' order by name`;
  const parts = db.prepare(sql).all();
  db.close();
  return parts;
}

/** Returns the columns and indexes of a new ledger. */
function newParts(): unknown[] {
  using folder = tempFolder();
  createPrivateFile(folder.database);
  const db = connectToWrite(folder.database);
  migrate(db);
  db.close();
  return partsOf(folder.database);
}

it.each(ledgers)(
  "an upgrade of the ledger $name keeps its reports, verifies, and accepts new requests",
  async (ledger) => {
    using folder = tempFolder();
    const db = new Database(folder.database);
    db.exec(oldLedgerSql(ledger));
    expect(db.pragma("user_version", { simple: true })).toBe(ledger.schema);
    db.close();
    await expectUpgrade(ledger, folder.database, knownSchema());
    // It has the same parts as a new ledger.
    expect(partsOf(folder.database)).toEqual(newParts());
  },
);

it("an upgrade keeps the sessions of keys that were never rotated, and ends the others", async () => {
  using folder = tempFolder();
  const early = ledgers.find(({ name }) => name === "sqlite-16-run-sessions");
  const db = new Database(folder.database);
  db.exec(oldLedgerSql(early ?? expect.fail("no such ledger")));
  db.exec(sessionsWithoutSecrets());
  db.close();
  await expectSessionsUpgraded(folder.database);
});

it("an upgrade adds a column or index that a ledger of the current schema version lacks, after a backup", async () => {
  using folder = tempFolder();
  const early = ledgers.find(({ name }) => name === "sqlite-05-corrections");
  const db = new Database(folder.database);
  db.exec(oldLedgerSql(early ?? expect.fail("no such ledger")));
  // Applies only later migrations, as programs did that did not notice the missing part.
  for (const { version, sql } of migrationsOf("sqlite")) if (version > 5) db.exec(sql());
  db.pragma(`user_version = ${knownSchema()}`);
  db.close();
  using cli = harness();
  cli.env = { FAREBOX_DATABASE: folder.database };
  const { stdout } = await cli.run("db", "migrate");
  expect(stdout).toContain(
    `upgraded the ledger at ${folder.database}; its schema version is still ${knownSchema()}\nbackup from before the migration: `,
  );
  expect(partsOf(folder.database)).toEqual(newParts());
  expect(await cli.json("verify")).toMatchObject({ differences: [] });
});
