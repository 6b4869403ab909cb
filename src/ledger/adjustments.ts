import { correctionEntry } from "../core/audit.ts";
import { correctionFault } from "../core/charge.ts";
import { noMoney, picoUsdMax, type PicoUsd } from "../core/money.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { AdjustResult, Correction } from "../ports/ledger.ts";
import type { ChargeRow } from "./charge-columns.ts";
import type { Dialect } from "./queries/dialects.ts";
import { rowOf, sumSql, write, type Query } from "./queries/query.ts";
import { readNamedWindows } from "./queries/windows.ts";
import { addedUp, identityOf, rollupDimensions, rollupSums } from "./rollups.ts";
import { callerOfRow } from "./rows/budgets.ts";
import { recordAudit } from "./tables/audit.ts";
import { lockBudgets } from "./tables/budgets.ts";
import { insert, marks } from "./tables/table.ts";
import { quarterHourMs } from "../core/time.ts";

/** Columns that a correction copies from the charge that it corrects. */
const copiedColumns = [
  "kind",
  "admitted_at",
  "key",
  "team",
  "route",
  "model",
  "served_model",
  "price_group",
  "stream",
  "source",
  "tags",
  "session",
  "entry",
  "end_user",
  "labels",
] as const satisfies readonly (keyof ChargeRow)[];

/**
 * Corrects a posted charge: adds a correction, which is a charge with the same time, caller, model, source and tags.
 * The correction has an amount, but no tokens, and does not count as a request. A repeated correction changes nothing.
 */
export function* adjust(dialect: Dialect, calendar: Calendar, id: string, correction: Correction): Query<AdjustResult> {
  // Delays settlements and new windows until the transaction ends.
  yield* lockBudgets();
  const corrected = yield* readChargeRow(id);
  if (corrected === undefined) return "no_such_charge";
  if ((yield* readChargeRow(correction.id)) !== undefined) return "repeated";
  const { amount, listAmount, why, by } = correction;
  const sums = yield* rowOf<{ before: bigint | null }>({
    sql: "select cast(sum(cost) as bigint) as before from charges where adjusts = ?",
    values: [id],
  });
  const before = sums?.before ?? null;
  const fault = correctionFault(corrected, before ?? 0n, amount);
  if (fault !== null) return fault;

  const at = Number(corrected.admitted_at);
  const windows = (yield* readNamedWindows(dialect, calendar, callerOfRow(corrected), at)).flatMap(
    ([, stored]) => stored ?? [],
  );
  const rollups = [
    { table: "rollup_quarter", column: "starts_at", time: at - (at % quarterHourMs) },
    { table: "rollup_day", column: "day", time: calendar.dateOf(at) },
  ] as const;
  const spent = windows.map((window): bigint => window.spent);
  for (const rollup of rollups) spent.push(yield* rollupCost(rollup, corrected));
  if (spent.some((sum) => sum + amount > picoUsdMax - 1n)) return "too_large";

  yield* insert("charges", {
    ...Object.fromEntries(copiedColumns.map((name) => [name, corrected[name]])),
    id: correction.id,
    state: "posted",
    owner: 0,
    ended_at: correction.at,
    cost: amount,
    list_cost: listAmount ?? null,
    formula: "adjustment",
    reason: why,
    adjusts: id,
    adjusted_by: by,
  });
  yield* write(
    `update windows set spent = spent + ? where ${dialect.isIn("seq", "bigint")}`,
    amount,
    JSON.stringify(windows.map(({ win }) => Number(win))),
  );
  for (const rollup of rollups)
    yield* addToRollup(dialect, rollup, corrected, { cost: amount, list_cost: listAmount ?? noMoney });
  const hasCost = corrected.cost !== null || before !== null;
  const total = hasCost ? (((corrected.cost ?? 0n) + (before ?? 0n)) as PicoUsd) : null;
  yield* recordAudit(correctionEntry(id, correction, total));
  return "ok";
}

/** Returns the row of a charge; undefined if there is none. */
export function readChargeRow(id: string): Query<ChargeRow | undefined> {
  return rowOf<ChargeRow>({ sql: "select * from charges where id = ?", values: [id] });
}

/** Rollup table, its time column, and the time of the rows that a correction changes. */
interface Rollup {
  readonly table: string;
  readonly column: string;
  readonly time: string | number;
}

/** Returns the total cost of the rollup rows that a correction changes; 0 if there are none yet. */
function* rollupCost({ table, column, time }: Rollup, charge: ChargeRow): Query<bigint> {
  const isRow = [column, ...rollupDimensions].map((name) => `${name} = ?`).join(" and ");
  const row = yield* rowOf<{ cost: bigint }>({
    sql: `select ${sumSql("cost")} as cost from ${table} where ${isRow}`,
    values: [time, ...identityOf(charge)],
  });
  return row?.cost ?? 0n;
}

function* addToRollup(
  { isSharded }: Dialect,
  { table, column, time }: Rollup,
  charge: ChargeRow,
  amounts: { readonly cost: bigint; readonly list_cost: bigint },
): Query<void> {
  const keyColumns = [column, ...rollupDimensions, ...(isSharded ? ["shard"] : [])];
  const added = rollupSums.map((name) => (name === "cost" || name === "list_cost" ? amounts[name] : 0));
  const values = [time, ...identityOf(charge), ...(isSharded ? [0] : []), ...added];
  yield* write(
    `insert into ${table} (${[...keyColumns, ...rollupSums].join(", ")}) values (${marks(values)})
     on conflict (${keyColumns.join(", ")}) do update set ${addedUp(table, ["cost", "list_cost"])}`,
    ...values,
  );
}
