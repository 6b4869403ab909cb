import type { Calendar } from "../../ports/calendar.ts";
import type { Verification } from "../../ports/ledger.ts";
import { repairRow } from "../audit/repair-row.ts";
import { repairLedger, type RepairLedgerOptions } from "../audit/repair-ledger.ts";
import { sqliteDialect } from "../queries/dialects.ts";
import { answer } from "./answer.ts";
import { guarded, openCurrent, type CopyFailure } from "./backup.ts";
import { connectToWrite, writeTransaction } from "./connection.ts";
import { storedCalendar } from "./open.ts";
import { verify } from "./verify.ts";

export interface RepairOptions extends RepairLedgerOptions {
  readonly path: string;
  /** Time zone for a ledger that stores none yet. */
  readonly calendar: Calendar;
}

export type RepairResult =
  /** `verification`: of the repaired ledger. */
  { readonly ok: true; readonly verification: Verification } | { readonly ok: false; readonly failure: CopyFailure };

/** Repairs the ledger at a path, with or without a running proxy. */
export async function repair(options: RepairOptions): Promise<RepairResult> {
  return await guarded<RepairResult>(async () => {
    const opened = openCurrent(options.path);
    if (!opened.ok) return opened;
    opened.db.close();
    const db = connectToWrite(options.path);
    try {
      const calendar = storedCalendar(db, options.calendar);
      const verification = await repairLedger(
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
