import type { Verification } from "../../ports/ledger.ts";
import { verifyLedger, type VerifyOptions } from "../audit/verify-ledger.ts";
import { postgresDialect } from "../queries/dialects.ts";
import { answer, keepsSnapshot } from "./answer.ts";
import type { Database } from "./connection.ts";
import { eachRow } from "../audit/feed.ts";
import type { Report } from "../audit/findings.ts";
import type { Query } from "../queries/query.ts";

/** Implements `LedgerMaintenance.verify`. */
export async function verify(database: Database, options: VerifyOptions): Promise<Verification> {
  await using session = await database.session();
  await session.run(keepsSnapshot);
  return await answer(session, verifyLedger(postgresDialect, options, checkLeases));
}

/** Lease whose held amount is wrong or whose window is missing. `is_window` is false if the window is missing. */
interface LeaseMismatch {
  readonly win: bigint;
  readonly owner: bigint;
  readonly is_window: boolean;
  readonly expected: bigint;
  readonly found: bigint;
}

/** Window whose leased amount differs from the sum of the amounts granted to its leases. */
interface WindowMismatch {
  readonly win: bigint;
  readonly expected: bigint;
  readonly found: bigint;
}

/**
 * Checks leases. A lease's held amount must be the sum of its owner's pending holds in the window. A window's leased
 * amount must be the sum of the amounts granted to its leases. `WindowCheck` checks the spent amounts.
 */
export function* checkLeases(report: Report): Query<void> {
  yield* eachRow<LeaseMismatch>(
    `select coalesce(lease.win, pending.win) as win, coalesce(lease.owner, pending.owner) as owner,
       exists (select from budget_windows where seq = coalesce(lease.win, pending.win)) as is_window,
       coalesce(pending.held, 0)::bigint as expected, coalesce(lease.held, 0) as found
     from window_leases lease full join (
       select owner, win, sum(hold) as held from charges, unnest(leased) win where state = 'pending' group by owner, win
     ) pending on pending.win = lease.win and pending.owner = lease.owner
     where coalesce(pending.held, 0) <> coalesce(lease.held, 0) or not exists (select from budget_windows where seq = coalesce(lease.win, pending.win))`,
    ({ win, owner, is_window: isWindow, expected, found }) =>
      report({
        kind: "window",
        id: `window ${win}, lease of ${owner}`,
        expected: isWindow ? `held ${expected}` : `window ${win}`,
        found: isWindow ? `held ${found}` : "no window",
        derived: { of: "window", seq: Number(win) },
      }),
  );
  yield* eachRow<WindowMismatch>(
    `select seq as win, coalesce(granted, 0)::bigint as expected, leased as found
     from budget_windows left join (select win, sum(granted) as granted from window_leases group by win) leases on win = seq
     where leased <> coalesce(granted, 0)`,
    ({ win, expected, found }) =>
      report({
        kind: "window",
        id: `window ${win}`,
        expected: `leased ${expected}`,
        found: `leased ${found}`,
        derived: { of: "window", seq: Number(win) },
      }),
  );
}
