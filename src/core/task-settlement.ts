import { divideUp, noMoney, picoUsdMax, plainDecimal, scaledDecimal, usd, type PicoUsd } from "./money.ts";
import type { PriceVersion, TaskPrice } from "./price.ts";
import type { Consumption, FinalStatus } from "./tasks.ts";
import type { Source } from "./charge.ts";
import { postHold, type Posted, type Settlement } from "./settlement.ts";
import { noTokens } from "./usage.ts";

/** Inputs from which a task's amounts can be recomputed. */
export interface TaskInputs {
  readonly consumption: Consumption | null;
  /** Number of units per USD; null if the consumption is not priced. */
  readonly unitsPerUsd: string | null;
  /** Quantity in the unit of the price; null if the price was not applied. */
  readonly quantity: string | null;
}

export interface TaskAmounts {
  readonly charged: PicoUsd;
  readonly list: PicoUsd;
}

/**
 * Returns the cost and the list cost of a task. Computes the cost from the consumption if its unit has a value in USD,
 * and otherwise from the price. The list cost is the official price, or equals the cost if there is no price. Returns
 * null if neither gives a cost, or if an amount exceeds 64 bits. Rounds fractions of a pico-USD up.
 */
export function taskAmounts(
  { consumption, unitsPerUsd, quantity }: TaskInputs,
  price: TaskPrice | null,
): TaskAmounts | null {
  const priced =
    price === null || quantity === null
      ? null
      : { charged: times(price.charged, quantity), list: times(price.list, quantity) };
  const reported = consumption === null || unitsPerUsd === null ? null : usdOfUnits(consumption.units, unitsPerUsd);
  const charged = reported ?? priced?.charged;
  if (charged === undefined) return null;
  const list = priced?.list ?? charged;
  return charged > picoUsdMax || list > picoUsdMax ? null : { charged: charged as PicoUsd, list: list as PicoUsd };
}

const oneUsd = usd("1");

function usdOfUnits(units: string, unitsPerUsd: string): bigint {
  const { digits, scale } = scaledDecimal(units);
  return divideUp(digits * oneUsd, scale * BigInt(unitsPerUsd));
}

function times(amount: PicoUsd, quantity: string): bigint {
  const { digits, scale } = scaledDecimal(quantity);
  return divideUp(amount * digits, scale);
}

/** Hold and price of a task. */
export interface ReservedTask {
  /** Null for a task without a price. */
  readonly hold: PicoUsd | null;
  readonly price: PriceVersion | null;
  /** Quantity that the request stated, in the unit of the price; null if it stated none. */
  readonly quantity: string | null;
}

/** All reasons to settle a task with a known id. */
export type TaskOutcome =
  | {
      readonly kind: "ended";
      readonly status: FinalStatus;
      readonly consumption: Consumption | null;
      /** True if the account's private pool ran the task. The gateway does not bill such tasks. */
      readonly isPrivatePool?: boolean;
      /** True if the task failed because it exceeded its family's time limit. */
      readonly isPastTimeLimit?: boolean;
    }
  /** No task record showed the end of the task before its deadline. */
  | { readonly kind: "expired"; readonly consumption: Consumption | null };

/** Settlement of a task's hold, and the inputs from which its amounts can be recomputed. */
export interface TaskSettlement {
  readonly settlement: Settlement;
  readonly inputs: TaskInputs;
}

/**
 * Returns true if a completed task has a price, but its record states no consumption or 0 units. The poller then polls
 * the record again. Returns false if the account's private pool ran the task.
 */
