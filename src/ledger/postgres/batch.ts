import { assertNever, invariant } from "../../core/assert.ts";
import { picoUsdMax } from "../../core/money.ts";
import type {
  BindTaskCommand,
  Command,
  EndTaskCommand,
  ExtendCommand,
  HoldCommand,
  PostCommand,
  ObserveTaskCommand,
  VoidCommand,
} from "../commands.ts";
import { endColumns, holdColumns, noteColumns, postColumns } from "../charge-columns.ts";
import { storedHold } from "../commands.ts";
import { amountUnder, type KnownBudgets, type NamedWindow } from "./known-budgets.ts";
import { storableJson } from "./text.ts";

/*
 * Commands as farebox_apply takes them: objects with the names of columns, amounts as text. See functions.sql.
 */

/** Commands that one call of farebox_apply carries out together. */
export type BatchedCommand =
  | HoldCommand
  | ExtendCommand
  | PostCommand
  | VoidCommand
  | BindTaskCommand
  | ObserveTaskCommand
  | EndTaskCommand;
export type Settling = PostCommand | VoidCommand;
export type Claim = HoldCommand | ExtendCommand;

export function isBatched(command: Command): command is BatchedCommand {
  switch (command[0]) {
    case "hold":
    case "extend":
    case "post":
    case "void":
    case "bindTask":
    case "observeTask":
    case "endTask":
      return true;
    default:
      return false;
  }
}

/** What a command is about: in one batch everything is named once, so that its order of work is any order. */
export function namesIn(command: BatchedCommand): string[] {
  switch (command[0]) {
    case "hold":
    case "extend":
    case "post":
    case "void":
      return [`charge ${command[1]}`];
    case "bindTask":
      return [`charge ${command[1].charge}`, `task ${command[1].taskId}`];
    case "observeTask":
      return [`task ${command[1]}`];
    case "endTask":
      return [`charge ${command[1][1]}`, `task ${command[2]}`];
    default:
      return assertNever(command);
  }
}

/** The charge that a command ends; null where it ends none. */
export function endedBy(command: BatchedCommand): string | null {
  const settling = command[0] === "endTask" ? command[1] : command;
  return settling[0] === "post" || settling[0] === "void" ? settling[1] : null;
}

/** The charge that a command posts, whose time of admission says of which day it is; null where it posts none. */
export function postedBy(command: BatchedCommand): string | null {
  const settling = command[0] === "endTask" ? command[1] : command;
  return settling[0] === "post" ? settling[1] : null;
}

/** Throws where the command is at fault. */
export function check(command: BatchedCommand): void {
  if (command[0] === "extend") {
    const [, , amount, atLeast] = command;
    invariant(amount >= atLeast && atLeast >= 0n && amount <= picoUsdMax, "an extension is an amount");
  }
  if (command[0] === "hold") {
    const { hold, firstSlice } = holdColumns.read(command[2]);
    for (const amount of [hold, firstSlice])
      invariant(amount === null || (amount >= 0n && amount <= picoUsdMax), "a hold is an amount");
  }
}

/** A batch with what its replies are read by. */
export interface PlannedBatch {
  readonly text: string;
  /** Which of the commands these are, in the order of their answers. The end of a task is one of both. */
  readonly settles: readonly number[];
  readonly claims: readonly number[];
  readonly tasks: readonly number[];
  /** What the claims need, in their order: a hold's amount, the least of an extension. */
  readonly needed: readonly (bigint | null)[];
}

export interface PlanOptions {
  readonly budgets: KnownBudgets;
  /** When charges were admitted, as far as it is known. */
  readonly admittedAt: (id: string) => number | undefined;
  /** Settle only charges of dead owners that no task is known of. */
  readonly orphans?: boolean;
}

