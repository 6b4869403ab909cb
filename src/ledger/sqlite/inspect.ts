import { accessSync, constants } from "node:fs";
import { guarded, openKnown, type CopyFailure } from "./backup.ts";
import { knownSchema } from "./migrate.ts";
import { isServed } from "./open.ts";
import { userScopesSql } from "../queries/scope-sql.ts";
import { runsTask } from "../tables/tasks.ts";

/** State of a ledger file. */
interface FileState {
  readonly schema: number;
  /** Schema version of this release. */
  readonly known: number;
  /** Time zone of windows and days; null if no proxy or command has stored one yet. */
  readonly timeZone: string | null;
  /** Pending charges, except those of tasks in the table `tasks`. */
  readonly pending: { readonly count: number; readonly oldestAt: number | null };
  /** Scopes of budgets on users; empty if the schema is older than this release's schema. */
  readonly userScopes: readonly string[];
  /** True if a proxy runs on the file. */
  readonly isServed: boolean;
}

type FileInspection =
  | { readonly ok: true; readonly state: FileState }
  | { readonly ok: false; readonly failure: CopyFailure };

/**
 * Reads the state of a ledger file. If this user may write the file, takes the write lock briefly, so that a lock of
 * another process is reported. Leaves no file next to the ledger.
 */
export async function inspectFile(path: string): Promise<FileInspection> {
  return await guarded<FileInspection>(async () => {
    const inspected = openKnown(path, mayWrite(path) ? "write" : "read");
    if (!inspected.ok) return inspected;
    const { db, schema } = inspected;
    try {
      if (mayWrite(path)) db.exec("begin immediate; rollback");
      const timeZone = db.prepare("select time_zone from meta").pluck().get() as string | null;
      const [count, oldestAt] = db
        // Excludes the charges of tasks, because a task may run for a day.
        .prepare(`select count(*), min(admitted_at) from charges where state = 'pending' and not ${runsTask}`)
        .raw()
        .get() as [number, number | null];
      const known = knownSchema();
      const userScopes = schema < known ? [] : (db.prepare(userScopesSql).pluck().all() as string[]);
      return {
        ok: true,
        state: { schema, known, timeZone, pending: { count, oldestAt }, userScopes, isServed: isServed(path) },
      };
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
