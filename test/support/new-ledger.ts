import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectToWrite, createPrivateFile } from "../../src/ledger/sqlite/connection.ts";
import { migrate } from "../../src/ledger/sqlite/migrate.ts";

let empty: Buffer | null = null;

/**
 * Writes an empty ledger if the file does not exist. Migrates once and copies the result, because migrations take half
 * of a proxy's start.
 */
export function writeEmptyLedger(path: string): void {
  if (existsSync(path)) return;
  empty ??= migratedLedger();
  writeFileSync(path, empty, { mode: 0o600 });
}

function migratedLedger(): Buffer {
  const folder = mkdtempSync(join(tmpdir(), "farebox-empty-"));
  try {
    const path = join(folder, "ledger.db");
    createPrivateFile(path);
    const db = connectToWrite(path);
    migrate(db);
    db.close();
    return readFileSync(path);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
