import { correctionEntry } from "../../core/audit.ts";
import { correctionFault } from "../../core/charge.ts";
import { noMoney, picoUsdMax, type PicoUsd } from "../../core/money.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { AdjustResult } from "../../ports/ledger.ts";
import type { AdjustCommand } from "../commands.ts";
import { quarterMs, rollupDimensions, rollupSums } from "../rollups.ts";
import type { ChargeRow } from "../charge-columns.ts";
import { recordAudit } from "../tables/audit.ts";
import { answer } from "./answer.ts";
import { lockBudgets } from "./budgets.ts";
import { announce } from "./changes.ts";
import type { Statements } from "./connection.ts";
import { KnownBudgets, readBudgets } from "./known-budgets.ts";

/**
 * Adds a correction to a posted charge: a charge of its own, at the charge's time, of the same caller, model,
 * source and tags. It moves money and counts neither a request nor tokens. A repeat of the same correction changes nothing.
 */
export async function adjust(
  db: Statements,
  calendar: Calendar,
  [, id, correction]: AdjustCommand,
): Promise<AdjustResult> {
  // No settlement and no new window until the transaction ends.
  await lockBudgets(db);
  const corrected = await db.row<ChargeRow>("select * from charges where id = $1", [id]);
  if (corrected === undefined) return "no_such_charge";
  if ((await db.row("select 1 from charges where id = $1", [correction.id])) !== undefined) return "repeated";
  const { amount, why, by } = correction;
  const sums = await db.row<{ before: string | null }>("select sum(cost) as before from charges where adjusts = $1", [
    id,
  ]);
  const before = sums?.before == null ? null : BigInt(sums.before);
  const fault = correctionFault(corrected, before ?? 0n, amount);
  if (fault !== null) return fault;

  const at = Number(corrected.admitted_at);
  const moved = await existingWindows(db, calendar, corrected, at);
  const times = [at - (at % quarterMs), calendar.dateOf(at)] as const;
  if (
    [...moved.map(({ spent }) => spent), ...(await rollupCosts(db, corrected, times))].some(
      (sum) => sum + amount > picoUsdMax - 1n,
    )
  )
    return "too_large";
  await db.run(
    `insert into charges (id, kind, state, owner, admitted_at, ended_at, key, team, route, model, served_model, price_group, stream, cost, list_cost, formula,
       source, reason, tags, session, adjusts, adjusted_by)
     select $1, kind, 'posted', 0, admitted_at, $2, key, team, route, model, served_model, price_group, stream, $3, $8, 'adjustment',
       source, $4, tags, session, id, $5
     from charges where id = $6 and admitted_at = $7`,
    [correction.id, correction.at, amount, why, by, id, at, correction.listAmount ?? null],
  );
  await db.run("update budget_windows set spent = spent + $1 where seq = any($2)", [
    amount,
    moved.map(({ seq }) => seq),
  ]);
  await addToRollups(db, corrected, times, [amount, correction.listAmount ?? noMoney]);
  const isKnown = corrected.cost !== null || before !== null;
  await answer(
    db,
    recordAudit(
      correctionEntry(id, correction, isKnown ? (((corrected.cost ?? 0n) + (before ?? 0n)) as PicoUsd) : null),
    ),
  );
  await announce(db);
  return "ok";
}

/** The windows that apply to the charge's caller at its time, as far as they exist. */
async function existingWindows(
  db: Statements,
  calendar: Calendar,
  { key, team, session }: ChargeRow,
  at: number,
): Promise<readonly { seq: bigint; spent: bigint }[]> {
  const windows = new KnownBudgets(0n, calendar, await readBudgets(db)).windowsOf({ key, team, session }, at);
  return db.rows<{ seq: bigint; spent: bigint }>(
    `select w.seq, w.spent from unnest($1::bigint[], $2::text[], $3::bigint[]) a (budget, subject, starts_at)
     join windows w on w.budget = a.budget and w.subject = a.subject and w.starts_at = a.starts_at`,
    [windows.map(({ budget }) => budget.seq), windows.map(({ subject }) => subject), windows.map(({ start }) => start)],
  );
}

const identityOf = ({ key, team, model, price_group: group, source }: ChargeRow) => [
  key,
  team ?? "",
  model,
  group ?? "",
  source ?? "",
];
const ofIdentity = "key = $2 and team = $3 and model = $4 and price_group = $5 and source = $6";

/** What stands in the rollups that this would be added to. */
async function rollupCosts(
  db: Statements,
  charge: ChargeRow,
  [quarter, day]: readonly [number, string],
): Promise<bigint[]> {
  const identity = identityOf(charge);
  const ofQuarter = await db.row<{ cost: string | null }>(
    `select sum(cost) as cost from rollup_quarter where starts_at = $1 and ${ofIdentity}`,
    [quarter, ...identity],
  );
  const ofDay = await db.row<{ cost: string | null }>(
    `select sum(cost) as cost from rollup_day where day = $1 and ${ofIdentity}`,
    [day, ...identity],
  );
  return [ofQuarter, ofDay].flatMap((row) => (row?.cost == null ? [] : [BigInt(row.cost)]));
}

async function addToRollups(
  db: Statements,
  charge: ChargeRow,
  [quarter, day]: readonly [number, string],
  amounts: readonly [cost: bigint, listCost: bigint],
): Promise<void> {
  for (const [table, column, time] of [
    ["rollup_quarter", "starts_at", quarter],
    ["rollup_day", "day", day],
  ] as const) {
    await db.run(
      `insert into ${table} as r (${[column, ...rollupDimensions, "shard", ...rollupSums].join(", ")})
       values ($1, $2, $3, $4, $5, $6, 0, ${rollupSums.map((name) => ({ cost: "$7", list_cost: "$8" })[name as string] ?? "0").join(", ")})
       on conflict (${[column, ...rollupDimensions, "shard"].join(", ")}) do update set cost = r.cost + excluded.cost, list_cost = r.list_cost + excluded.list_cost`,
      [time, ...identityOf(charge), ...amounts],
    );
  }
}
