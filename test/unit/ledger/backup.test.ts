import { readdirSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it, vi } from "vitest";
import { backUp } from "../../../src/ledger/sqlite/backup.ts";
import { connectToWrite, type Connection } from "../../../src/ledger/sqlite/connection.ts";
import { knownSchema } from "../../../src/ledger/sqlite/migrate.ts";
import { openStore, tempFolder, utc } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";

it("refuses a ledger that a later release upgrades while the backup begins", async () => {
  using folder = tempFolder();
  await (
    await openStore({ path: folder.database, calendar: utc, clock: manualClock(0), access: "command" })
  )[Symbol.asyncDispose]();
  using owned = new DisposableStack();
  const other = owned.adopt(connectToWrite(folder.database), (db) => void db.close());
  const { exec } = Database.prototype;
  using _ = vi.spyOn(Database.prototype, "exec").mockImplementation(function (this: Connection, sql) {
    if (sql === "begin") other.pragma(`user_version = ${knownSchema() + 1}`);
    return exec.call(this, sql);
  });

  const result = await backUp({ path: folder.database, file: join(folder.path, "backup.db"), calendar: utc });
  expect(result).toEqual({
    ok: false,
    failure: { kind: "newer_schema", found: knownSchema() + 1, known: knownSchema() },
  });
  expect(readdirSync(folder.path).filter((name) => name.startsWith("backup"))).toEqual([]);
});
