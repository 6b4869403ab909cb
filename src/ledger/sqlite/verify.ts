import type { Verification } from "../../ports/ledger.ts";
import { verifyLedger, type VerifyOptions } from "../audit/verify-ledger.ts";
import { sqliteDialect } from "../queries/dialects.ts";
import { answer } from "./answer.ts";
import type { Connection } from "./connection.ts";
import { eachRow } from "../audit/feed.ts";
import type { Report } from "../audit/findings.ts";
import type { Query } from "../queries/query.ts";

/** Implements `LedgerMaintenance.verify`. The write-ahead log grows with each write until the verification ends. */
export function verify(db: Connection, options: VerifyOptions): Verification {
  return answer(db, verifyLedger(sqliteDialect, options, checkDanglingLinks));
}

interface LinkRow {
  readonly charge: bigint;
  readonly window: bigint;
  readonly id: string | null;
}

/**
 * Reports links whose charge is missing, and links of settled charges whose window is missing. SQLite reuses row
 * numbers, so another charge could get such a link. `WindowCheck` checks the links of pending charges.
 */
function* checkDanglingLinks(report: Report): Query<void> {
  yield* eachRow<LinkRow>(
    `select charge, window, charges.id from charge_windows left join charges on charges.seq = charge
     where (charges.seq is null or not exists (select 1 from windows where windows.seq = window)) and charges.state is not 'pending'`,
    ({ charge, window, id }) =>
      report({
        kind: "link",
        id: id ?? String(charge),
        expected: "a charge and its window",
        found: id === null ? `no charge ${charge}` : `no window ${window}`,
        derived: { of: "links", charge: Number(charge) },
      }),
  );
}
