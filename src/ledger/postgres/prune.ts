import type { PostgresServer } from "../../core/postgres-url.ts";
import type { Calendar } from "../../ports/calendar.ts";
import {
  carriedId,
  horizons,
  noonOf,
  prunable,
  prunePreview,
  repeatStep,
  type Pruned,
  type PruneOptions,
} from "../pruning.ts";
import { rollupAmounts, rollupCounts } from "../rollups.ts";
import type { OpenFailure } from "../store.ts";
import { answer } from "./answer.ts";
import { lockBudgets } from "./budgets.ts";
import type { Database, Statements } from "./connection.ts";
import { dropEmptiedMonths } from "./partitions.ts";
import { storedCalendar } from "./time-zone.ts";
import { onLedger } from "./maintenance.ts";

/** Charges to delete per transaction. Only changes of budgets and corrections wait for it; holds do not. */
const stepCharges = 1_000;
/** Rows of windows or rollups to delete per transaction. */
const stepRows = 1_000;

export interface PruneServerOptions extends Omit<PruneOptions, "onProgress"> {
  readonly server: PostgresServer;
  /** Counts without deleting. */
  readonly dryRun: boolean;
  /** Called with the share of charges done, 0 to 1. */
  readonly onProgress?: (share: number) => void;
}

export type PruneServerResult =
  | { readonly ok: true; readonly pruned: Pruned }
  | { readonly ok: false; readonly failure: OpenFailure };

/** Prunes the ledger on a server, in its stored time zone, with or without running proxies. */
export async function pruneServer({
  server,
  dryRun,
  onProgress,
  ...options
}: PruneServerOptions): Promise<PruneServerResult> {
  return await onLedger<PruneServerResult>(server, async (database) => {
    const inZone = { ...options, calendar: await storedCalendar(database, options.calendar) };
    const preview = await database.transaction((db) => answer(db, prunePreview(horizons(inZone))), "snapshot");
    if (dryRun) return { ok: true, pruned: preview };
    const onStep = (charges: number) => onProgress?.(Math.min(charges / Math.max(preview.charges, 1), 1));
    return { ok: true, pruned: await prune(database, { ...inZone, onProgress: onStep }) };
  });
}

/**
 * Deletes older data in transactions of some milliseconds with pauses. The ledger is consistent after each; an
 * interrupted run continues the next time. Drops emptied months.
 */
export async function prune(database: Database, options: PruneOptions): Promise<Pruned> {
  const horizon = horizons(options);
  const repeat = (step: (db: Statements) => Promise<number>, onStep?: (count: number) => void) =>
    repeatStep(options, () => database.transaction(step), onStep);
  // First the rows that would not match a carried sum, which has the time of noon of its day. No query reads them from
  // the announcement on.
  await database.run("update meta set quarters_from = greatest(quarters_from, $1)", [horizon.quarters]);
  const quarters = await repeat((db) => deleteQuarters(db, horizon.quarters));
  const windows = await repeat((db) => deleteWindows(db, horizon.charges));
  let charges = 0;
  const onStep = (count: number) => {
    charges += count;
    options.onProgress?.(charges);
  };
  const carry = (which: string) => repeat((db) => carryStep(db, options.calendar, horizon.charges, which), onStep);
  // A correction is carried before the charge it corrects.
  await carry("adjusts is not null order by admitted_at desc, seq desc");
  await carry("adjusts is null order by admitted_at, seq");
  await dropEmptiedMonths(database, horizon.charges);
  return { before: horizon.charges, charges, windows, quarters };
}

function deleteQuarters(db: Statements, before: number): Promise<number> {
  return db.run(
    `delete from rollup_quarter where ctid = any(array(select ctid from rollup_quarter where starts_at < $1 limit ${stepRows}))`,
    [before],
  );
}

/**
 * Deletes windows that ended before the horizon: they are not queried again, and their charges are about to be carried.
 * A charge still pending in one settles without it.
 */
async function deleteWindows(db: Statements, before: number): Promise<number> {
  await lockBudgets(db);
  const rows = await db.rows<{ seq: bigint }>(
    `select seq from budget_windows where ends_at <= $1 order by seq limit ${stepRows}`,
    [before],
  );
  const gone = rows.map(({ seq }) => seq);
  if (gone.length === 0) return 0;
  await db.run(
    `update charges set windows = array(select win from unnest(windows) win where not win = any($1)),
       leased = array(select win from unnest(leased) win where not win = any($1))
     where state = 'pending' and windows && $1`,
    [gone],
  );
  await db.run("delete from window_leases where win = any($1)", [gone]);
  return db.run("delete from budget_windows where seq = any($1)", [gone]);
}

