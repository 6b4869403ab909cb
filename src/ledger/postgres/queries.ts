import type { Calendar } from "../../ports/calendar.ts";
import type { LongQueries } from "../queries/interfaces.ts";
import { postgresDialect } from "../queries/dialects.ts";
import { sharedQueries } from "../queries/shared.ts";
import { shortQueries, type ShortQueries } from "../queries/short.ts";
import { answer, cursorOf, lockChargesSql, beginSnapshotSql, numbered } from "./answer.ts";
import type { Database, Statements } from "./connection.ts";
import { isLiveProxy } from "./owners.ts";
import { verify } from "./verify.ts";
import type { Charge } from "../../core/charge.ts";
import type { RecentCursor, RecentQuery } from "../../ports/spend.ts";
import { chargesToScan, recentConditions } from "../recent-charges.ts";
import { chargeColumns, chargeOf, type ShownChargeRow } from "../rows/charges.ts";
import type { TimeSpan } from "../../ports/ledger.ts";

/** SQL condition on `charges` that the run of the proxy that placed the hold has ended or is silent. */
const isOrphaned = `not exists (select 1 from owners where epoch = charges.owner and ${isLiveProxy})`;

/** Returns the short queries for a server. */
export function postgresShortQueries(database: Database, calendar: Calendar): ShortQueries {
  return shortQueries({
    dialect: postgresDialect,
    calendar,
    query: (query) => answer(database, query),
    snapshot: (query) => database.transaction((db) => answer(db, query), "snapshot"),
    isOrphaned: () => ({ sql: isOrphaned, values: [] }),
  });
}

/**
 * Returns the long queries for a server. Each query reads one snapshot. At most as many queries run at a time as the
 * pool has connections. `short`: connections that may write.
 */
export function longQueries(database: Database, short: Database, calendar: Calendar): LongQueries {
  const shared = sharedQueries(postgresDialect, calendar, (query) =>
    database.transaction(async (db) => {
      await db.run(lockChargesSql);
      return await answer(db, query);
    }, "snapshot"),
  );
  return {
    ...shared,
    async totals() {
      const totals = await shared.totals();
      // Rows do not become visible in the order of `seq`, so a new row does not always raise `written`. It always
      // raises `requests`, so the sum grows with each new row.
      return { ...totals, written: totals.written + totals.requests };
    },
    spentBefore: async (budget, at) => shared.spentBefore(budget, at, await lastBeforeNow(short)),
    recent: (query) => readRecent(database, query),
    verify: (onProgress) => verify(database, { calendar, onProgress }),
  };
}

/**
 * Returns a `seq` up to which later snapshots see all charges. Transactions do not end in the order of the `seq` values
 * of their charges.
 */
async function lastBeforeNow(database: Database): Promise<number> {
  // The lock waits until no transaction adds charges. It is released when this single statement ends.
  const sql = "select pg_advisory_xact_lock('budgets'::regclass::oid::integer, 0), nextval('charges_seq') as seq";
  return Number((await database.row<{ seq: bigint }>(sql))?.seq);
}

/** Number of transaction ids that a row can distinguish. After that many, the ids in rows start again at 0. */
const transactionIds = 2 ** 32;

/**
 * Implements `LedgerQueries.recent`. Rows of several proxies do not become visible in the order of `seq` or time.
 * Therefore a row is new if its transaction had not ended at the previous query. The cursor's `written` is the oldest
 * transaction that was still running at that query.
 */
async function readRecent(
  db: Statements,
  query: RecentQuery,
): Promise<{ readonly charges: readonly Charge[]; readonly cursor: RecentCursor }> {
  const where = recentConditions(query);
  // Selects everything if the cursor's transaction is in the future, because such a cursor comes from another database.
  if (query.after !== undefined)
    where.add(
      `(running < ?::bigint or (written_by - ?::bigint + ${transactionIds}) % ${transactionIds} < ${transactionIds / 2})`,
      query.after.written,
      query.after.written % transactionIds,
    );
  const rows = await db.rows<ShownChargeRow & { readonly running: bigint }>(
    numbered(
      `select newest.*, running
       from (select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as running) now
       left join lateral (
         select ${chargeColumns} from (select *, xmin::text::bigint as written_by from charges order by seq desc limit ?) last
         where ${where.sql} order by seq desc limit ?
       ) newest on true
       order by seq desc`,
    ),
    [chargesToScan(query), ...where.values, query.limit],
  );
  return {
    charges: rows.filter(({ id }) => id !== null).map(chargeOf),
    cursor: { written: Number(rows[0]?.running ?? 0n), endedAt: 0 },
  };
}

/** Largest number of charges in a part of a stream. */
const partCharges = 500;

/** Yields the charges of a span in parts, oldest first. All parts come from one snapshot. */
export async function* streamCharges(
  database: Database,
  { since, until }: TimeSpan,
): AsyncGenerator<readonly Charge[]> {
  await using session = await database.session();
  await session.run(beginSnapshotSql);
  const charges = await cursorOf<ShownChargeRow>(session, "streamed", {
    sql: `select ${chargeColumns} from charges where admitted_at >= $1 and admitted_at < $2 order by admitted_at, seq`,
    values: [since, until],
  });
  for (let part = await charges.next(partCharges); part.length > 0; part = await charges.next(partCharges))
    yield part.map(chargeOf);
}
