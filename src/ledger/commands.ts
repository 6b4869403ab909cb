import { basisToHold, type BudgetWindow } from "../core/budget.ts";
import { formatDoubts, noTokens } from "../core/usage.ts";
import type { Billing } from "../core/cost.ts";
import { formatRuns } from "../core/runs.ts";
import { noMoney, type PicoUsd } from "../core/money.ts";
import { runSessionOf } from "../core/keys.ts";
import type {
  AdjustResult,
  ChargeEnd,
  Correction,
  ExtendResult,
  HoldRequest,
  HoldResult,
  Posting,
  SettleResult,
} from "../ports/ledger.ts";
import type { BindResult, NewTask, TaskObservation } from "../ports/stores.ts";
import { endColumns, holdColumns, noteColumns, postColumns, type ValuesOf } from "./charge-columns.ts";
import { basisOf } from "./rows/charges.ts";
import type { TaskEndDetails } from "./tables/tasks.ts";
import type { RunCommand, RunReply, WriteName } from "./tables/tables.ts";

/*
 * Commands for a writer. Frequent commands are flat arrays, because each object and property name would slow down the
 * structured clone to the writer's thread.
 */

export type HoldCommand = readonly [op: "hold", id: string, values: ValuesOf<typeof holdColumns>];
export type ExtendCommand = readonly [op: "extend", id: string, amount: PicoUsd, atLeast: PicoUsd, at: number];
/** Posts a charge. `notes` is null for most charges. */
export type PostCommand = readonly [
  op: "post",
  id: string,
  values: ValuesOf<typeof postColumns>,
  notes: ValuesOf<typeof noteColumns> | null,
];
export type VoidCommand = readonly [op: "void", id: string, values: ValuesOf<typeof endColumns>];
export type AdjustCommand = readonly [op: "adjust", id: string, correction: Correction];
export type BindTaskCommand = readonly [op: "bindTask", task: NewTask];
export type ObserveTaskCommand = readonly [op: "observeTask", taskId: string, observation: TaskObservation];
/** Settles a charge with the command `settling`, and ends its task. */
export type EndTaskCommand = readonly [
  op: "endTask",
  settling: PostCommand | VoidCommand,
  taskId: string,
  details: TaskEndDetails,
];
/** Posts at most `count` orphaned holds. */
export type RecoverCommand = readonly [op: "recover", at: number, count: number];
/** Tests whether the ledger can be written, with a write that changes nothing. */
type TouchCommand = readonly [op: "touch"];

export type Command =
  | HoldCommand
  | ExtendCommand
  | PostCommand
  | VoidCommand
  | AdjustCommand
  | RunCommand
  | RecoverCommand
  | BindTaskCommand
  | ObserveTaskCommand
  | EndTaskCommand
  | TouchCommand;

export interface Replies {
  hold: HoldResult;
  extend: ExtendResult;
  post: SettleResult;
  void: SettleResult;
  adjust: AdjustResult;
  run: RunReply<WriteName>;
  bindTask: BindResult;
  observeTask: true;
  endTask: SettleResult;
  recover: number;
  touch: true;
}
export type ReplyTo<C extends Command> = C extends readonly ["run", infer Name extends WriteName, unknown]
  ? RunReply<Name>
  : Replies[C[0]];

/** Outcome of one command in a batch. `unavailable`: nothing was written. */
export type Outcome =
  | { readonly kind: "done"; readonly reply: Replies[keyof Replies] }
  | { readonly kind: "unavailable"; readonly message: string }
  /** The command has a bug or an amount beyond 64 bits. Nothing was written, and a retry would fail too. */
  | { readonly kind: "failed"; readonly message: string };

export interface BatchResult {
  /** Outcomes in the order of the commands. */
  readonly outcomes: readonly Outcome[];
  /** Duration of the transaction, in seconds. */
  readonly seconds: number;
  /** True if the batch may have changed keys, teams, budgets or settings, or corrected a charge. */
  readonly changed: boolean;
}

/** Sends batches to a writer, one at a time. `apply` rejects if the writer failed and the outcome is unknown. */
export interface BatchChannel {
  apply(commands: readonly Command[]): Promise<BatchResult>;
  close(): Promise<void>;
}

export function holdCommand(request: HoldRequest, withCanonical: boolean): HoldCommand {
  const { caller, price, basis = null, models = [] } = request;
  const tags = jsonOf(request.tags);
  const session = tags === null ? null : runSessionOf(request.tags);
  const values = holdColumns.of({
    kind: request.kind,
    admitted_at: request.at,
    key: caller.key,
    team: caller.team,
    route: request.route,
    model: request.model,
    price_group: request.group,
    stream: request.stream ? 1 : 0,
    price_id: price?.id ?? null,
    hold: request.amount,
    tags,
    session,
    entry: models[0] ?? request.model,
    entries: models.length > 1 ? JSON.stringify(models) : null,
    end_user: caller.user ?? null,
    labels: jsonOf(caller.labels),
    retry: request.retry,
    held_by: basis?.by ?? null,
    held_output: basis?.outputTokens ?? null,
    output_cap: basis?.outputCap ?? null,
    fitted: basis?.fitted ?? null,
    canonical: withCanonical ? (price?.canonical ?? null) : null,
    bounded: request.bounded,
    anyModel: request.anyModel === true,
    isOwed: request.isOwed === true,
    firstSlice: request.firstSlice ?? null,
    sliceTokens: request.sliceTokens ?? null,
  });
  return ["hold", request.id, values];
}

