import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import Database from "better-sqlite3";
import { describe, expect, it, vi } from "vitest";
import { connectUnderOneName } from "../../../src/ledger/sqlite/one-name.ts";
import { openStore, tempFolder, utc } from "../../support/ledger-fixtures.ts";
import { systemClock } from "../../../src/platform/clock.ts";

/** Returns the bytes of a closed ledger, which is one file without a log next to it. */
async function closedLedger(path: string): Promise<Buffer> {
  await (await openStore({ path, calendar: utc, clock: systemClock(), access: "command" }))[Symbol.asyncDispose]();
  return readFileSync(path);
}

describe("a ledger into which another process is copying its write-ahead log", () => {
  it("is read again, because it may be complete a moment later", async () => {
    using folder = tempFolder();
    const whole = await closedLedger(folder.database);
    truncateSync(folder.database, whole.length - 4096);
    let queries = 0;
    const connect = () => {
      const db = new Database(folder.database, { fileMustExist: true });
      const pragma = db.pragma.bind(db);
      db.pragma = (...asked) => {
        try {
          queries++;
          return pragma(...asked);
        } finally {
          writeFileSync(folder.database, whole);
        }
      };
      return db;
    };
    // The time in which it is read again does not end.
    using _ = vi.spyOn(performance, "now").mockReturnValue(0);
    const db = connectUnderOneName(folder.database, "read", connect);
    expect(queries).toBe(1);
    expect(db.prepare("select count(*) from charges").pluck().get()).toBe(0);
    db.close();
  });

  it("is reported as malformed if it stays incomplete", async () => {
    using folder = tempFolder();
    const whole = await closedLedger(folder.database);
    truncateSync(folder.database, whole.length - 4096);
    const connect = () => new Database(folder.database, { fileMustExist: true });
    expect(() => connectUnderOneName(folder.database, "read", connect)).toThrow("database disk image is malformed");
  });
});
