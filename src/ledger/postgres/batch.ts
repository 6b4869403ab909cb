import { callerOfRow, type NamedWindow } from "../rows/budgets.ts";
import { assertNever, invariant } from "../../core/assert.ts";
import { hasClientSubjects, limitsOneKey } from "../../core/scope.ts";
import { picoUsdMax } from "../../core/money.ts";
import {
  storedHold,
  type BindTaskCommand,
  type Command,
  type EndTaskCommand,
  type ExtendCommand,
  type HoldCommand,
  type ObserveTaskCommand,
  type PostCommand,
  type VoidCommand,
} from "../commands.ts";
import { endColumns, holdColumns, noteColumns, postColumns, pricesIn } from "../charge-columns.ts";
import { amountUnder, type KnownBudgets } from "./known-budgets.ts";
import { rowOfNewTask, rowOfObservation, rowOfTaskEnd } from "../tables/tasks.ts";
import { storableJson } from "./connection.ts";

/*
 * Converts commands to the input of farebox_apply (functions.sql). The input has objects with column names, and amounts
 * as text.
 */

/** Command that can share a call of farebox_apply with other commands. */
export type BatchedCommand =
  | HoldCommand
  | ExtendCommand
  | PostCommand
  | VoidCommand
  | BindTaskCommand
  | ObserveTaskCommand
  | EndTaskCommand;
type SettleCommand = PostCommand | VoidCommand;

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

/**
 * Returns names for a command's charge and task. A batch contains each name only once, so the order of its commands
 * does not matter.
 */
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

/** Returns the id of the charge that a command settles; null if it settles none. */
export function endedBy(command: BatchedCommand): string | null {
  const settling = command[0] === "endTask" ? command[1] : command;
  return settling[0] === "post" || settling[0] === "void" ? settling[1] : null;
}

/** Returns the id of the charge that a command posts; null if it posts none. */
export function postedBy(command: BatchedCommand): string | null {
  const settling = command[0] === "endTask" ? command[1] : command;
  return settling[0] === "post" ? settling[1] : null;
}

/** Throws if a command has an invalid amount. */
export function checkAmounts(command: BatchedCommand): void {
  if (command[0] === "extend") {
    const [, , amount, atLeast] = command;
    invariant(
      0n <= atLeast && atLeast <= amount && amount <= picoUsdMax,
      `the amount of an extension must be between its minimum (${atLeast}) and ${picoUsdMax} pico-USD, not ${amount}`,
    );
  }
  if (command[0] === "hold") {
    const { hold, firstSlice } = holdColumns.read(command[2]);
    for (const amount of [hold, firstSlice])
      invariant(
        amount === null || (amount >= 0n && amount <= picoUsdMax),
        `the amount of a hold must be between 0 and ${picoUsdMax} pico-USD, not ${amount}`,
      );
  }
}

/** Input of farebox_apply for a batch, and the data that `outcomesOf` needs to interpret the answer. */
export interface PlannedBatch {
  readonly text: string;
  /**
   * Indexes of the commands, in the order of the answers. `claims`: holds and extensions. A command that ends a task is
   * in both `settles` and `tasks`.
   */
  readonly settles: readonly number[];
  readonly claims: readonly number[];
  readonly tasks: readonly number[];
  /** Amount that each claim needs: the amount of a hold, or the minimum of an extension. */
  readonly needed: readonly (bigint | null)[];
  /** Windows of all holds. Each window is listed once. */
  readonly windows: readonly NamedWindow[];
  /**
   * Returns the indexes of the holds to refuse if the windows at these positions have too many new subjects. These are
   * the holds for whose keys the subjects count.
   */
  readonly refusedBy: (positions: readonly number[]) => ReadonlySet<number>;
}

export interface PlanOptions {
  readonly budgets: KnownBudgets;
  /** Returns the time of a charge's admission; undefined if it is unknown. */
  readonly admittedAt: (id: string) => number | undefined;
  /** True to settle only charges whose run has ended and that have no known task. */
  readonly orphans?: boolean;
}