/** Plans commands, which name everything once. */
export function planBatch(
  commands: readonly BatchedCommand[],
  { budgets, admittedAt, orphans = false }: PlanOptions,
): PlannedBatch {
  const plan = new Plan(budgets, admittedAt, orphans);
  commands.forEach((command, index) => plan.add(command, index));
  return plan.finish();
}

class Plan {
  readonly #budgets: KnownBudgets;
  readonly #admittedAt: (id: string) => number | undefined;
  readonly #orphans: boolean;
  readonly #ids: string[] = [];
  readonly #prices = new Map<string, string>();
  readonly #days = new Map<string, object>();
  readonly #sets = new WindowSets();
  readonly #rows = { settles: [] as object[], claims: [] as object[], tasks: [] as object[] };
  readonly #places = { settles: [] as number[], claims: [] as number[], tasks: [] as number[] };
  readonly #needed: (bigint | null)[] = [];

  constructor(budgets: KnownBudgets, admittedAt: (id: string) => number | undefined, orphans: boolean) {
    this.#budgets = budgets;
    this.#admittedAt = admittedAt;
    this.#orphans = orphans;
  }

  add(command: BatchedCommand, index: number): void {
    switch (command[0]) {
      case "hold":
        return this.#put("claims", index, this.#hold(command));
      case "extend":
        return this.#put("claims", index, this.#extend(command));
      case "post":
      case "void":
        return this.#put("settles", index, this.#settle(command));
      case "endTask":
        this.#put("settles", index, this.#settle(command[1]));
        return this.#put("tasks", index, taskEnd(command));
      case "bindTask":
        this.#ids.push(command[1].charge);
        return this.#put("tasks", index, taskBinding(command));
      case "observeTask":
        return this.#put("tasks", index, taskObservation(command));
      default:
        return assertNever(command);
    }
  }

  finish(): PlannedBatch {
    const { windows, sets } = this.#sets.finish();
    const prices = [...this.#prices].map(([id, canonical]) => ({ id, canonical }));
    const text = storableJson({
      ids: this.#ids,
      prices,
      windows,
      sets,
      days: [...this.#days.values()],
      settles: this.#rows.settles,
      claims: this.#rows.claims,
      tasks: this.#rows.tasks,
    });
    return { text, ...this.#places, needed: this.#needed };
  }

  #put(kind: "settles" | "claims" | "tasks", index: number, row: object): void {
    this.#places[kind].push(index);
    this.#rows[kind].push(row);
  }

  #day(at: number): void {
    const day = this.#budgets.calendar.dateOf(at);
    if (this.#days.has(day)) return;
    const { start, end } = this.#budgets.calendar.spanOf("1d", at);
    this.#days.set(day, { day, starts_at: start, ends_at: end });
  }

  #hold([, id, values]: HoldCommand): object {
    const given = holdColumns.read(values);
    const { key, team, session, admitted_at: at, hold, firstSlice, bounded } = given;
    this.#ids.push(id);
    this.#addPrice(given.price_id, given.canonical);
    const windows = this.#budgets.windowsOf({ key, team, session }, at);
    const amount = amountUnder(windows, hold, firstSlice);
    const isRefused = (amount === null || !bounded) && windows.some(({ budget }) => budget.mode === "hard");
    this.#needed.push(amount);
    return {
      op: "hold",
      id,
      ...byName(holdColumns.names, storedHold(values, windows, amount)),
      set: this.#sets.position(windows),
      amount: isRefused ? null : (amount ?? 0n).toString(),
    };
  }

  #addPrice(id: string | null, canonical: string | null): void {
    if (id !== null && canonical !== null) this.#prices.set(id, canonical);
  }

