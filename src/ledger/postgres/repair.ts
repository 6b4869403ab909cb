import type { PostgresServer } from "../../core/postgres-url.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { Verification } from "../../ports/ledger.ts";
import { repairRow } from "../audit/repair-row.ts";
import { repairLedger, type RepairLedgerOptions } from "../audit/repair-ledger.ts";
import { postgresDialect } from "../queries/dialects.ts";
import type { OpenFailure } from "../store.ts";
import { answer } from "./answer.ts";
import { lockBudgets } from "./budgets.ts";
import { storedCalendar } from "./time-zone.ts";
import { onLedger } from "./maintenance.ts";
import { verify } from "./verify.ts";

export interface RepairServerOptions extends RepairLedgerOptions {
  readonly server: PostgresServer;
  /** Time zone for a ledger that stores none yet. */
  readonly calendar: Calendar;
}

export type RepairServerResult =
  /** `verification`: of the repaired ledger. */
  { readonly ok: true; readonly verification: Verification } | { readonly ok: false; readonly failure: OpenFailure };

/** Repairs the ledger on a server, with or without running proxies. They wait for one row at a time. */
export async function repairServer({ server, ...options }: RepairServerOptions): Promise<RepairServerResult> {
  return await onLedger<RepairServerResult>(server, async (database) => {
    const calendar = await storedCalendar(database, options.calendar);
    const verification = await repairLedger(
      {
        verify: (on) => verify(database, { calendar, ...on }),
        repairRow: (derived) =>
          database.transaction(async (db) => {
            await lockBudgets(db);
            return await answer(db, repairRow(postgresDialect, calendar, derived));
          }),
      },
      options,
    );
    return { ok: true, verification };
  });
}
