import { assertNever, invariant } from "../../core/assert.ts";
import {
  amountToHold,
  noRooms,
  roomsOf,
  shortageOf,
  smallestRemaining,
  worstShortage,
  type BudgetWindow,
  type Shortage,
} from "../../core/budget.ts";
import { picoUsdMax, smaller, type PicoUsd } from "../../core/money.ts";
import { isCountedFor, subjectsMaxDefault } from "../../core/scope.ts";
import { messageOf } from "../../core/fault.ts";
import type { AdjustResult, ExtendResult, HoldResult, SettleResult } from "../../ports/ledger.ts";
import type { BindResult } from "../../ports/stores.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { holdColumns, postColumns, tokensIn } from "../charge-columns.ts";
import { adjust } from "../adjustments.ts";
import { inDoubt, orphanPost, settlesFirst } from "../commands.ts";
import type {
  AdjustCommand,
  BatchResult,
  BindTaskCommand,
  Command,
  EndTaskCommand,
  ExtendCommand,
  HoldCommand,
  Outcome,
  PostCommand,
  RecoverCommand,
  Replies,
  VoidCommand,
} from "../commands.ts";
import { sqliteDialect } from "../queries/dialects.ts";
import type { Query } from "../queries/query.ts";
import { snapshot, callerOfRow } from "../rows/budgets.ts";
import { stepsOf, type RunCommand, type RunReply, type WriteName } from "../tables/tables.ts";
import { correctLate, lateSettlement } from "../late-settlement.ts";
import { runsTask } from "../tables/tasks.ts";
import { checkTimeZone } from "../time-zone.ts";
import { acceptLock, answerEach } from "./answer.ts";
import { WindowStore, type OpenWindow } from "./window-store.ts";
import { ChargeStore, entryOf, hasSeveralModels, type EndedCharge, type PendingCharge } from "./charges.ts";
import { storageFault, type Connection, type Statement } from "./connection.ts";
import { lostFile, type OpenedFiles } from "./opened-files.ts";
import { RollupAdditions } from "./rollups.ts";
import { bindTask, endTask, observeTask } from "./task-commands.ts";

/**
 * Applies batches of commands on one connection, each batch in one transaction. The writer is synchronous, so a proxy
 * runs it on a separate thread. A batch has no savepoints, because each command checks its conditions before it writes.
 * If a command throws, the writer rolls the transaction back and applies the commands one by one. Then only the faulty
 * command fails.
 */
export class Writer {
  readonly #db: Connection;
  readonly #calendar: Calendar;
  readonly #opened: OpenedFiles;
  readonly #windows: WindowStore;
  readonly #charges: ChargeStore;
  readonly #rollups: RollupAdditions;
  readonly #begin: Statement;
  readonly #commit: Statement;
  readonly #dataVersion: Statement;
  readonly #bump: Statement;
  readonly #touch: Statement;
  /** Copies of windows, by window, that the refusals of a batch share. */
  readonly #copies = new Map<BudgetWindow, BudgetWindow>();
  #lastDataVersion: unknown = null;
  #owner: number | null;
  #ownerUncertain = false;
  #changed = false;

  /**
   * `owner`: epoch of the proxy's run; null for a CLI command, which registers a run with its first hold. `opened`:
   * files that must still be at their paths at each commit. `subjectsMax`: see `StoreOptions`.
   */
  constructor(
    db: Connection,
    calendar: Calendar,
    owner: number | null,
    {
      opened = {},
      subjectsMax = subjectsMaxDefault,
    }: { readonly opened?: OpenedFiles; readonly subjectsMax?: number | undefined } = {},
  ) {
    this.#db = db;
    this.#calendar = calendar;
    this.#opened = opened;
    this.#owner = owner;
    this.#rollups = new RollupAdditions(db, calendar);
    this.#windows = new WindowStore(db, calendar, () => this.#rollups.flush(), subjectsMax);
    this.#charges = new ChargeStore(db, this.#windows);
    this.#begin = db.prepare("begin immediate");
    this.#commit = db.prepare("commit");
    this.#dataVersion = db.prepare("pragma data_version").pluck();
    this.#bump = db.prepare("update meta set changes = changes + 1");
    this.#touch = db.prepare("update meta set changes = changes");
  }

