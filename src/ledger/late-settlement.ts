import { createHash } from "node:crypto";
import { fareboxAdmin } from "../core/keys.ts";
import type { Charge } from "../core/charge.ts";
import { noMoney, subtract, type PicoUsd } from "../core/money.ts";
import type { Correction } from "../ports/ledger.ts";
import { endColumns, postColumns } from "./charge-columns.ts";
import type { PostCommand, VoidCommand } from "./commands.ts";

/*
 * A proxy that seemed dead may have been suspended. If it settles charges after its holds were posted as assumed, corrections
 * bring these charges to their true amounts.
 */

export interface LateSettlement {
  readonly id: string;
  readonly at: number;
  readonly cost: PicoUsd;
  readonly listCost: PicoUsd;
  readonly why: string;
}

/** Returns the true amounts in a settlement; null if it has no better amount than the hold. */
export function lateSettlement(command: PostCommand | VoidCommand): LateSettlement | null {
  const [op, id, values] = command;
  if (op === "void") {
    const { ended_at: at, reason } = endColumns.read(values);
    const why = `settled after its proxy was ended: not billed (${reason})`;
    return { id, at, cost: noMoney, listCost: noMoney, why };
  }
  const { ended_at: at, cost, list_cost: listCost, formula, source } = postColumns.read(values);
  if (cost === null || formula === "assumed") return null;
  return { id, at, cost, listCost: listCost ?? cost, why: `settled after its proxy was ended: ${source}` };
}

/** Returns true if a charge was posted because its proxy seemed dead. */
export function isPostedForTheDead({
  state,
  formula,
  source,
  reason,
}: Pick<Charge, "state" | "formula" | "source" | "reason">): boolean {
  return state === "posted" && formula === "assumed" && source === "assumed" && reason === "crash";
}

/**
 * Returns the correction that brings a charge with its existing corrections to the true amount; null if none is needed. Its
 * id depends only on the charge, so it is added once. It also corrects the list cost, so that no false saving appears.
 */
export function lateCorrection(
  { id, at, cost, listCost, why }: LateSettlement,
  total: bigint,
  listTotal: bigint,
): Correction | null {
  const amount = subtract(cost, total as PicoUsd);
  if (amount === noMoney) return null;
  const digest = createHash("sha256")
    .update(JSON.stringify(["settled late", id]))
    .digest("hex");
  return {
    id: `adj-${digest.slice(0, 32)}`,
    at,
    amount,
    listAmount: subtract(listCost, listTotal as PicoUsd),
    why,
    by: fareboxAdmin,
  };
}
