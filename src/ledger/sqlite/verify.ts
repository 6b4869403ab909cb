import type { Verification } from "../../ports/ledger.ts";
import { verifyLedger, type VerifyOptions } from "../audit/verify-ledger.ts";
import { sqliteDialect } from "../queries/dialects.ts";
import { answer } from "./answer.ts";
import type { Connection } from "./connection.ts";
import { Feed } from "../audit/feed.ts";
import type { Report } from "../audit/findings.ts";
import type { Query } from "../queries/query.ts";

/** Implements `LedgerMaintenance.verify`. Meanwhile the write-ahead log grows with concurrent writes. */
export function verify(db: Connection, options: VerifyOptions): Verification {
  return answer(db, verifyLedger(sqliteDialect, options, checkDanglingLinks));
}

interface LinkRow {
  readonly charge: bigint;
  readonly window: bigint;
  readonly id: string | null;
}

/**
 * Reports dangling links of settled or missing charges: row numbers are reused, so such a link could become another
 * charge's. Links of pending charges are compared one by one elsewhere.
 */
export function* checkDanglingLinks(report: Report): Query<void> {
  const rows = new Feed<LinkRow>(
    `select charge, window, charges.id from charge_windows left join charges on charges.seq = charge
     where (charges.seq is null or not exists (select 1 from windows where windows.seq = window)) and charges.state is not 'pending'`,
  );
  for (yield* rows.fill(); rows.next !== undefined; rows.advance(), yield* rows.fill()) {
    const { charge, window, id } = rows.next;
    const found = id === null ? `no charge ${charge}` : `no window ${window}`;
    report({
      kind: "link",
      id: id ?? String(charge),
      expected: "a charge and its window",
      found,
      derived: { of: "links", charge: Number(charge) },
    });
  }
}
