import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { knownSchema } from "../../../src/store/sqlite/migrate.ts";
import { oldLedgers } from "../../fixtures/old-ledgers/ledgers.ts";
import { tempFolder } from "../../support/ledger-fixtures.ts";
import { expectUpgrade, oldLedgerSql } from "../../support/old-ledgers.ts";

const ledgers = oldLedgers.filter(({ engine }) => engine === "sqlite");

it.each(ledgers)("the ledger $name is upgraded: it verifies, reports the same and takes new requests", { timeout: 60_000 }, async (ledger) => {
  using folder = tempFolder();
  const db = new Database(folder.database);
  db.exec(oldLedgerSql(ledger));
  expect(db.pragma("user_version", { simple: true })).toBe(ledger.schema);
  db.close();
  await expectUpgrade(ledger, folder.database, knownSchema());
});
