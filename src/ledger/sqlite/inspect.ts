import { accessSync, constants } from "node:fs";
import { guarded, openKnown, type CopyFailure } from "./backup.ts";
import { knownSchema } from "./migrate.ts";
import { isServed } from "./open.ts";
import { runsTask } from "../tables/tasks.ts";

/** The schema that has tasks. */
const tasksSince = 11;

/** What there is to know of a ledger's file without changing it. */
export interface FileState {
  readonly schema: number;
  readonly known: number;
  /** The zone of windows and days; null where no store was opened on it yet. */
  readonly timeZone: string | null;
  /** Tasks that are known to run are left out. */
  readonly pending: { readonly count: number; readonly oldestAt: number | null };
  /** Whether a `serve` runs on it. */
  readonly isServed: boolean;
}

export type FileInspection =
  | { readonly ok: true; readonly state: FileState }
  | { readonly ok: false; readonly failure: CopyFailure };

/** Looks at a ledger; takes its write lock for a moment, if this user may write, and leaves nothing beside it. */
export async function inspectFile(path: string): Promise<FileInspection> {
  return await guarded<FileInspection>(async () => {
    const inspected = openKnown(path, mayWrite(path) ? "write" : "read");
    if (!inspected.ok) return inspected;
    const { db, schema } = inspected;
    try {
      if (mayWrite(path)) db.exec("begin immediate; rollback");
      const timeZone = db.prepare("select time_zone from meta").pluck().get() as string | null;
      const [count, oldestAt] = db
        // A task that is known may run for a day.
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
