import { appliesTo, anchorsOf, isRolledUp, subjectsOf } from "../core/scope.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { ChargeRow } from "./charge-columns.ts";
import type { Dialect } from "./queries/dialects.ts";
import { rowsOf, write, type Query } from "./queries/query.ts";
import { isNotRolledUpSql } from "./queries/scope-sql.ts";
import { raiseSumsVersion } from "./queries/window-sums.ts";
import { nameOf } from "./queries/windows.ts";
import { addedUp, carriedDigest, rollupAmounts, rollupCounts } from "./rollups.ts";
import { budgetOf, callerOfRow, countedColumns, type BudgetRow } from "./rows/budgets.ts";
import { checkTimeZone } from "./time-zone.ts";
import { dayMs } from "../core/time.ts";

/*
 * Retention replaces the charges of a day by carried sums. A carried sum is a charge at noon of that day. There is one
 * for each combination of key, team, model, price group, source and catalogue model (`entry`).
 */

const columns = [
  ...countedColumns,
  ...rollupAmounts,
  "seq",
  "id",
  "kind",
  "state",
  "admitted_at",
  "price_group",
  "formula",
  "source",
  "retry",
] as const satisfies readonly (keyof ChargeRow)[];

type Row = Pick<ChargeRow, (typeof columns)[number]>;

/**
 * Returns the SQL condition for charges that retention may delete. Its parameter is the horizon, before which they were
 * admitted. Excludes pending charges, carried sums, charges with a correction for which `isKept` is true, and charges
 * of a stored run session, because the session's budget counts them.
 * `adjusts is not null` lets the database use the index of corrections.
 */
export const prunable = (isKept = "true") => `state <> 'pending' and admitted_at < ?
  and not exists (select 1 from carried where carried.charge = charges.seq)
  and not exists (select 1 from charges correction where correction.adjusts is not null and correction.adjusts = charges.id and ${isKept})
  and (session is null or not exists (select 1 from run_sessions where run_sessions.id = charges.session))`;

/** Position of a charge in a list ordered by time. */
export interface Position {
  readonly at: number;
  readonly seq: number;
}

export const beginning: Position = { at: -1, seq: 0 };

/**
 * Replaces a batch of corrections by carried sums: the newest with a time before `before`. Returns their number. Uses
 * the index of corrections, because a search by time would read every charge.
 */
export function* carryCorrections(dialect: Dialect, calendar: Calendar, before: number): Query<number> {
  const where = `${dialect.byCorrection} where ${prunable()} and adjusts is not null order by admitted_at desc, seq desc`;
  return (yield* carry(dialect, calendar, where, [before])).length;
}

/**
 * Replaces a batch of charges that are not corrections by carried sums: the oldest after a position. Returns their
 * number and the position of the last one, or the given position if there are none. The next batch starts there, so
 * charges that are kept are read only once.
 */
export function* carryOthers(
  dialect: Dialect,
  calendar: Calendar,
  before: number,
  { at, seq }: Position,
): Query<{ readonly count: number; readonly last: Position }> {
  const isLater = "admitted_at >= ? and (admitted_at > ? or seq > ?)";
  const where = `${dialect.byTime} where ${prunable()} and adjusts is null and ${isLater} order by admitted_at, seq`;
  const charges = yield* carry(dialect, calendar, where, [before, at, at, seq]);
  const last = charges.at(-1);
  return {
    count: charges.length,
    last: last === undefined ? { at, seq } : { at: Number(last.admitted_at), seq: Number(last.seq) },
  };
}

/** Replaces a batch of the charges that `where` selects by carried sums. Returns the replaced charges. */
function* carry(dialect: Dialect, calendar: Calendar, where: string, values: readonly number[]): Query<readonly Row[]> {
  for (const statement of dialect.lockCarried) yield statement;
  yield* checkTimeZone(calendar);
  const charges = yield* rowsOf<Row>({
    sql: `select ${columns.join(", ")} from charges ${where} limit ${dialect.carriedAtOnce}`,
    values,
  });
  if (charges.length === 0) return charges;
  const posted = charges.filter(({ state }) => state === "posted");
  yield* addSums(dialect, sumsOf(calendar, posted));
  yield* carryInWindows(dialect, calendar, posted);
  yield* remove(dialect, charges);
  yield* write(raiseSumsVersion);
  return charges;
}

interface CarriedSum extends Readonly<Pick<Row, "key" | "team" | "model" | "price_group" | "source">> {
  readonly id: string;
  readonly noon: number;
  readonly entry: string;
  readonly counts: Record<(typeof rollupCounts)[number], number>;
  readonly amounts: Record<(typeof rollupAmounts)[number], bigint>;
}

/**
 * Returns the carried sums of charges. Their ids depend only on day and dimensions, so a later batch adds to the same
 * sums.
 */
function sumsOf(calendar: Calendar, posted: readonly Row[]): readonly CarriedSum[] {
  const sums = new Map<string, CarriedSum>();
  for (const charge of posted) {
    const { key, team, model, price_group, source } = charge;
    const entry = charge.entry ?? model;
    const noon = calendar.spanOf("1d", Number(charge.admitted_at)).start + dayMs / 2;
    const digest = carriedDigest([noon, key, team, model, price_group, source, entry]);
    const id = `carried-${calendar.dateOf(noon)}-${digest}`;
    let sum = sums.get(id);
    if (sum === undefined) {
      const amounts = Object.fromEntries(rollupAmounts.map((name) => [name, 0n])) as CarriedSum["amounts"];
      const counts = { requests: 0, unpriced: 0, retries: 0 };
      sums.set(id, (sum = { id, noon, key, team, model, price_group, source, entry, counts, amounts }));
    }
    for (const name of rollupAmounts) sum.amounts[name] += charge[name] ?? 0n;
    if (charge.formula !== "adjustment") sum.counts.requests++;
    if (charge.cost === null) sum.counts.unpriced++;
    if (charge.retry > 0n) sum.counts.retries++;
  }
  return [...sums.values()];
}