  apply(commands: readonly Command[]): BatchResult {
    const start = performance.now();
    this.#changed = false;
    this.#copies.clear();
    const outcomes = this.#applyTogether(commands);
    return { outcomes, seconds: (performance.now() - start) / 1000, changed: this.#changed };
  }

  #applyTogether(commands: readonly Command[]): readonly Outcome[] {
    try {
      return this.#transaction(() => this.#inOrder(commands));
    } catch (error) {
      const fault = storageFault(error);
      if (fault !== null) return commands.map(() => ({ kind: "unavailable", message: fault }));
      const message = messageOf(error);
      if (commands.length === 1) return [{ kind: "failed", message }];
      return this.#applySingly(commands);
    }
  }

  #applySingly(commands: readonly Command[]): readonly Outcome[] {
    const outcomes = commands.map((): Outcome => ({ kind: "failed", message: "not applied" }));
    for (const index of settlesFirst(commands)) {
      outcomes[index] = this.#applyTogether(commands.slice(index, index + 1))[0] ?? {
        kind: "failed",
        message: "no outcome",
      };
    }
    return outcomes;
  }

  #inOrder(commands: readonly Command[]): Outcome[] {
    const outcomes: Outcome[] = Array.from({ length: commands.length });
    for (const index of settlesFirst(commands)) {
      const command = commands[index];
      if (command !== undefined) outcomes[index] = { kind: "done", reply: this.#run(command) };
    }
    return outcomes;
  }

  #transaction<T>(work: () => T): T {
    const changedBefore = this.#changed;
    try {
      this.#begin.run();
      this.#forgetIfOutdated();
      const result = work();
      this.#flush();
      const lost = lostFile(this.#opened);
      if (lost !== undefined) throw lost;
      this.#commit.run();
      this.#charges.confirm();
      this.#ownerUncertain = false;
      if (this.#windows.isLarge || this.#charges.isLarge) this.#forget();
      return result;
    } catch (error) {
      this.#forget();
      this.#changed = changedBefore;
      if (this.#ownerUncertain) this.#owner = null;
      this.#ownerUncertain = false;
      if (this.#db.inTransaction) this.#db.exec("rollback");
      throw error;
    }
  }

  /**
   * Clears the memory if another connection has written since this writer's previous transaction. Throws an error if it
   * has changed the time zone: a proxy may have started in another one while a command runs.
   */
  #forgetIfOutdated(): void {
    const version = this.#dataVersion.get();
    if (version === this.#lastDataVersion) return;
    answerEach(this.#db, checkTimeZone(this.#calendar));
    this.#lastDataVersion = version;
    this.#forget();
  }

  #flush(): void {
    this.#windows.flush();
    this.#rollups.flush();
  }

  #forget(): void {
    this.#windows.forget();
    this.#charges.forget();
    this.#rollups.forget();
  }

  #run(command: Command): Replies[keyof Replies] {
    switch (command[0]) {
      case "hold":
        return this.#hold(command);
      case "extend":
        return this.#extend(command);
      case "post":
      case "void":
        return this.#settleOrCorrect(command);
      case "adjust":
        return this.#adjust(command);
      case "run":
        return this.#write(command);
      case "bindTask":
        return this.#bindTask(command);
      case "observeTask":
        return answerEach(this.#db, observeTask(command[1], command[2]));
      case "endTask":
        return this.#endTask(command);
      case "recover":
        return this.#recover(command);
      case "touch":
        this.#touch.run();
        return true;
      default:
        return assertNever(command);
    }
  }

  #write(command: RunCommand): RunReply<WriteName> {
    const { steps, isAnnounced } = stepsOf(command);
    const reply = answerEach(this.#db, steps, (step) => this.#windows.applyStep(step));
    if (isAnnounced(reply)) this.#announce();
    return reply;
  }

  /** Notifies all processes of a change to keys, teams, sessions or budgets, or of a correction. */
  #announce(): void {
    this.#bump.run();
    this.#charges.forget();
    this.#changed = true;
  }

  #adjust([, id, correction]: AdjustCommand): AdjustResult {
    const result = this.#correct(adjust(sqliteDialect, this.#calendar, id, correction));
    if (result === "ok") this.#announce();
    return result;
  }

  /**
   * Runs a query that corrects charges, and returns its result. The query changes sums in the database, so the memory
   * is written before the query and cleared after it.
   */
  #correct<T>(query: Query<T>): T {
    this.#flush();
    const result = answerEach(this.#db, query, acceptLock);
    this.#forget();
    return result;
  }

  #hold(command: HoldCommand): HoldResult {
    const [, id, values] = command;
    const given = holdColumns.read(values);
    const caller = callerOfRow(given);
    const { admitted_at: at, hold: wholeHold, bounded, anyModel, firstSlice, isOwed } = given;
    // Refuses before it opens windows. Otherwise clients could open windows with made-up users, tags and models.
    if (!isOwed && (!bounded || (firstSlice ?? wholeHold) === null) && this.#windows.hasHard(caller, anyModel))
      return this.#charges.find(id) === undefined ? { ok: false, reason: "not_bounded" } : { ok: true, ...noRooms };
    const windows = this.#windows.open(caller, at);
    if (windows === null) return { ok: false, reason: "too_many_subjects" };
    const amount = amountToHold(windows, wholeHold, firstSlice);
    invariant(
      amount === null || (amount >= 0n && amount <= picoUsdMax),
      `the amount of a hold must be between 0 and ${picoUsdMax} pico-USD, not ${amount}`,
    );
    const shortage = amount === null || isOwed ? null : worstOf(windows, amount);
    if (shortage !== null)
      return this.#charges.find(id) === undefined ? this.#noRoom(shortage) : { ok: true, ...roomsOf(windows) };
    if (this.#charges.insert(command, caller, amount, this.#ownEpoch(at), windows))
      this.#windows.addTo(windows, 0n, amount ?? 0n);
    return { ok: true, ...roomsOf(windows) };
  }

  #extend([, id, amount, atLeast, at]: ExtendCommand): ExtendResult {
    invariant(
      0n <= atLeast && atLeast <= amount && amount <= picoUsdMax,
      `the amount of an extension must be between its minimum (${atLeast}) and ${picoUsdMax} pico-USD, not ${amount}`,
    );
    const found = this.#charges.find(id);
    if (found === undefined || !("pending" in found)) return { ok: false, reason: "not_pending" };
    const { pending } = found;
    this.#windows.applyRaises(pending.windows, at);
    const shortage = worstOf(pending.windows, atLeast);
    if (shortage !== null) return this.#noRoom(shortage);
    const granted = smaller(amount, smallestRemaining(pending.windows) ?? amount);
    this.#charges.extend(pending, granted);
    if (pending.hold !== null) this.#windows.addTo(pending.windows, 0n, granted);
    return { ok: true, granted };
  }

  /**
   * Returns the refusal for a shortage. The refusals of a batch share one copy of a window until the window changes. A
   * message contains a shared object only once, and cloning the copy takes longer than the refusal itself.
   */
  #noRoom(shortage: Shortage) {
    const { window } = shortage;
    let copy = this.#copies.get(window);
    if (copy?.spent !== window.spent || copy.held !== window.held || copy.raises !== window.raises)
      this.#copies.set(window, (copy = snapshot(window)));
    return { ok: false, reason: "no_room", shortage: { ...shortage, window: copy } } as const;
  }

  #settle(command: PostCommand | VoidCommand): SettleResult {
    const found = this.#charges.find(command[1]);
    if (found === undefined) return { ok: false, reason: "no_such_charge" };
    if ("ended" in found) return { ok: true, first: false, ...found.ended };
    const ended =
      command[0] === "post" ? this.#post(found.pending, command) : this.#charges.void(found.pending, command);
    const { windows, hold } = found.pending;
    const counted = countedIn(found.pending, command);
    this.#windows.addTo(counted, ended.cost ?? 0n, -(hold ?? 0n));
    if (counted.length < windows.length)
      this.#windows.addTo(
        windows.filter((window) => !counted.includes(window)),
        0n,
        -(hold ?? 0n),
      );
    return { ok: true, first: true, ...ended };
  }

  #settleOrCorrect(command: PostCommand | VoidCommand): SettleResult {
    const result = this.#settle(command);
    const late = result.ok && !result.first && result.state === "posted" ? lateSettlement(command) : null;
    if (late !== null && this.#correct(correctLate(sqliteDialect, this.#calendar, late))) this.#announce();
    return result;
  }

  #bindTask([, task]: BindTaskCommand): BindResult {
    const found = this.#charges.find(task.charge);
    const isPending = found !== undefined && "pending" in found && found.pending.kind === "task";
    return answerEach(this.#db, bindTask(task, isPending));
  }

  #endTask([, settling, taskId, details]: EndTaskCommand): SettleResult {
    const result = this.#settle(settling);
    if (result.ok) answerEach(this.#db, endTask(taskId, details));
    return result;
  }

  #post(charge: PendingCharge, command: PostCommand): EndedCharge {
    const [, , values, notes] = command;
    const { cost: stated, list_cost: statedList, formula, source } = postColumns.read(values);
    // "assumed" posts the stored hold. A caller that missed the reply to an extension does not know this hold.
    const cost = formula === "assumed" ? charge.hold : stated;
    const listCost = formula === "assumed" ? charge.hold : statedList;
    invariant((cost === null) === (formula === "unpriced"), `a cost of ${cost} does not fit the formula ${formula}`);
    invariant(
      cost === null || (cost >= 0n && cost <= picoUsdMax),
      `a cost must be between 0 and ${picoUsdMax} pico-USD, not ${cost}`,
    );
    const ended = this.#charges.post(charge, command, cost, listCost);
    this.#rollups.add({
      at: charge.at,
      key: charge.caller.key,
      team: charge.caller.team,
      model: charge.model,
      entry: entryOf(charge, notes),
      group: charge.group,
      source,
      tokens: tokensIn(values),
      unpriced: cost === null ? 1 : 0,
      retries: charge.retry > 0 ? 1 : 0,
      cost: cost ?? 0n,
      listCost: listCost ?? 0n,
      inDoubt: inDoubt(notes, cost),
    });
    return ended;
  }

  /** Posts orphaned holds and returns their number. Skips holds with a task in `tasks`, because the task continues. */
  #recover([, at, count]: RecoverCommand): number {
    const orphans = this.#db
      .prepare(
        `select id, hold is null from charges where state = 'pending' and owner <> ? and not ${runsTask} limit ?`,
      )
      .raw()
      .all(this.#owner ?? -1, count) as [id: string, unpriced: 0 | 1][];
    for (const [id, unpriced] of orphans) this.#settle(orphanPost(id, unpriced === 1, at));
    return orphans.length;
  }

  #ownEpoch(at: number): number {
    if (this.#owner === null) {
      this.#owner = registerOwner(this.#db, at);
      this.#ownerUncertain = true;
    }
    return this.#owner;
  }
}

/** Registers a run of a proxy or command and returns its epoch. No other run ever gets the same epoch. */
export function registerOwner(db: Connection, at: number): number {
  return Number(db.prepare("insert into owners (started_at) values (?)").run(at).lastInsertRowid);
}

/** Returns the windows in which a settled charge counts. If several models could answer, it counts for one only. */
function countedIn(charge: PendingCharge, command: PostCommand | VoidCommand): readonly OpenWindow[] {
  if (!hasSeveralModels(charge)) return charge.windows;
  const caller = { ...charge.caller, models: [entryOf(charge, command[0] === "post" ? command[3] : null)] };
  return charge.windows.filter(({ budget, subject }) => isCountedFor(budget.scope, subject, caller));
}

/** Returns the worst shortage among the windows that do not admit an amount; null if all windows admit it. */
function worstOf(windows: readonly OpenWindow[], amount: PicoUsd): Shortage | null {
  return worstShortage(windows.map((window) => shortageOf(window, amount)).filter((each) => each !== null));
}