interface SumRow {
  readonly noon: bigint;
  readonly key: string;
  readonly team: string | null;
  readonly model: string;
  readonly price_group: string | null;
  readonly source: string;
}

const counts = { requests: "formula <> 'adjustment'", unpriced: "cost is null", retries: "retry > 0" } as const;

/** Moves some charges into carried sums. Returns the count. */
async function carryStep(db: Statements, calendar: Calendar, before: number, which: string): Promise<number> {
  // No charge is corrected meanwhile; another prune waits.
  await lockBudgets(db, "shared");
  await db.run("select pg_advisory_xact_lock('carried'::regclass::oid::integer, 0)");
  const rows = await db.rows<{ seq: bigint; at: bigint }>(
    `select seq, admitted_at as at from charges where ${prunable("$1")} and ${which} limit ${stepCharges}`,
    [before],
  );
  if (rows.length === 0) return 0;
  const seqs = rows.map(({ seq }) => seq);
  const times = rows.map(({ at }) => Number(at));
  const step = [seqs, Math.min(...times), Math.max(...times)];
  const inStep = "seq = any($1) and admitted_at >= $2 and admitted_at <= $3";
  const sums = await db.rows<SumRow & Readonly<Record<string, bigint>>>(
    `select noon, key, team, model, price_group, source,
       ${Object.entries(counts)
         .map(([name, isOne]) => `count(*) filter (where ${isOne}) as ${name}`)
         .join(", ")},
       ${rollupAmounts.map((name) => `coalesce(sum(${name}), 0)::bigint as ${name}`).join(", ")}
     from charges join unnest($1::bigint[], $4::bigint[]) as step (of, noon) on seq = of
     where ${inStep} and state = 'posted' group by 1, 2, 3, 4, 5, 6`,
    [...step, times.map(noonOf(calendar))],
  );
  await addCarried(db, calendar, sums);
  await db.run(`delete from tasks where charge in (select id from charges where ${inStep} and kind = 'task')`, step);
  await db.run(`delete from task_callbacks where charge in (select id from charges where ${inStep})`, step);
  return db.run(`delete from charges where ${inStep}`, step);
}

/** Adds to carried sums. Creates missing ones. */
async function addCarried(
  db: Statements,
  calendar: Calendar,
  sums: readonly (SumRow & Readonly<Record<string, bigint>>)[],
): Promise<void> {
  for (const noon of new Set(sums.map((sum) => sum.noon))) await db.run("select farebox_ensure_partitions($1)", [noon]);
  const given = sums.map((sum) => ({
    ...Object.fromEntries(
      Object.entries(sum).map(([name, value]) => [name, typeof value === "bigint" ? String(value) : value]),
    ),
    id: carriedId(calendar, [sum.noon, sum.key, sum.team, sum.model, sum.price_group, sum.source]),
  }));
  const amounts = rollupAmounts.join(", ");
  const added = (table: string, names: readonly string[]) =>
    names.map((name) => `${name} = ${table}.${name} + excluded.${name}`).join(", ");
  await db.run(
    `with given as (
       select * from jsonb_to_recordset($1) as sums (id text, noon bigint, key text, team text, model text, price_group text, source text,
         ${[...rollupCounts, ...rollupAmounts].map((name) => `${name} bigint`).join(", ")})
     ), carried_sums as (
       insert into charges (id, kind, state, owner, admitted_at, ended_at, key, team, route, model, price_group, stream,
         formula, source, reason, ${amounts})
       select id, 'request', 'posted', 0, noon, noon, key, team, 'carried', model, price_group, 0, 'adjustment', source, 'carried', ${amounts}
       from given
       on conflict (id, admitted_at) do update set ${added("charges", rollupAmounts)}
       returning seq, id
     )
     insert into carried (charge, ${rollupCounts.join(", ")})
     select carried_sums.seq, ${rollupCounts.map((name) => `given.${name}`).join(", ")} from given join carried_sums on carried_sums.id = given.id
     on conflict (charge) do update set ${added("carried", rollupCounts)}`,
    [JSON.stringify(given)],
  );
}
