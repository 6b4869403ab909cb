import { horizons, prunePreview, type Pruned, type PruneOptions } from "../pruning.ts";
import { answer } from "./answer.ts";
import { connectToRead, connectToWrite } from "./connection.ts";
import { guarded, openCurrent, type CopyFailure } from "./backup.ts";
import { storedCalendar } from "./open.ts";
import { prune } from "./prune.ts";

export interface PruneFileOptions extends Omit<PruneOptions, "onProgress"> {
  readonly path: string;
  /** Only counts. */
  readonly dryRun: boolean;
  /** Told the share of the charges that is done, 0 to 1. */
  readonly onProgress?: (share: number) => void;
}

export type PruneFileResult =
  | { readonly ok: true; readonly pruned: Pruned }
  | { readonly ok: false; readonly failure: CopyFailure };

/** Prunes the ledger of a path, in the zone that is stored in it, with or without a running proxy. */
export async function pruneFile({ path, dryRun, onProgress, ...options }: PruneFileOptions): Promise<PruneFileResult> {
  return await guarded<PruneFileResult>(async () => {
    const looked = openCurrent(path);
    if (!looked.ok) return looked;
    looked.db.close();
    const db = dryRun ? connectToRead(path) : connectToWrite(path);
    try {
      const inZone = { ...options, calendar: storedCalendar(db, options.calendar) };
      const preview = answer(db, prunePreview(horizons(inZone)));
      if (dryRun) return { ok: true, pruned: preview };
      const onStep = (charges: number) => onProgress?.(Math.min(charges / Math.max(preview.charges, 1), 1));
      return { ok: true, pruned: await prune(db, { ...inZone, onProgress: onStep }) };
    } finally {
      db.close();
    }
  });
}
