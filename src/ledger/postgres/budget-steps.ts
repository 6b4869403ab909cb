import { hasSubjects } from "../../core/scope.ts";
import type { Span } from "../../core/budget.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { postgresDialect } from "../queries/dialects.ts";
import { sumSql, type BudgetStep } from "../queries/query.ts";
import { partsOfWindows } from "../queries/window-sums.ts";
import { endOfTime, type SpentBefore, type NamedWindow, type StoredBudget } from "../rows/budgets.ts";
import { readBudgets } from "../queries/windows.ts";
import { chargesBySubject } from "../queries/scope-condition.ts";
import { checkTimeZone } from "../time-zone.ts";
import { answer, numbered } from "./answer.ts";
import type { Database, Statements } from "./connection.ts";
import type { KnownBudgets } from "./known-budgets.ts";

/**
 * Locks the budgets until the transaction ends. The database applies no batch of any proxy meanwhile. If the budgets
 * change, it later rejects batches that were planned with the old budgets.
 */
export async function lockBudgets(db: Statements): Promise<void> {
  await db.run("select pg_advisory_xact_lock('budgets'::regclass::oid::integer, 0)");
}

/**
 * Performs a budget step of a query: locks the budgets, or opens or removes the windows of a budget. Throws an error if
 * the time zone of the ledger is no longer that of the calendar.
 */
export async function applyBudgetStep(db: Statements, calendar: Calendar, step: BudgetStep): Promise<void> {
  if (step.budgets === "lock") {
    await lockBudgets(db);
    return answer(db, checkTimeZone(calendar));
  }
  const { budget } = step;
  if (step.budgets === "open") await openAll(db, calendar, budget, step.at, step.before);
  else if (step.budgets === "raise")
    await openOne(db, calendar, { budget, subject: step.subject, ...calendar.spanOf(budget.period, step.at) });
  else await removeWindows(db, budget);
  await db.run("update meta set budgets_version = budgets_version + 1");
}

async function removeWindows(db: Statements, { seq }: StoredBudget): Promise<void> {
  await db.run(
    `with gone as (select array_agg(seq) as wins from windows where budget = $1)
     update charges c set
       windows = array(select win from unnest(c.windows) win where not win = any(gone.wins))
     from gone where c.state = 'pending' and c.windows && gone.wins`,
    [seq],
  );
  await db.run("delete from windows where budget = $1", [seq]);
}

/** Replaces all windows by the windows that contain an instant, summed from the charges. Call `lockBudgets` first. */
export async function rebuildWindows(db: Statements, calendar: Calendar, at: number): Promise<void> {
  // Keeps carried sums only of windows without an end, because only these are the same in each time zone.
  const kept = await db.rows<{ budget: bigint; subject: string; starts_at: bigint; carried: bigint }>(
    "select budget, subject, starts_at, carried from windows where ends_at is null and carried <> 0",
  );
  await db.run("delete from windows");
  await db.run("update charges set windows = '{}' where state = 'pending'");
  await db.run("update budgets set complete_from = null");
  for (const budget of await answer(db, readBudgets())) await openAll(db, calendar, budget, at);
  for (const { budget, subject, starts_at: start, carried } of kept)
    await db.run(
      `insert into windows as w (budget, subject, starts_at, spent, held, carried) values ($1, $2, $3, $4, 0, $4)
       on conflict (budget, subject, starts_at) do update set spent = w.spent + excluded.spent, carried = excluded.carried`,
      [budget, subject, start, carried],
    );
  await db.run("update meta set budgets_version = budgets_version + 1");
}

/**
 * Opens the windows of all subjects with charges in the span that contains `at`, unless all are known to exist. Call
 * `lockBudgets` first.
 */