/** Returns values by name as JSON; null if there are none. */
function jsonOf(values: Readonly<Record<string, string>> = {}): string | null {
  for (const _name in values) return JSON.stringify(values);
  return null;
}

/**
 * Returns the column values of a hold of `amount`. The stored basis of the amount (`held_by`) depends on the windows.
 */
export function storedHold(
  values: HoldCommand[2],
  windows: readonly Pick<BudgetWindow, "budget">[],
  amount: PicoUsd | null,
): (string | number | bigint | null)[] {
  const given = holdColumns.read(values);
  const basis = basisToHold(windows, basisOf(given), given.sliceTokens);
  return holdColumns.stored(values, {
    hold: amount,
    held_by: basis?.by ?? null,
    held_output: basis?.outputTokens ?? null,
  });
}

export function postCommand(id: string, posting: Posting, end: ChargeEnd): PostCommand {
  const values = postColumns.of({
    ...endOf(end, posting.reason),
    cost: posting.cost,
    list_cost: posting.listCost,
    formula: posting.formula,
    source: posting.source,
    minimum_applied: posting.minimumApplied ? 1 : 0,
    clamped: posting.clamped ? 1 : 0,
    ...posting.tokens,
  });
  return ["post", id, values, notesOf(posting)];
}

/** Returns the amount in doubt of a charge: the whole cost if the notes state a doubt, otherwise 0. */
export function inDoubt(notes: PostCommand[3], cost: PicoUsd | null): bigint {
  return notes === null || noteColumns.read(notes).doubts === null ? 0n : (cost ?? 0n);
}

function notesOf({ servedPrice, billing, doubts, delivered, answered }: Posting): PostCommand[3] {
  if ([servedPrice, billing, doubts, delivered, answered].every((note) => note === undefined)) return null;
  const calls = billing?.calls ?? {};
  return noteColumns.of({
    served_price_id: servedPrice?.id ?? null,
    service_tier: billing?.serviceTier ?? null,
    tool_calls: Object.keys(calls).length === 0 ? null : JSON.stringify(calls),
    runs: billing?.runs === undefined ? null : formatRuns(billing.runs),
    doubts: formatDoubts(doubts),
    delivered_input: delivered?.input ?? null,
    delivered_output: delivered?.output ?? null,
    servedCanonical: servedPrice?.canonical ?? null,
    runPrices: runPricesOf(billing),
    answered: answered ?? null,
  });
}

/** Returns the prices of the runs' own models as JSON; null if there are none. */
function runPricesOf({ runs = [] }: Pick<Billing, "runs"> = {}): string | null {
  const prices = runs.flatMap(({ price }) => (price?.canonical === undefined ? [] : [[price.id, price.canonical]]));
  return prices.length === 0 ? null : JSON.stringify(prices);
}

export function voidCommand(id: string, reason: string, end: ChargeEnd): VoidCommand {
  return ["void", id, endColumns.of(endOf(end, reason))];
}

function endOf(end: ChargeEnd, reason: string | null) {
  return {
    ended_at: end.at,
    status: end.status,
    served_model: end.servedModel,
    gateway_request_id: end.gatewayRequestId,
    duration_ms: end.durationMs,
    first_token_ms: end.firstTokenMs,
    reason,
  };
}

/** Returns the end of a request whose answer the proxy did not receive. */
export function unseenEnd(at: number): ChargeEnd {
  return { at, status: null, servedModel: null, gatewayRequestId: null, durationMs: null, firstTokenMs: null };
}

/**
 * Returns a command that posts the whole hold of an orphaned request, because the gateway may bill an unknown amount.
 * For the formula `assumed`, the ledger replaces the stated cost of 0 by the hold.
 */
export function orphanPost(id: string, unpriced: boolean, at: number): PostCommand {
  const cost = unpriced ? null : noMoney;
  const posting: Posting = {
    kind: "post",
    cost,
    listCost: cost,
    tokens: noTokens,
    formula: unpriced ? "unpriced" : "assumed",
    source: "assumed",
    minimumApplied: false,
    clamped: false,
    reason: "crash",
  };
  return postCommand(id, posting, unseenEnd(at));
}

/**
 * Returns the indexes of commands in the order in which the writer applies them. Settlements come first, because they
 * free amounts for holds.
 */
export function settlesFirst(commands: readonly Command[]): number[] {
  const settles: number[] = [];
  const others: number[] = [];
  commands.forEach((command, index) => (endsHold(command) ? settles : others).push(index));
  return settles.concat(others);
}

/** Returns true if a command settles a charge. */
export function endsHold([op]: Command): boolean {
  return op === "post" || op === "void" || op === "endTask";
}