/** Returns the input of farebox_apply for a batch. No two commands may name the same charge or task. */
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
  /** Latest instant of all claims; null while there are none. */
  #at: number | null = null;

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
        return this.#putTask(index, "end", {
          task_id: command[2],
          charge: command[1][1],
          ...rowOfTaskEnd(command[3]),
        });
      case "bindTask":
        this.#ids.push(command[1].charge);
        return this.#putTask(index, "bind", rowOfNewTask(command[1]));
      case "observeTask":
        return this.#putTask(index, "saw", { task_id: command[1], ...rowOfObservation(command[2]) });
      default:
        return assertNever(command);
    }
  }

  finish(): PlannedBatch {
    const windows = this.#sets.finish();
    const at = this.#at;
    const prices = [...this.#prices].map(([id, canonical]) => ({ id, canonical }));
    const text = storableJson({
      ids: this.#ids,
      prices,
      ...(at !== null && { at }),
      ...windows,
      days: [...this.#days.values()],
      settles: this.#rows.settles,
      claims: this.#rows.claims,
      tasks: this.#rows.tasks,
    });
    return {
      text,
      ...this.#places,
      needed: this.#needed,
      windows: this.#sets.windows(),
      refusedBy: (positions) => this.#refusedBy(new Set(positions)),
    };
  }

  #refusedBy(positions: ReadonlySet<number>): ReadonlySet<number> {
    const rows = this.#rows.claims as readonly { readonly key?: string; readonly set?: number }[];
    const claims = this.#places.claims.filter((_, n) => {
      const { key, set } = rows[n] ?? {};
      return key !== undefined && set !== undefined && this.#sets.countsIn(set, key, positions);
    });
    return new Set(claims);
  }

  #put(kind: "settles" | "claims" | "tasks", index: number, row: object): void {
    this.#places[kind].push(index);
    this.#rows[kind].push(row);
  }

  #putTask(index: number, op: "bind" | "saw" | "end", row: object): void {
    this.#put("tasks", index, { op, row });
  }

  #claimedAt(at: number): void {
    this.#at = Math.max(at, this.#at ?? at);
  }

  #day(at: number): void {
    const day = this.#budgets.calendar.dateOf(at);
    if (this.#days.has(day)) return;
    const { start, end } = this.#budgets.calendar.spanOf("1d", at);
    this.#days.set(day, { day, starts_at: start, ends_at: end });
  }

  #hold([, id, values]: HoldCommand): object {
    const given = holdColumns.read(values);
    const { admitted_at: at, hold, firstSlice, bounded, anyModel, isOwed } = given;
    this.#ids.push(id);
    this.#claimedAt(at);
    this.#addPrice(given.price_id, given.canonical);
    const caller = callerOfRow(given);
    const windows = this.#budgets.windowsOf(caller, at);
    const amount = amountUnder(windows, hold, firstSlice);
    const isNotBounded =
      !isOwed && ((firstSlice ?? hold) === null || !bounded) && this.#budgets.hasHard(caller, anyModel);
    // Opens no window for a hold that is not bounded: clients could open windows with made-up users, tags and models.
    const opened = isNotBounded ? [] : windows;
    this.#needed.push(amount);
    return {
      op: "hold",
      id,
      ...byName(holdColumns.names, storedHold(values, windows, amount)),
      set: this.#sets.position(opened, given.key, () => this.#budgets.calendar.dateOf(at)),
      amount: isNotBounded ? null : (amount ?? 0n).toString(),
      ...(isOwed && { owed: true }),
    };
  }

  #addPrice(id: string | null, canonical: string | null): void {
    if (id !== null && canonical !== null) this.#prices.set(id, canonical);
  }

  #extend([, id, amount, atLeast, at]: ExtendCommand): object {
    this.#ids.push(id);
    this.#claimedAt(at);
    this.#needed.push(atLeast);
    return { op: "extend", id, amount: amount.toString(), at_least: atLeast.toString() };
  }

  #settle(command: SettleCommand): object {
    this.#ids.push(command[1]);
    const known = { id: command[1], ...(this.#orphans && { orphan: true }) };
    if (command[0] === "void")
      return { ...known, state: "voided", ...byName(endColumns.names, endColumns.stored(command[2])) };
    const at = this.#admittedAt(command[1]);
    if (at !== undefined) this.#day(at);
    const [, , values, notes] = command;
    const posted = { ...known, state: "posted", ...byName(postColumns.names, postColumns.stored(values)) };
    if (notes === null) return posted;
    for (const [id, canonical] of pricesIn(notes)) this.#addPrice(id, canonical);
    const { answered } = noteColumns.read(notes);
    return { ...posted, ...byName(noteColumns.names, noteColumns.stored(notes)), answered };
  }
}

