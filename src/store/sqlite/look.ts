import { accessSync, constants, existsSync } from "node:fs";
import Database from "better-sqlite3";
import { isStorageFault } from "./connection.ts";
import { guarded, openKnown, type CopyFailure } from "./backup.ts";
import { knownSchema } from "./migrate.ts";

/** What there is to know of a ledger's file without changing it. */
export interface LedgerLook {
  readonly schema: number;
  readonly known: number;
  /** The zone of windows and days; null where no store was opened on it yet. */
  readonly timeZone: string | null;
  readonly pending: { readonly count: number; readonly oldestAt: number | null };
  /** Whether a `serve` runs on it. */
  readonly isServed: boolean;
}

export type LookResult = { readonly ok: true; readonly look: LedgerLook } | { readonly ok: false; readonly failure: CopyFailure };

/** Looks at a ledger; takes its write lock for a moment, if this user may write, and leaves nothing beside it. */
export async function lookAt(path: string): Promise<LookResult> {
  return await guarded<LookResult>(async () => {
    const looked = openKnown(path, mayWrite(path) ? "write" : "read");
    if (!looked.ok) return looked;
    const { db, schema } = looked;
    try {
      if (mayWrite(path)) db.exec("begin immediate; rollback");
      const timeZone = db.prepare("select time_zone from meta").pluck().get() as string | null;
      const [count, oldestAt] = db
        .prepare("select count(*), min(admitted_at) from charges where state = 'pending'")
        .raw()
        .get() as [number, number | null];
      return { ok: true, look: { schema, known: knownSchema(), timeZone, pending: { count, oldestAt }, isServed: isServed(path) } };
    } finally {
      db.close();
    }
  });
}

export function mayWrite(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Whether the lock of a running proxy is taken. It is only tried for reading, and where there is one. */
function isServed(path: string): boolean {
  const lockPath = `${path}-serve`;
  if (!existsSync(lockPath)) return false;
  const lock = new Database(lockPath, { readonly: true, timeout: 0, fileMustExist: true });
  try {
    lock.prepare("select count(*) from sqlite_schema").get();
    return false;
  } catch (error) {
    if (isStorageFault(error)) return error.code.startsWith("SQLITE_BUSY");
    throw error;
  } finally {
    lock.close();
  }
}
