import { isAlertDue } from "../../core/alerts.ts";
import { invariant } from "../../core/assert.ts";
import { scopesApplyingTo, subjectOf, type Budget, type BudgetWindow, type Caller } from "../../core/budget.ts";
import type { Charge, HoldKind } from "../../core/charge.ts";
import type { PicoUsd } from "../../core/money.ts";
import { parseCanonicalPrice, type PriceVersion } from "../../core/price.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { OldHold } from "../../ports/ledger.ts";
import type { ShortQueries } from "../queries/interfaces.ts";
import { budgetOf, snapshot, withoutSeq, type BudgetRow, type StoredBudget } from "../rows/budgets.ts";
import { chargeColumns, chargeOf, type ShownChargeRow } from "../rows/charges.ts";
import { runsTask } from "../tables/tasks.ts";
import type { Database, Statements } from "./connection.ts";
import { readBudgets } from "./known-budgets.ts";
import { sumCharges } from "./sum-charges.ts";

/** Longest silence of a running proxy. Milliseconds. */
const silentMsMax = 5_000;

/** Short queries of a server. Each takes some milliseconds. */
export class PostgresQueries implements ShortQueries {
  readonly #db: Database;
  readonly #calendar: Calendar;

  constructor(db: Database, calendar: Calendar) {
    this.#db = db;
    this.#calendar = calendar;
  }

  async charge(id: string): Promise<Charge | undefined> {
    const row = await this.#db.row<ShownChargeRow>(`select ${chargeColumns} from charges where id = $1`, [id]);
    return row && chargeOf(row);
  }

  async price(id: string): Promise<PriceVersion | undefined> {
    const row = await this.#db.row<{ canonical: string }>("select canonical from price_versions where id = $1", [id]);
    return row && parseCanonicalPrice(row.canonical);
  }

  async pending(): Promise<{ readonly count: number; readonly oldestAt: number | null }> {
    const row = await this.#db.row<{ count: bigint; oldest: bigint | null }>(
      "select count(*) as count, min(admitted_at) as oldest from charges where state = 'pending'",
    );
    const { count = 0n, oldest = null } = row ?? {};
    return { count: Number(count), oldestAt: oldest === null ? null : Number(oldest) };
  }

  async oldHolds(before: number): Promise<readonly OldHold[]> {
    const rows = await this.#db.rows<{
      id: string;
      kind: HoldKind;
      at: bigint;
      key: string;
      amount: PicoUsd | null;
      orphaned: boolean;
    }>(
      `select id, kind, admitted_at as at, key, hold as amount, not exists (
           select 1 from owners where epoch = charges.owner and serves = 1 and owners.ended_at is null
             and beat_at > clock_timestamp() - interval '${silentMsMax} milliseconds') as orphaned
         from charges where state = 'pending' and admitted_at < $1 and not ${runsTask}
         order by admitted_at, seq limit 1000`,
      [before],
    );
    return rows.map(({ orphaned, at, ...hold }) => ({ ...hold, at: Number(at), isOrphaned: orphaned }));
  }

  async budgets(): Promise<readonly Budget[]> {
    return (await readBudgets(this.#db)).map(withoutSeq);
  }

  async windowsOf(caller: Caller, at: number): Promise<readonly BudgetWindow[]> {
    return await this.#db.transaction(async (db) => {
      const wanted = (await readBudgetsOf(db, caller)).map((budget) =>
        windowAt(this.#calendar, budget, at, subjectOf(budget.scope, caller)),
      );
      const stored = new Map((await storedSums(db, wanted)).map((row) => [`${row.budget} ${row.subject}`, row]));
      const rowOf = ({ budget, subject }: Wanted) => stored.get(`${budget.seq} ${subject}`);
      const summed = await summedUp(
        db,
        wanted.filter((window) => rowOf(window) === undefined),
      );
      return wanted.map((window) => snapshot({ ...window, ...sumsOf(rowOf(window) ?? summed.get(window)) }));
    }, "snapshot");
  }
}

/** Returns the budgets that apply to a caller, in order of creation. */
async function readBudgetsOf(db: Statements, caller: Caller): Promise<StoredBudget[]> {
  return (
    await db.rows<BudgetRow>("select * from budgets where scope = any($1) order by seq", [scopesApplyingTo(caller)])
  ).map(budgetOf);
}

/** Requested window, without its sums. */
interface Wanted extends Omit<BudgetWindow, "spent" | "held"> {
  readonly budget: StoredBudget;
}

type Sums = Pick<BudgetWindow, "spent" | "held">;

function windowAt(calendar: Calendar, budget: StoredBudget, at: number, subject = ""): Wanted {
  return { budget, subject, ...calendar.spanOf(budget.period, at) };
}

/**
 * Returns every budget's window at the instant. A window that no hold has opened yet has the sums of its charges. Needs
 * a snapshot.
 */
export async function readWindows(db: Statements, calendar: Calendar, at: number): Promise<readonly BudgetWindow[]> {
  const wanted = (await readBudgets(db)).map((budget) => windowAt(calendar, budget, at));
  const stored = Map.groupBy(await storedSums(db, wanted), ({ budget }) => Number(budget));
  const summed = await summedUp(
    db,
    wanted.filter(({ budget }) => budget.scope.kind !== "eachKey" && !stored.has(budget.seq)),
  );
  return wanted.flatMap((window) => {
    const rows = stored.get(window.budget.seq);
    if (rows !== undefined) return rows.map((row) => snapshot({ ...window, subject: row.subject, ...sumsOf(row) }));
    return summed.has(window) ? [snapshot({ ...window, ...sumsOf(summed.get(window)) })] : [];
  });
}

/** Returns the sums of the stored windows of these budgets and spans, for every subject. */
function storedSums(
  db: Statements,
  wanted: readonly Wanted[],
): Promise<(Sums & { readonly budget: bigint; readonly subject: string })[]> {
  return db.rows(
    `select budget, subject, spent, held from windows join unnest($1::bigint[], $2::bigint[]) as wanted (of, start) on budget = of and starts_at = start
     order by budget, subject`,
    [wanted.map(({ budget }) => budget.seq), wanted.map(({ start }) => start)],
  );
}

async function summedUp(db: Statements, wanted: readonly Wanted[]): Promise<ReadonlyMap<Wanted, Sums>> {
  const sums = await sumCharges(
    db,
    wanted.map(({ budget, subject, start, end }) => ({ scope: budget.scope, subject, span: { start, end } })),
  );
  return new Map(wanted.map((window, index) => [window, sumsOf(sums[index])]));
}

function sumsOf(row: Sums | undefined): Sums {
  invariant(row !== undefined, "a window has sums");
  return { spent: row.spent, held: row.held };
}

/** Returns windows that an alert is due for and that have none yet. Needs a snapshot. */
export async function readWindowsToAlert(
  db: Statements,
  calendar: Calendar,
  at: number,
  limit: number,
): Promise<readonly BudgetWindow[]> {
  const windows = await readWindows(db, calendar, at);
  const keys: string[] = [];
  const gather = (key: string) => {
    keys.push(key);
    return true;
  };
  for (const window of windows) isAlertDue(window, gather);
  const rows = await db.rows<{ key: string }>("select dedupe_key as key from outbox where dedupe_key = any($1)", [
    keys,
  ]);
  const alerted = new Set(rows.map(({ key }) => key));
  return windows.filter((window) => isAlertDue(window, (key) => alerted.has(key))).slice(0, limit);
}
