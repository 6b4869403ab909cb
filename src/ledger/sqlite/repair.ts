import type { Calendar } from "../../ports/calendar.ts";
import type { Verification } from "../../ports/ledger.ts";
import { repairRow } from "../audit/repair-row.ts";
import { repairing, type RepairingOptions } from "../audit/repairing.ts";
import { sqliteDialect } from "../queries/dialects.ts";
import { answer } from "./answer.ts";
import { guarded, openCurrent, type CopyFailure } from "./backup.ts";
import { connectToWrite, writeTransaction } from "./connection.ts";
import { storedCalendar } from "./open.ts";
import { verify } from "./verify.ts";

export interface RepairOptions extends RepairingOptions {
  readonly path: string;
  /** The zone of a ledger that has none stored yet. */
  readonly calendar: Calendar;
}

export type RepairResult =
  /** `verification`: of the repaired ledger. */
  { readonly ok: true; readonly verification: Verification } | { readonly ok: false; readonly failure: CopyFailure };

/** Repairs the ledger at a path, with or without a running proxy. */
export async function repair(options: RepairOptions): Promise<RepairResult> {
  return await guarded<RepairResult>(async () => {
    const looked = openCurrent(options.path);
    if (!looked.ok) return looked;
    looked.db.close();
    const db = connectToWrite(options.path);
    try {
      const calendar = storedCalendar(db, options.calendar);
      const verification = await repairing(
        {
          verify: (on) => verify(db, { calendar, ...on }),
          repairRow: (derived) => writeTransaction(db, () => answer(db, repairRow(sqliteDialect, calendar, derived))),
        },
        options,
      );
      return { ok: true, verification };
    } finally {
      db.close();
    }
  });
}