/** Adds sums to the stored carried sums with the same ids. Creates missing carried sums. */
function* addSums(dialect: Dialect, sums: readonly CarriedSum[]): Query<void> {
  for (const noon of new Set(sums.map((sum) => sum.noon))) for (const each of dialect.ensurePartition(noon)) yield each;
  const texts = ["id", "key", "team", "model", "entry", "price_group", "source"] as const;
  const whole = ["admitted_at", "ended_at", ...rollupAmounts];
  const stored = yield* rowsOf<{ seq: bigint; id: string }>({
    sql: `insert into charges (kind, state, owner, route, stream, formula, reason, ${[...texts, ...whole].join(", ")})
      select 'request', 'posted', 0, 'carried', 0, 'adjustment', 'carried', ${texts.map((_, index) => `value ->> ${index}`).join(", ")},
        ${whole.map((_, index) => `cast(value ->> ${texts.length + index} as bigint)`).join(", ")}
      from ${dialect.eachOf} where true
      on conflict (${dialect.chargeKey}) do update set ${addedUp("charges", rollupAmounts)} returning seq, id`,
    values: [
      JSON.stringify(
        sums.map((sum) => [
          ...texts.map((name) => sum[name]),
          sum.noon,
          sum.noon,
          ...rollupAmounts.map((name) => String(sum.amounts[name])),
        ]),
      ),
    ],
  });
  const seqs = new Map(stored.map(({ id, seq }) => [id, Number(seq)]));
  yield* write(
    `insert into carried (charge, ${rollupCounts.join(", ")})
     select ${["charge", ...rollupCounts].map((_, index) => `cast(value ->> ${index} as bigint)`).join(", ")} from ${dialect.eachOf} where true
     on conflict (charge) do update set ${addedUp("carried", rollupCounts)}`,
    JSON.stringify(sums.map(({ id, counts }) => [seqs.get(id), ...rollupCounts.map((name) => counts[name])])),
  );
}

/**
 * Adds the costs of replaced charges to `carried` of their windows, for budgets that count by user, tag or label.
 * Carried sums have no such values, so these windows cannot count them.
 */
function* carryInWindows(dialect: Dialect, calendar: Calendar, posted: readonly Row[]): Query<void> {
  const charges = posted.map((row) => ({ cost: row.cost, at: Number(row.admitted_at), caller: callerOfRow(row) }));
  const anchors = new Set(charges.flatMap(({ caller }) => anchorsOf(caller)));
  const budgets = yield* rowsOf<BudgetRow>({
    sql: `select * from budgets where ${dialect.isIn("anchor")} and ${isNotRolledUpSql}`,
    values: [JSON.stringify([...anchors])],
  });
  const costs = new Map<string, { budget: number; subject: string; start: number; cost: bigint }>();
  for (const { seq, scope, period } of budgets.map(budgetOf)) {
    if (isRolledUp(scope)) continue;
    for (const { cost, at, caller } of charges) {
      if (cost === null || !appliesTo(scope, caller)) continue;
      const { start } = calendar.spanOf(period, at);
      for (const subject of subjectsOf(scope, caller)) {
        const name = `${start} ${nameOf(seq, subject)}`;
        costs.set(name, { budget: seq, subject, start, cost: cost + (costs.get(name)?.cost ?? 0n) });
      }
    }
  }
  if (costs.size === 0) return;
  const wanted = [...costs.values()].map(({ budget, subject, start, cost }) => [budget, subject, start, String(cost)]);
  // Locks windows in the order of `seq`, as other transactions do.
  const windows = yield* rowsOf<{ seq: bigint; cost: bigint }>({
    sql: `select seq, cost from windows join (
        select cast(value ->> 0 as bigint) as of_budget, value ->> 1 as of_subject, cast(value ->> 2 as bigint) as start, cast(value ->> 3 as bigint) as cost
        from ${dialect.eachOf}
      ) wanted on budget = of_budget and subject = of_subject and starts_at = start order by seq`,
    values: [JSON.stringify(wanted)],
    lock: "update",
  });
  yield* write(
    `update windows set carried = carried + cost
     from (select cast(value ->> 0 as bigint) as win, cast(value ->> 1 as bigint) as cost from ${dialect.eachOf}) wanted where seq = win`,
    JSON.stringify(windows.map(({ seq, cost }) => [Number(seq), String(cost)])),
  );
}

/** Deletes charges with their tasks, task callbacks and links to windows. */
function* remove(dialect: Dialect, charges: readonly Row[]): Query<void> {
  const seqs = charges.map(({ seq }) => Number(seq));
  const times = charges.map(({ admitted_at }) => Number(admitted_at));
  const tasks = charges.filter(({ kind }) => kind === "task");
  yield* write(`delete from tasks where ${dialect.isIn("charge")}`, JSON.stringify(tasks.map(({ id }) => id)));
  yield* write(
    `delete from task_callbacks where ${dialect.isIn("charge")}`,
    JSON.stringify(charges.map(({ id }) => id)),
  );
  for (const statement of dialect.unlinkCharges(seqs)) yield statement;
  yield* write(
    `delete from charges ${dialect.bySeq} where ${dialect.isIn("seq", "bigint")} and admitted_at >= ? and admitted_at <= ?`,
    JSON.stringify(seqs),
    Math.min(...times),
    Math.max(...times),
  );
}