async function openAll(
  db: Statements,
  calendar: Calendar,
  budget: StoredBudget,
  at: number,
  before: SpentBefore | null = null,
): Promise<void> {
  const span = calendar.spanOf(budget.period, at);
  if (await isComplete(db, budget, span)) return;
  await open(db, calendar, budget, hasSubjects(budget.scope) ? null : "", span, before);
  const later = await db.row<{ last: bigint | null }>(
    "select max(admitted_at) as last from charges where admitted_at >= $1",
    [span.end ?? endOfTime],
  );
  const last = later?.last ?? null;
  const completeFrom = last === null ? span.start : calendar.spanOf(budget.period, Number(last)).end;
  await db.run("update budgets set complete_from = least(complete_from, $2) where seq = $1", [
    budget.seq,
    completeFrom,
  ]);
}

/**
 * Opens windows in which charges may already count. Does nothing if the budgets have changed since they were read,
 * because the database then rejects the batch, and the writer plans it again.
 */
export async function openWindows(
  database: Database,
  { version, calendar }: KnownBudgets,
  windows: readonly NamedWindow[],
): Promise<void> {
  await database.transaction(async (db) => {
    await lockBudgets(db);
    if ((await db.row("select 1 from meta where budgets_version = $1", [version])) === undefined) return;
    for (const window of windows) await openOne(db, calendar, window);
  });
}

/** Opens a missing window. Call `lockBudgets` first. */
async function openOne(db: Statements, calendar: Calendar, window: NamedWindow): Promise<void> {
  const { budget, subject, start, end } = window;
  const isUnknown = await db.row("select 1 from budgets where seq = $1 and complete_from is null", [budget.seq]);
  if (isUnknown !== undefined) await openAll(db, calendar, budget, start);
  if (!(await isComplete(db, budget, window))) return await open(db, calendar, budget, subject, window);
  await db.run(
    `insert into windows (budget, subject, starts_at, ends_at, spent, held) values ($1, $2, $3, $4, 0, 0) on conflict do nothing`,
    [budget.seq, subject, start, end],
  );
}

/** Returns true if each subject with charges in a span is known to have a window. */
async function isComplete(db: Statements, { seq }: StoredBudget, { start }: Span): Promise<boolean> {
  return (await db.row("select 1 from budgets where seq = $1 and complete_from <= $2", [seq, start])) !== undefined;
}

/**
 * Opens a subject's missing window of a span with its sums, and links the pending charges to it. If `subject` is null,
 * does the same for every subject with charges. Call `lockBudgets` first.
 */
async function open(
  db: Statements,
  calendar: Calendar,
  { seq, scope, period }: StoredBudget,
  subject: string | null,
  { start, end }: Span,
  before: SpentBefore | null = null,
): Promise<void> {
  const terms = { scope, period, subject, span: { start, end }, before };
  const parts = await answer(db, partsOfWindows(postgresDialect, calendar, terms));
  const pending = chargesBySubject(postgresDialect, scope, subject, { start, end }, "pending");
  const [named, group] = subject === null ? ["subject", "group by subject order by subject"] : ["cast(? as text)", ""];
  const opened = await db.rows<{ seq: bigint }>(
    numbered(
      `insert into windows (budget, subject, starts_at, ends_at, spent, held)
       select cast(? as bigint), ${named}, cast(? as bigint), cast(? as bigint),
         ${sumSql("spent")}, ${sumSql("held")}
       from (${parts.sql}) parts ${group} on conflict do nothing returning seq`,
    ),
    [seq, ...(subject === null ? [] : [subject]), start, end, ...parts.values],
  );
  await db.run(
    numbered(
      `with linked as (
         select charge.seq, admitted_at, array_agg(w.seq) as wins
         from (${pending.sql}) charge join windows w on w.subject = charge.subject and w.seq = any(?)
         group by charge.seq, admitted_at
       )
       update charges c set windows = windows || wins from linked where c.seq = linked.seq and c.admitted_at = linked.admitted_at`,
    ),
    [...pending.values, opened.map((window) => window.seq)],
  );
}
