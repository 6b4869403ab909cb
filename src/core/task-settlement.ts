import type { Source } from "./charge.ts";
import { noMoney, type PicoUsd } from "./money.ts";
import type { PriceVersion } from "./price.ts";
import { postHold, type Settlement } from "./settlement.ts";
import { taskAmounts, type TaskAmounts, type TaskInputs } from "./task-cost.ts";
import type { Consumption, FinalStatus } from "./tasks.ts";
import { noTokens } from "./tokens.ts";

/** What was reserved for a task. */
export interface ReservedTask {
  /** Null for a task without a price. */
  readonly hold: PicoUsd | null;
  readonly price: PriceVersion | null;
  /** How many of what the price is for the request stated; null where it did not. */
  readonly quantity: string | null;
}

/** Every way in which a task that has an id can end. */
export type TaskOutcome =
  | {
      readonly kind: "ended";
      readonly status: FinalStatus;
      readonly consumption: Consumption | null;
      /** Whether the record says that the account's own pool made it, which the gateway does not bill. */
      readonly isPrivatePool?: boolean;
      /** Whether it failed because it ran longer than its family may. */
      readonly isPastTimeLimit?: boolean;
    }
  /** Nothing said that it ended until its time was over. */
  | { readonly kind: "expired"; readonly consumption: Consumption | null };

/** What becomes of a task's hold, and what its amounts can be computed from again. */
export interface TaskSettlement {
  readonly settlement: Settlement;
  readonly inputs: TaskInputs;
}

/** Whether a completed task states nothing that it used, although the catalogue has a price for it: its record is asked for again. */
export function isUnstated({ price }: Pick<ReservedTask, "price">, outcome: TaskOutcome): boolean {
  if (
    outcome.kind !== "ended" ||
    outcome.status !== "completed" ||
    outcome.isPrivatePool === true ||
    price?.task === undefined
  )
    return false;
  return outcome.consumption === null || outcome.consumption.units === "0";
}

/**
 * The amounts that a record proves after its task was settled: what it used where that can be priced, and nothing for a task that
 * failed and used nothing. Null where it proves none.
 */
export function laterAmounts(
  reserved: ReservedTask,
  outcome: TaskOutcome,
  unitsPerUsd: (type: string) => string | undefined,
): TaskAmounts | null {
  if (isUnstated(reserved, outcome)) return null;
  const { settlement } = taskSettlementFor(reserved, outcome, unitsPerUsd);
  if (settlement.kind === "void") return { charged: noMoney, list: noMoney };
  const { source, cost, listCost } = settlement;
  return source === "reported" && cost !== null ? { charged: cost, list: listCost ?? cost } : null;
}

/**
 * What becomes of the hold when the task ends. Total and pure; as for requests, it never gives back what it cannot prove
 * unused. `unitsPerUsd`: the catalogue's units for one USD of a type of consumption, as a whole number; undefined for none.
 */
export function taskSettlementFor(
  reserved: ReservedTask,
  outcome: TaskOutcome,
  unitsPerUsd: (type: string) => string | undefined,
): TaskSettlement {
  const { consumption } = outcome;
  const unit = consumption === null ? null : (unitsPerUsd(consumption.type) ?? null);
  const used = consumption !== null && consumption.units !== "0";
  const raw: TaskInputs = { consumption, unitsPerUsd: null, quantity: null };
  const isDone = outcome.kind === "ended" && outcome.status === "completed";
  const how = outcomeWords[outcome.kind === "expired" || outcome.isPastTimeLimit === true ? "expired" : outcome.status];
  if (outcome.kind === "ended" && !isDone && !used) {
    return { settlement: { kind: "void", reason: how ?? `task_${outcome.status}` }, inputs: raw };
  }
  // What it used decides where it can be priced; the official price of the whole is the list cost of what came to be.
  const reported: TaskInputs = { ...raw, unitsPerUsd: unit, quantity: isDone ? reserved.quantity : null };
  const unstated = isUnstated(reserved, outcome);
  if (unit !== null && (used || isDone) && !unstated) {
    const posted = post(reserved, reported, {
      source: outcome.kind === "expired" ? "partial" : "reported",
      reason: how,
    });
    if (outcome.kind === "expired" && !covers(posted, reserved))
      return { settlement: postHold(reserved, "assumed", how), inputs: raw };
    return posted === null
      ? { settlement: postHold(reserved, "assumed", "not_recordable"), inputs: raw }
      : { settlement: posted, inputs: reported };
  }
  const doubts = unstated ? { doubts: ["task_consumption"] as const } : {};
  if (outcome.kind === "ended" && reserved.price?.task !== undefined && reserved.quantity !== null) {
    const priced: TaskInputs = { ...raw, quantity: reserved.quantity };
    const posted = post(reserved, priced, {
      source: unstated ? "assumed" : "counted",
      reason: unstated ? "task_not_measured" : how,
    });
    if (posted !== null) return { settlement: { ...posted, ...doubts }, inputs: priced };
  }
  return { settlement: { ...postHold(reserved, "assumed", how ?? "task_not_measured"), ...doubts }, inputs: raw };
}

/** Why an amount is as it is, for the charge's row. */
const outcomeWords = {
  completed: null,
  failed: "task_failed",
  cancelled: "task_cancelled",
  expired: "task_time_limit",
} as const;

function post(
  { price }: ReservedTask,
  inputs: TaskInputs,
  how: { readonly source: Source; readonly reason: string | null },
): Extract<Settlement, { kind: "post" }> | null {
  const amounts = taskAmounts(inputs, price?.task ?? null);
  if (amounts === null) return null;
  const { charged: cost, list: listCost } = amounts;
  return {
    kind: "post",
    cost,
    listCost,
    tokens: noTokens,
    formula: "task",
    minimumApplied: false,
    clamped: false,
    ...how,
  };
}

/** What a task used until it was given up may be less than it used in the end: it counts only where it is no less than the hold. */
function covers(posted: Extract<Settlement, { kind: "post" }> | null, { hold }: ReservedTask): boolean {
  return posted !== null && posted.cost !== null && (hold === null || posted.cost >= hold);
}