/** Returns an object with the values by column name. Converts amounts to text. */
function byName(names: readonly string[], values: readonly unknown[]): object {
  const row: Record<string, unknown> = {};
  for (let index = 0; index < names.length; index++) {
    const value = values[index];
    row[names[index] as string] = typeof value === "bigint" ? value.toString() : value;
  }
  return row;
}

/** Collects the windows of a batch without duplicates, and the sets of windows that apply to its holds. */
class WindowSets {
  readonly #windows = new Map<
    string,
    { readonly window: NamedWindow; readonly counted: { readonly key: string } | null; position: number }
  >();
  readonly #sets = new Map<string, { readonly position: number; readonly names: readonly string[] }>();

  /**
   * Returns the position of a set, counted from 1. Adds the set at its first use. New subjects of its windows count for
   * `key` and the day that `dayOf` returns.
   */
  position(windows: readonly NamedWindow[], key: string, dayOf: () => string): number {
    const names = windows.map((window) => {
      const name = `${window.budget.seq} ${window.start} ${window.subject}`;
      if (!this.#windows.has(name)) {
        const counted = hasClientSubjects(window.budget.scope) ? { key, day: dayOf() } : null;
        this.#windows.set(name, { window, counted, position: 0 });
      }
      return name;
    });
    const set = names.join("\0");
    const known = this.#sets.get(set);
    if (known !== undefined) return known.position;
    const position = this.#sets.size + 1;
    this.#sets.set(set, { position, names });
    return position;
  }

  /** Returns the windows without duplicates, in the order of their positions. */
  windows(): readonly NamedWindow[] {
    return [...this.#windows.values()].map(({ window }) => window);
  }

  /** Returns true if a set has a window at one of these positions whose subject counts for the key. */
  countsIn(set: number, key: string, positions: ReadonlySet<number>): boolean {
    const { names = [] } = [...this.#sets.values()][set - 1] ?? {};
    return names.some((name) => {
      const entry = this.#windows.get(name);
      return entry !== undefined && positions.has(entry.position) && entry.counted?.key === key;
    });
  }

  /** Numbers the windows from 1. Returns them and the sets as input of farebox_apply. Call it before `countsIn`. */
  finish(): object {
    const entries = [...this.#windows.values()];
    const windows = entries.map((entry, index) => {
      entry.position = index + 1;
      const { budget, subject, start, end } = entry.window;
      return { budget: budget.seq, subject, starts_at: start, ends_at: end, ...entry.counted };
    });
    const from: number[] = [];
    const to: number[] = [];
    const items: number[] = [];
    for (const { names } of this.#sets.values()) {
      from.push(items.length + 1);
      for (const name of names) items.push(this.#windows.get(name)?.position ?? 0);
      to.push(items.length);
    }
    return {
      windows,
      one_key: entries.map(({ window }) => limitsOneKey(window.budget.scope)),
      set_from: from,
      set_to: to,
      set_items: items,
    };
  }
}