  #extend([, id, amount, atLeast]: ExtendCommand): object {
    this.#ids.push(id);
    this.#needed.push(atLeast);
    return { op: "extend", id, amount: amount.toString(), at_least: atLeast.toString() };
  }

  #settle(command: Settling): object {
    this.#ids.push(command[1]);
    const known = { id: command[1], ...(this.#orphans && { orphan: true }) };
    if (command[0] === "void")
      return { ...known, state: "voided", ...byName(endColumns.names, endColumns.stored(command[2])) };
    const at = this.#admittedAt(command[1]);
    if (at !== undefined) this.#day(at);
    const [, , values, notes] = command;
    const posted = { ...known, state: "posted", ...byName(postColumns.names, postColumns.stored(values)) };
    if (notes === null) return posted;
    const { served_price_id: servedPriceId, servedCanonical } = noteColumns.read(notes);
    this.#addPrice(servedPriceId, servedCanonical);
    return { ...posted, ...byName(noteColumns.names, noteColumns.stored(notes)) };
  }
}

/** Returns values by the names of their columns, amounts as text. */
function byName(names: readonly string[], values: readonly unknown[]): object {
  const row: Record<string, unknown> = {};
  for (let index = 0; index < names.length; index++) {
    const value = values[index];
    row[names[index] as string] = typeof value === "bigint" ? value.toString() : value;
  }
  return row;
}

/** The windows of a batch, each once, and the sets of them that apply to a hold. */
class WindowSets {
  readonly #windows = new Map<string, { readonly window: NamedWindow; position: number }>();
  readonly #sets = new Map<string, { readonly position: number; readonly names: readonly string[] }>();

  /** The position of the set, from 1. */
  position(windows: readonly NamedWindow[]): number {
    const names = windows.map((window) => {
      const name = `${window.budget.seq} ${window.start} ${window.subject}`;
      if (!this.#windows.has(name)) this.#windows.set(name, { window, position: 0 });
      return name;
    });
    const set = names.join("\0");
    const known = this.#sets.get(set);
    if (known !== undefined) return known.position;
    const position = this.#sets.size + 1;
    this.#sets.set(set, { position, names });
    return position;
  }

  finish(): { readonly windows: readonly object[]; readonly sets: object } {
    const windows = [...this.#windows.values()].map((entry, index) => {
      entry.position = index + 1;
      const { budget, subject, start, end } = entry.window;
      return { budget: budget.seq, subject, starts_at: start, ends_at: end, hard: budget.mode === "hard" };
    });
    const from: number[] = [];
    const to: number[] = [];
    const items: number[] = [];
    for (const { names } of this.#sets.values()) {
      from.push(items.length + 1);
      for (const name of names) items.push(this.#windows.get(name)?.position ?? 0);
      to.push(items.length);
    }
    return { windows, sets: { from, to, items } };
  }
}

function taskBinding([, task]: BindTaskCommand): object {
  const { taskId, charge, key, model, taskType, status, createdAt, startedAt, deadlineAt, quantity, nextPollAt } = task;
  return {
    op: "bind",
    row: {
      task_id: taskId,
      charge,
      key,
      model,
      task_type: taskType,
      status,
      created_at: createdAt,
      started_at: startedAt,
      deadline_at: deadlineAt,
      quantity,
      next_poll_at: nextPollAt,
    },
  };
}

function taskObservation([
  ,
  taskId,
  { status, startedAt, seenAt, nextPollAt, deadlineAt },
]: ObserveTaskCommand): object {
  return {
    op: "saw",
    row: {
      task_id: taskId,
      status,
      started_at: startedAt,
      seen_at: seenAt,
      next_poll_at: nextPollAt,
      deadline_at: deadlineAt,
    },
  };
}

function taskEnd([, settling, taskId, { at, status, startedAt, endedAt, failure, inputs }]: EndTaskCommand): object {
  return {
    op: "end",
    row: {
      task_id: taskId,
      charge: settling[1],
      status,
      started_at: startedAt,
      ended_at: endedAt,
      settled_at: at,
      failure,
      usage_type: inputs.consumption?.type ?? null,
      usage_units: inputs.consumption?.units ?? null,
      units_per_usd: inputs.unitsPerUsd,
      quantity: inputs.quantity,
    },
  };
}
