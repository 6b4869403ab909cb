import { readdirSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it, vi } from "vitest";
import { openSource } from "../../../src/ledger/copy/source.ts";
import { backUp } from "../../../src/ledger/sqlite/backup.ts";
import { connectToWrite, type Connection } from "../../../src/ledger/sqlite/connection.ts";
import { ledgerIn } from "../../../src/ledger/sqlite/maintenance.ts";
import { knownSchema } from "../../../src/ledger/sqlite/migrate.ts";
import { openStore, tempFolder, utc, type TempFolder } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";

/** Creates a ledger. Returns a function that changes its schema version to that of a later release. */
async function ledgerToUpgrade({ database }: TempFolder, owned: DisposableStack): Promise<() => void> {
  await (
    await openStore({ path: database, calendar: utc, clock: manualClock(0), access: "command" })
  )[Symbol.asyncDispose]();
  const other = owned.adopt(connectToWrite(database), (db) => void db.close());
  return () => void other.pragma(`user_version = ${knownSchema() + 1}`);
}

const newerSchema = {
  ok: false,
  failure: { kind: "newer_schema", found: knownSchema() + 1, known: knownSchema() },
};

it("refuses a ledger that a later release upgrades while the backup begins", async () => {
  using folder = tempFolder();
  using owned = new DisposableStack();
  const upgrade = await ledgerToUpgrade(folder, owned);
  const { exec } = Database.prototype;
  using _ = vi.spyOn(Database.prototype, "exec").mockImplementation(function (this: Connection, sql) {
    if (sql === "begin") upgrade();
    return exec.call(this, sql);
  });

  const result = await backUp({ path: folder.database, file: join(folder.path, "backup.db"), calendar: utc });
  expect(result).toEqual(newerSchema);
  expect(readdirSync(folder.path).filter((name) => name.startsWith("backup"))).toEqual([]);
});

it.each(["read", "write", "copy"] as const)(
  "refuses a ledger that a later release upgrades while it is opened again: %s",
  async (access) => {
    using folder = tempFolder();
    using owned = new DisposableStack();
    const upgrade = await ledgerToUpgrade(folder, owned);
    const { close } = Database.prototype;
    using _ = vi.spyOn(Database.prototype, "close").mockImplementation(function (this: Connection) {
      upgrade();
      return close.call(this);
    });

    const work = vi.fn(async () => {});
    await using copying = new AsyncDisposableStack();
    const result =
      access === "copy"
        ? openSource(folder.database, copying)
        : await ledgerIn(folder.database)(work, { calendar: utc, access });
    expect(result).toEqual(newerSchema);
    expect(work).not.toHaveBeenCalled();
  },
);
