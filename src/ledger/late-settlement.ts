import { hash } from "node:crypto";
import { fareboxAdmin } from "../core/keys.ts";
import type { Charge } from "../core/charge.ts";
import { noMoney, subtract, type PicoUsd } from "../core/money.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Correction } from "../ports/ledger.ts";
import { adjust, readChargeRow } from "./adjustments.ts";
import { endColumns, postColumns } from "./charge-columns.ts";
import type { PostCommand, VoidCommand } from "./commands.ts";
import type { Dialect } from "./queries/dialects.ts";
import { rowOf, sumSql, type Query } from "./queries/query.ts";
import { lockBudgets } from "./tables/budgets.ts";

/*
 * A proxy that seemed dead may only have been suspended. Its holds were posted as assumed. When the proxy resumes and
 * settles them, corrections change these charges to their true amounts.
 */

/** True amounts of a charge that was already posted as assumed. */
interface LateSettlement {
  readonly id: string;
  readonly at: number;
  readonly cost: PicoUsd;
  readonly listCost: PicoUsd;
  readonly why: string;
  /** True if the answer was not read to its end, so that the gateway may bill more. */
  readonly isPartial: boolean;
}

/** Returns the true amounts that a settlement states; null if its amount is unknown or assumed. */
export function lateSettlement(command: PostCommand | VoidCommand): LateSettlement | null {
  const [op, id, values] = command;
  if (op === "void") {
    const { ended_at: at, reason } = endColumns.read(values);
    const why = `settled after its proxy was considered dead: not billed (${reason})`;
    return { id, at, cost: noMoney, listCost: noMoney, why, isPartial: false };
  }
  const { ended_at: at, cost, list_cost: listCost, formula, source } = postColumns.read(values);
  if (cost === null || formula === "assumed") return null;
  const why = `settled after its proxy was considered dead: ${source}`;
  return { id, at, cost, listCost: listCost ?? cost, why, isPartial: source === "partial" };
}

/** Returns true if a charge was posted because its proxy seemed dead. */
export function isPostedForDeadProxy({
  state,
  formula,
  source,
  reason,
}: Pick<Charge, "state" | "formula" | "source" | "reason">): boolean {
  return state === "posted" && formula === "assumed" && source === "assumed" && reason === "crash";
}

/**
 * Returns the correction that changes a charge to its true amount; null if the amount is already right, or if only a
 * part of the answer was read and its amount is smaller. `total` and `listTotal` are the sums of the charge and its
 * corrections. The correction's id depends only on the charge, so the correction is added only once. The list cost is
 * corrected too, so that no false saving appears.
 */
export function lateCorrection(
  { id, at, cost, listCost, why, isPartial }: LateSettlement,
  total: bigint,
  listTotal: bigint,
): Correction | null {
  const amount = subtract(cost, total as PicoUsd);
  if (amount === noMoney || (isPartial && amount < 0n)) return null;
  return {
    id: `adj-${hash("sha256", JSON.stringify(["settled late", id])).slice(0, 32)}`,
    at,
    amount,
    listAmount: subtract(listCost, listTotal as PicoUsd),
    why,
    by: fareboxAdmin,
  };
}

/** Corrects a charge that was posted because its proxy seemed dead. Returns true if it added a correction. */
export function* correctLate(dialect: Dialect, calendar: Calendar, late: LateSettlement): Query<boolean> {
  const charge = yield* readChargeRow(late.id);
  if (charge === undefined || !isPostedForDeadProxy(charge)) return false;
  yield* lockBudgets();
  const sums = yield* rowOf<{ total: bigint; list: bigint }>({
    sql: `select ${sumSql("cost")} as total, ${sumSql("list_cost")} as list from charges where id = ? or adjusts = ?`,
    values: [late.id, late.id],
  });
  const correction = lateCorrection(late, sums?.total ?? 0n, sums?.list ?? 0n);
  return correction !== null && (yield* adjust(dialect, calendar, late.id, correction)) === "ok";
}
