import { basisToHold, type BudgetWindow } from "../core/budget.ts";
import type { Formula, HoldKind, Source } from "../core/charge.ts";
import { formatDoubts, noTokens, tokenClasses } from "../core/usage.ts";
import { noMoney, type PicoUsd } from "../core/money.ts";
import type { HoldBasis } from "../core/bounds.ts";
import { runSessionOf } from "../core/keys.ts";
import type { StreamObservation } from "../core/slices.ts";
import type {
  AdjustResult,
  BurstMarksResult,
  ChargeEnd,
  Correction,
  ExtendResult,
  HoldRequest,
  HoldResult,
  Posting,
  SettleResult,
  WrittenResult,
} from "../ports/ledger.ts";
import type { BindResult, NewTask, TaskEnding, TaskObservation } from "../ports/task-store.ts";
import type { RunCommand, RunReply, WriteName } from "./tables/tables.ts";

/*
 * Everything that a writer can be asked to do. The frequent commands are flat arrays, because they cross to the writer's
 * thread by structured clone, where each object and each property name costs time.
 */

export type HoldCommand = readonly [
  op: "hold",
  id: string,
  kind: HoldKind,
  at: number,
  key: string,
  team: string | null,
  route: string,
  model: string,
  group: string | null,
  stream: boolean,
  priceId: string | null,
  canonical: string | null,
  amount: PicoUsd | null,
  bounded: boolean,
  tags: string | null,
  retry: number,
  firstSlice: PicoUsd | null,
  basis: readonly [by: string, outputTokens: number | null, outputCap: number | null, fitted: number | null] | null,
  sliceTokens: number | null,
  session: string | null,
];
/** Remembers what was written under an idempotency key; null only looks. */
export type WrittenCommand = readonly [op: "written", idempotency: string, written: string | null, at: number];
/** Takes note of what a stream showed of its model; null only looks. */
export type StreamsCommand = readonly [op: "streams", seen: StreamObservation | null, at: number];
export type ExtendCommand = readonly [op: "extend", id: string, amount: PicoUsd, atLeast: PicoUsd];
type EndFields = readonly [
  at: number,
  status: number | null,
  servedModel: string | null,
  gatewayRequestId: string | null,
  durationMs: number | null,
  firstTokenMs: number | null,
];
export type PostCommand = readonly [
  op: "post",
  id: string,
  cost: PicoUsd | null,
  listCost: PicoUsd | null,
  formula: Formula,
  source: Source,
  minimumApplied: boolean,
  clamped: boolean,
  reason: string | null,
  end: EndFields,
  tokens: readonly number[],
  notes: PostNotes | null,
];
/** What few charges have; by the names of columns, as they are stored. */
export interface PostNotes {
  readonly served_price_id: string | null;
  readonly service_tier: string | null;
  readonly tool_calls: string | null;
  readonly doubts: string | null;
  readonly delivered_input: number | null;
  readonly delivered_output: number | null;
  /** The text of the served price, to be written before the charge. */
  readonly servedCanonical: string | null;
}
export const noteColumns = [
  "served_price_id",
  "service_tier",
  "tool_calls",
  "doubts",
  "delivered_input",
  "delivered_output",
] as const;

export type VoidCommand = readonly [op: "void", id: string, reason: string, end: EndFields];
export type AdjustCommand = readonly [op: "adjust", id: string, correction: Correction];
export type BindTaskCommand = readonly [op: "bindTask", task: NewTask];
export type ObserveTaskCommand = readonly [op: "observeTask", taskId: string, observation: TaskObservation];
/** What of an ending stands in the task's own row. */
export type TaskEndFacts = Omit<TaskEnding, "settlement" | "end"> & { readonly at: number };
/** Ends the charge as the command in it says, and the task with it. */
export type EndTaskCommand = readonly [
  op: "endTask",
  settling: PostCommand | VoidCommand,
  taskId: string,
  facts: TaskEndFacts,
];
/** Ends up to `count` holds of dead owners. */
export type RecoverCommand = readonly [op: "recover", at: number, count: number];
/** Writes what changes nothing: done says that a write is possible. */
export type TouchCommand = readonly [op: "touch"];

export type Command =
  | HoldCommand
  | ExtendCommand
  | PostCommand
  | VoidCommand
  | WrittenCommand
  | StreamsCommand
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
  written: Extract<WrittenResult, { ok: true }>;
  streams: Extract<BurstMarksResult, { ok: true }>;
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

