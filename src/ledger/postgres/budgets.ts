import type { Budget, Span } from "../../core/budget.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { BudgetStep } from "../queries/query.ts";
import { endOfTime, type StoredBudget } from "../rows/budgets.ts";
import type { Statements } from "./connection.ts";
import { readBudgets } from "./known-budgets.ts";

/**
 * Takes the budgets' lock until the transaction ends: no proxy's batch is applied meanwhile, and batches prepared with
 * the old budgets are rejected afterwards. `shared`: changes no budget and corrects no charge.
 */
export async function lockBudgets(db: Statements, how: "exclusive" | "shared" = "exclusive"): Promise<void> {
  await db.run(
    `select pg_advisory_xact_lock${how === "shared" ? "_shared" : ""}('budgets'::regclass::oid::integer, 0)`,
  );
}

/** Locks budgets, or opens or removes the windows of one. */
export async function carryOut(db: Statements, calendar: Calendar, step: BudgetStep): Promise<void> {
  if (step.budgets === "lock") return lockBudgets(db);
  const { budget } = step;
  if (step.budgets === "open") {
    await takeLeasesBack(db, budget);
    await openAll(db, calendar, budget, step.at);
  } else await removeWindows(db, budget);
  await db.run("update meta set budgets_version = budgets_version + 1");
}

async function removeWindows(db: Statements, { seq }: StoredBudget): Promise<void> {
  await db.run("delete from window_leases where win in (select seq from budget_windows where budget = $1)", [seq]);
  await db.run(
    `with gone as (select array_agg(seq) as wins from budget_windows where budget = $1)
     update charges c set
       windows = array(select win from unnest(c.windows) win where not win = any(gone.wins)),
       leased = array(select win from unnest(c.leased) win where not win = any(gone.wins))
     from gone where c.state = 'pending' and c.windows && gone.wins`,
    [seq],
  );
  await db.run("delete from budget_windows where budget = $1", [seq]);
}

/** Rebuilds the windows that contain the instant from the charges. Needs the budgets' lock. */
export async function rebuildWindows(db: Statements, calendar: Calendar, at: number): Promise<void> {
  await db.run("delete from window_leases");
  await db.run("delete from budget_windows");
  await db.run("update charges set windows = '{}', leased = '{}' where state = 'pending'");
  for (const budget of await readBudgets(db)) await openAll(db, calendar, budget, at);
  await db.run("update meta set budgets_version = budgets_version + 1");
}

/** Reduces leases to what they hold, because grants of the old budget follow its old rules. */
async function takeLeasesBack(db: Statements, { seq, mode }: StoredBudget): Promise<void> {
  await db.run(
    `select farebox_fold_leases(array_agg(l.win order by l.win, l.owner), array_agg(l.owner order by l.win, l.owner))
     from window_leases l join budget_windows w on w.seq = l.win where w.budget = $1 having count(*) > 0`,
    [seq],
  );
  await db.run(
    `update window_leases l set granted = case when $2 then l.held end from budget_windows w where w.seq = l.win and w.budget = $1`,
    [seq, mode === "hard"],
  );
  await db.run(
    `update budget_windows w set leased = known.granted
     from (
       select w.seq, coalesce(sum(l.granted), 0)::bigint as granted from budget_windows w left join window_leases l on l.win = w.seq
       where w.budget = $1 group by w.seq
     ) known
     where w.seq = known.seq and w.leased <> known.granted`,
    [seq],
  );
}

async function openAll(db: Statements, calendar: Calendar, budget: StoredBudget, at: number): Promise<void> {
  const { start, end } = calendar.spanOf(budget.period, at);
  const asked = (await subjectsOf(db, budget, { start, end })).map((subject) => ({
    budget: budget.seq,
    subject,
    starts_at: start,
    ends_at: end,
  }));
  const opened = await db.row<{ made: bigint[] }>("select made from farebox_open_windows($1)", [JSON.stringify(asked)]);
  await db.run("select farebox_fill_windows($1)", [opened?.made ?? []]);
}

/** Returns the subjects with charges in a span for an `eachKey` budget; the one subject "" for any other scope. */
async function subjectsOf(db: Statements, { scope }: Budget, { start, end }: Span): Promise<string[]> {
  if (scope.kind !== "eachKey") return [""];
  const rows = await db.rows<{ key: string }>(
    `select distinct key from charges
     where key <> '' and state <> 'voided' and admitted_at >= $1 and admitted_at < $2 and ($3::text is null or team = $3) order by key`,
    [start, end ?? endOfTime, scope.team],
  );
  return rows.map(({ key }) => key);
}
