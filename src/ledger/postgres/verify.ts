import type { Verification } from "../../ports/ledger.ts";
import { verifyLedger, type VerifyOptions } from "../audit/verify-ledger.ts";
import { postgresDialect } from "../queries/dialects.ts";
import { answer } from "./answer.ts";
import type { Database } from "./connection.ts";
import { keepsSnapshot } from "./cursor.ts";
import { Feed } from "../audit/feed.ts";
import type { Report } from "../audit/findings.ts";
import type { Query } from "../queries/query.ts";

/** Implements `LedgerMaintenance.verify`. */
export async function verify(database: Database, options: VerifyOptions): Promise<Verification> {
  await using session = await database.session();
  await session.run(keepsSnapshot);
  return await answer(session, verifyLedger(postgresDialect, options, checkLeases));
}

interface LeaseRow {
  readonly win: bigint;
  readonly owner: bigint;
  readonly is_window: boolean;
  readonly expected: bigint;
  readonly found: bigint;
}

interface LeasedRow {
  readonly win: bigint;
  readonly expected: bigint;
  readonly found: bigint;
}

/**
 * Checks leases: each must hold what pending charges of its owner hold in it, and each window must count all grants.
 * The spent amounts of leases are compared elsewhere, together with the window's own.
 */
export function* checkLeases(report: Report): Query<void> {
  const leases = new Feed<LeaseRow>(
    `select coalesce(lease.win, pending.win) as win, coalesce(lease.owner, pending.owner) as owner,
       exists (select from budget_windows where seq = coalesce(lease.win, pending.win)) as is_window,
       coalesce(pending.held, 0)::bigint as expected, coalesce(lease.held, 0) as found
     from window_leases lease full join (
       select owner, win, sum(hold) as held from charges, unnest(leased) win where state = 'pending' group by owner, win
     ) pending on pending.win = lease.win and pending.owner = lease.owner
     where coalesce(pending.held, 0) <> coalesce(lease.held, 0) or not exists (select from budget_windows where seq = coalesce(lease.win, pending.win))`,
  );
  for (yield* leases.fill(); leases.next !== undefined; leases.advance(), yield* leases.fill()) {
    const { win, owner, is_window: isWindow, expected, found } = leases.next;
    const id = `window ${win}, lease of ${owner}`;
    const derived = { of: "window", seq: Number(win) } as const;
    if (isWindow) report({ kind: "window", id, expected: `held ${expected}`, found: `held ${found}`, derived });
    else report({ kind: "window", id, expected: "a window", found: `no window ${win}`, derived });
  }
  const leased = new Feed<LeasedRow>(
    `select seq as win, coalesce(granted, 0)::bigint as expected, leased as found
     from budget_windows left join (select win, sum(granted) as granted from window_leases group by win) leases on win = seq
     where leased <> coalesce(granted, 0)`,
  );
  for (yield* leased.fill(); leased.next !== undefined; leased.advance(), yield* leased.fill()) {
    const { win, expected, found } = leased.next;
    report({
      kind: "window",
      id: `window ${win}`,
      expected: `leased ${expected}`,
      found: `leased ${found}`,
      derived: { of: "window", seq: Number(win) },
    });
  }
}
