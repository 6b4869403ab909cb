import type { PostgresServer } from "../../core/postgres-url.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { Verification } from "../../ports/ledger.ts";
import { mend } from "../audit/mend.ts";
import { repairing, type RepairingOptions } from "../audit/repairing.ts";
import { postgresDialect } from "../reading/dialects.ts";
import type { OpenFailure } from "../store.ts";
import { answer } from "./answer.ts";
import { lockBudgets } from "./budgets.ts";
import { storedCalendar } from "./stored-calendar.ts";
import { onLedger } from "./upkeep.ts";
import { verify } from "./verify.ts";

export interface RepairServerOptions extends RepairingOptions {
  readonly server: PostgresServer;
  /** The zone of a ledger that has none stored yet. */
  readonly calendar: Calendar;
}

export type RepairServerResult =
  /** `verification` is of the ledger as it is afterwards. */
  { readonly ok: true; readonly verification: Verification } | { readonly ok: false; readonly failure: OpenFailure };

/** Repairs the ledger on a server, beside running proxies or alone: they wait for each row that is made anew, one at a time. */
export async function repairServer({ server, ...options }: RepairServerOptions): Promise<RepairServerResult> {
  return await onLedger<RepairServerResult>(server, async (database) => {
    const calendar = await storedCalendar(database, options.calendar);
    const verification = await repairing(
      {
        verify: (on) => verify(database, { calendar, ...on }),
        mend: (derived) =>
          database.transaction(async (db) => {
            await lockBudgets(db);
            return await answer(db, mend(postgresDialect, calendar, derived));
          }),
      },
      options,
    );
    return { ok: true, verification };
  });
}