export function lacksConsumption({ price }: Pick<ReservedTask, "price">, outcome: TaskOutcome): boolean {
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
 * Returns the amounts that a record proves after settlement: its priced consumption, or 0 for a failed or cancelled
 * task without consumption. Returns null if the record proves no amount.
 */
export function laterAmounts(
  reserved: ReservedTask,
  outcome: TaskOutcome,
  unitsPerUsd: (type: string) => string | undefined,
): TaskAmounts | null {
  if (lacksConsumption(reserved, outcome)) return null;
  const { settlement } = taskSettlementFor(reserved, outcome, unitsPerUsd);
  if (settlement.kind === "void") return { charged: noMoney, list: noMoney };
  const { source, cost, listCost } = settlement;
  return source === "reported" && cost !== null ? { charged: cost, list: listCost ?? cost } : null;
}

/**
 * Returns the settlement of a task's hold, and its inputs. Pure, and defined for every outcome. Never releases an
 * amount unless it is proven unused. `unitsPerUsd` returns the number of units per USD for a consumption type, as the
 * catalogue states it.
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
  const reason =
    outcomeReasons[outcome.kind === "expired" || outcome.isPastTimeLimit === true ? "expired" : outcome.status];
  if (outcome.kind === "ended" && !isDone && !used) {
    return { settlement: { kind: "void", reason: reason ?? `task_${outcome.status}` }, inputs: raw };
  }
  // Consumption with a known value in USD decides the cost. The price decides only the list cost of a completed task.
  const reported: TaskInputs = { ...raw, unitsPerUsd: unit, quantity: isDone ? reserved.quantity : null };
  const unstated = lacksConsumption(reserved, outcome);
  if (unit !== null && (used || isDone) && !unstated) {
    const posted = post(reserved, reported, {
      source: outcome.kind === "expired" ? "partial" : "reported",
      reason,
    });
    if (outcome.kind === "expired" && !covers(posted, reserved))
      return { settlement: postHold(reserved, "assumed", reason), inputs: raw };
    return posted === null
      ? { settlement: postHold(reserved, "assumed", "not_recordable"), inputs: raw }
      : { settlement: posted, inputs: reported };
  }
  const doubts = unstated ? { doubts: ["task_consumption"] as const } : {};
  if (outcome.kind === "ended" && reserved.price?.task !== undefined && reserved.quantity !== null) {
    const priced: TaskInputs = { ...raw, quantity: reserved.quantity };
    const posted = post(reserved, priced, {
      source: unstated ? "assumed" : "counted",
      reason: unstated ? "task_not_measured" : reason,
    });
    if (posted !== null) return { settlement: { ...posted, ...doubts }, inputs: priced };
  }
  return { settlement: { ...postHold(reserved, "assumed", reason ?? "task_not_measured"), ...doubts }, inputs: raw };
}

/** Reasons that are stored with the charge; null for a completed task. */
const outcomeReasons = {
  completed: null,
  failed: "task_failed",
  cancelled: "task_cancelled",
  expired: "task_time_limit",
} as const;

function post(
  { price }: ReservedTask,
  inputs: TaskInputs,
  how: { readonly source: Source; readonly reason: string | null },
): Posted | null {
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

/**
 * Returns true if a posted cost is at least the hold. The consumption of an abandoned task may still grow, so a smaller
 * cost does not count.
 */
function covers(posted: Posted | null, { hold }: ReservedTask): boolean {
  return posted !== null && posted.cost !== null && (hold === null || posted.cost >= hold);
}

/** Consumption of a number of tasks in one type of unit that has no value in USD in the price files. */
export interface RawUnits {
  /** "" if the record states no type. */
  readonly type: string;
  /** A plain decimal. */
  readonly units: string;
  readonly tasks: number;
}

/**
 * Returns the sums of the units by type, sorted by type. A row of `rows` has the consumption of a single task. The sums
 * are exact: no floating-point numbers are used.
 */
export function sumRawUnits(rows: readonly RawUnits[]): readonly RawUnits[] {
  const scale = rows.reduce(
    (largest, { units }) => (scaledDecimal(units).scale > largest ? scaledDecimal(units).scale : largest),
    1n,
  );
  const sums = new Map<string, { digits: bigint; tasks: number }>();
  for (const { type, units, tasks } of rows) {
    const sum = sums.get(type) ?? { digits: 0n, tasks: 0 };
    const one = scaledDecimal(units);
    sums.set(type, { digits: sum.digits + one.digits * (scale / one.scale) * BigInt(tasks), tasks: sum.tasks + tasks });
  }
  return [...sums]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([type, { digits, tasks }]) => ({ type, units: decimalText(digits, scale), tasks }));
}

function decimalText(digits: bigint, scale: bigint): string {
  const text = `${digits / scale}.${String(digits % scale).padStart(String(scale).length - 1, "0")}`;
  return plainDecimal(text) ?? text;
}
