import type { Charge } from "../../core/charge.ts";
import { parseCanonicalPrice, type PriceVersion } from "../../core/price.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { Ledger, OldHold } from "../../ports/ledger.ts";
import { withoutSeq } from "../rows/budgets.ts";
import { chargeColumns, chargeOf, type ShownChargeRow } from "../rows/charges.ts";
import { runsTask } from "../tables/tasks.ts";
import type { Dialect } from "./dialects.ts";
import { rowOf, rowsOf, type Query, type RunQuery, type Statement } from "./query.ts";
import { readBudgets, readWindowsOf } from "./windows.ts";

/** Queries that take at most a few milliseconds. */
export type ShortQueries = Pick<Ledger, "charge" | "price" | "pending" | "oldHolds" | "budgets" | "windowsOf">;

interface ShortQueriesDeps {
  readonly dialect: Dialect;
  readonly calendar: Calendar;
  /** Runs a query that consists of a single statement. */
  readonly query: RunQuery;
  /** Runs a query whose statements read the same snapshot. */
  readonly snapshot: RunQuery;
  /** Returns the SQL condition for charges whose proxy run has ended. */
  readonly isOrphaned: () => Statement;
}

/** Returns the short queries of a database. */
export function shortQueries({ dialect, calendar, query, snapshot, isOrphaned }: ShortQueriesDeps): ShortQueries {
  return {
    charge: (id) => query(readCharge(id)),
    price: (id) => query(readPrice(id)),
    pending: () => query(readPending()),
    oldHolds: async (before) => query(readOldHolds(before, isOrphaned())),
    budgets: async () => (await query(readBudgets())).map(withoutSeq),
    windowsOf: (caller, at) => snapshot(readWindowsOf(dialect, calendar, caller, at)),
  };
}

function* readCharge(id: string): Query<Charge | undefined> {
  const row = yield* rowOf<ShownChargeRow>({ sql: `select ${chargeColumns} from charges where id = ?`, values: [id] });
  return row && chargeOf(row);
}

export function* readPrice(id: string): Query<PriceVersion | undefined> {
  const sql = "select canonical from price_versions where id = ?";
  const row = yield* rowOf<{ canonical: string }>({ sql, values: [id] });
  return row && parseCanonicalPrice(row.canonical);
}

function* readPending(): Query<{ readonly count: number; readonly oldestAt: number | null }> {
  const row = yield* rowOf<{ count: bigint; oldest: bigint | null }>({
    sql: "select count(*) as count, min(admitted_at) as oldest from charges where state = 'pending'",
    values: [],
  });
  const { count = 0n, oldest = null } = row ?? {};
  return { count: Number(count), oldestAt: oldest === null ? null : Number(oldest) };
}

type HoldRow = Omit<OldHold, "at" | "isOrphaned"> & { readonly at: bigint; readonly orphaned: bigint | boolean };

function* readOldHolds(before: number, isOrphaned: Statement): Query<readonly OldHold[]> {
  const rows = yield* rowsOf<HoldRow>({
    sql: `select id, kind, admitted_at as at, key, hold as amount, ${isOrphaned.sql} as orphaned
      from charges where state = 'pending' and admitted_at < ? and not ${runsTask} order by admitted_at, seq limit 1000`,
    values: [...isOrphaned.values, before],
  });
  return rows.map(({ orphaned, at, ...hold }) => ({ ...hold, at: Number(at), isOrphaned: Boolean(orphaned) }));
}
