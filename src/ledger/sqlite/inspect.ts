import { accessSync, constants } from "node:fs";
import { guarded, openKnown, type CopyFailure } from "./backup.ts";
import { knownSchema } from "./migrate.ts";
import { isServed } from "./open.ts";
import { runsTask } from "../tables/tasks.ts";

/** First schema version with tasks. */
const tasksSince = 11;

/** State of a ledger's file, read without changing it. */
export interface FileState {
  readonly schema: number;
  readonly known: number;
  /** Time zone of windows and days; null before the first store was opened on it. */
  readonly timeZone: string | null;
  /** Excludes tasks that are known to run. */
  readonly pending: { readonly count: number; readonly oldestAt: number | null };
  /** True if a `serve` runs on it. */
  readonly isServed: boolean;
}

export type FileInspection =
  | { readonly ok: true; readonly state: FileState }
  | { readonly ok: false; readonly failure: CopyFailure };

/**
 * Reads the state of a ledger. Takes its write lock for a moment if this user may write, and leaves no file next to it.
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
        // A known task may run for a day.
        .prepare(
          `select count(*), min(admitted_at) from charges where state = 'pending'${schema < tasksSince ? "" : ` and not ${runsTask}`}`,
        )
        .raw()
        .get() as [number, number | null];
      return {
        ok: true,
        state: { schema, known: knownSchema(), timeZone, pending: { count, oldestAt }, isServed: isServed(path) },
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