/** What became of one command of a batch. Of an `unavailable` one nothing was written. */
export type Outcome =
  | { readonly kind: "done"; readonly reply: Replies[keyof Replies] }
  | { readonly kind: "unavailable"; readonly message: string }
  /** A bug, or an amount beyond 64 bits: nothing was written, and trying again would not help. */
  | { readonly kind: "failed"; readonly message: string };

export interface BatchResult {
  /** In the order of the commands. */
  readonly outcomes: readonly Outcome[];
  /** Time that the transaction took. */
  readonly seconds: number;
  /** Whether keys, teams, budgets or settings were changed. */
  readonly changed: boolean;
}

/** Carries batches to a writer, one at a time. A rejection means that the writer died and the outcome is unknown. */
export interface BatchChannel {
  apply(commands: readonly Command[]): Promise<BatchResult>;
  close(): Promise<void>;
}

export function holdCommand(request: HoldRequest, withCanonical: boolean): HoldCommand {
  const { caller, price, basis = null } = request;
  let tags: string | null = null;
  let session: string | null = null;
  for (const _name in request.tags) {
    tags = JSON.stringify(request.tags);
    session = runSessionOf(request.tags);
    break;
  }
  return [
    "hold",
    request.id,
    request.kind,
    request.at,
    caller.key,
    caller.team,
    request.route,
    request.model,
    request.group,
    request.stream,
    price?.id ?? null,
    withCanonical ? (price?.canonical ?? null) : null,
    request.amount,
    request.bounded,
    tags,
    request.retry,
    request.firstSlice ?? null,
    basis && [basis.by, basis.outputTokens, basis.outputCap, basis.fitted],
    request.sliceTokens ?? null,
    session,
  ];
}

/** The basis of what a hold reserves under these windows. */
export function basisOf(
  windows: readonly Pick<BudgetWindow, "budget">[],
  [, , , , , , , , , , , , , , , , , basis, sliceTokens]: HoldCommand,
): HoldBasis | null {
  if (basis === null) return null;
  const [by, outputTokens, outputCap, fitted] = basis;
  return basisToHold(windows, { by, outputTokens, outputCap, fitted }, sliceTokens);
}

export function postCommand(id: string, posting: Posting, end: ChargeEnd): PostCommand {
  return [
    "post",
    id,
    posting.cost,
    posting.listCost,
    posting.formula,
    posting.source,
    posting.minimumApplied,
    posting.clamped,
    posting.reason,
    endFields(end),
    tokenClasses.map((name) => posting.tokens[name]),
    notesOf(posting),
  ];
}

/** The amount of a charge that is in doubt: all of it, for whatever reason. */
export function inDoubt(notes: PostNotes | null, cost: PicoUsd | null): bigint {
  return notes === null || notes.doubts === null ? 0n : (cost ?? 0n);
}

function notesOf({ servedPrice, billing, doubts, delivered }: Posting): PostNotes | null {
  if (servedPrice === undefined && billing === undefined && doubts === undefined && delivered === undefined)
    return null;
  const calls = billing?.calls ?? {};
  return {
    served_price_id: servedPrice?.id ?? null,
    service_tier: billing?.serviceTier ?? null,
    tool_calls: Object.keys(calls).length === 0 ? null : JSON.stringify(calls),
    doubts: formatDoubts(doubts),
    delivered_input: delivered?.input ?? null,
    delivered_output: delivered?.output ?? null,
    servedCanonical: servedPrice?.canonical ?? null,
  };
}

export function voidCommand(id: string, reason: string, end: ChargeEnd): VoidCommand {
  return ["void", id, reason, endFields(end)];
}

/** The amount of an orphaned request is unknown, and it may have been billed: its hold is posted, as the ledger knows it. */
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
  return postCommand(id, posting, {
    at,
    status: null,
    servedModel: null,
    gatewayRequestId: null,
    durationMs: null,
    firstTokenMs: null,
  });
}

/** Positions in the order of work: what ends holds before what needs room. */
export function settlesFirst(commands: readonly Command[]): number[] {
  const settles: number[] = [];
  const others: number[] = [];
  commands.forEach(([op], index) =>
    (op === "post" || op === "void" || op === "endTask" ? settles : others).push(index),
  );
  return settles.concat(others);
}

function endFields(end: ChargeEnd): EndFields {
  return [end.at, end.status, end.servedModel, end.gatewayRequestId, end.durationMs, end.firstTokenMs];
}
