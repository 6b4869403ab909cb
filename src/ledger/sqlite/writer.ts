import { assertNever, invariant } from "../../core/assert.ts";
import { amountToHold, shortageOf, tightestRoom, worstShortage } from "../../core/budget.ts";
import { picoUsdMax, smaller, type PicoUsd } from "../../core/money.ts";
import type { AdjustResult, ExtendResult, HoldResult, SettleResult } from "../../ports/ledger.ts";
import type { BindResult } from "../../ports/task-store.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { holdColumns, postColumns, tokensIn, type ChargeRow } from "../charge-columns.ts";
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
import { snapshot } from "../rows/budgets.ts";
import { stepsOf, type RunCommand, type RunReply, type WriteName } from "../tables/tables.ts";
import { isPostedForTheDead, lateCorrection, lateSettlement } from "../late-settlement.ts";
import { runsTask } from "../tables/tasks.ts";
import { adjust } from "./adjustments.ts";
import { answerEach } from "./answer.ts";
import { WindowBook, type OpenWindow } from "./budgets.ts";
import { ChargeBook, type EndedCharge, type PendingCharge } from "./charges.ts";
import { storageFault, type Connection, type Statement } from "./connection.ts";
import { lostFile, type OpenedFiles } from "./opened-files.ts";
import { RollupBook } from "./rollups.ts";
import { bindTask, endTask, observeTask } from "./tasks.ts";
import { burstMarks } from "./stream-bursts.ts";
import { writtenFor } from "./written-limits.ts";

/**
 * Applies batches of commands to one connection, each batch in one transaction. Synchronous; it runs in the writer's
 * thread, or in the process of a command.
 *
 * A batch has no savepoints: every command checks before it writes, and one that throws gives the whole transaction up,
 * after which the commands are applied one by one, so that a failing one harms itself alone.
 */
export class Writer {
  readonly #db: Connection;
  readonly #opened: OpenedFiles;
  readonly #windows: WindowBook;
  readonly #charges: ChargeBook;
  readonly #rollups: RollupBook;
  readonly #begin: Statement;
  readonly #commit: Statement;
  readonly #dataVersion: Statement;
  readonly #bump: Statement;
  readonly #touch: Statement;
  #lastDataVersion: unknown = null;
  #owner: number | null;
  #ownerUncertain = false;
  #changed = false;

  /** `owner`: the epoch of the running proxy; null for a process that gets one with its first hold. `opened`: must still be there when it commits. */
  constructor(db: Connection, calendar: Calendar, owner: number | null, opened: OpenedFiles = {}) {
    this.#db = db;
    this.#opened = opened;
    this.#owner = owner;
    this.#windows = new WindowBook(db, calendar);
    this.#charges = new ChargeBook(db, this.#windows);
    this.#rollups = new RollupBook(db, calendar);
    this.#begin = db.prepare("begin immediate");
    this.#commit = db.prepare("commit");
    this.#dataVersion = db.prepare("pragma data_version").pluck();
    this.#bump = db.prepare("update meta set changes = changes + 1");
    this.#touch = db.prepare("update meta set changes = changes");
  }

  apply(commands: readonly Command[]): BatchResult {
    const start = performance.now();
    this.#changed = false;
    const outcomes = this.#applyTogether(commands);
    return { outcomes, seconds: (performance.now() - start) / 1000, changed: this.#changed };
  }

  #applyTogether(commands: readonly Command[]): readonly Outcome[] {
    try {
      return this.#transaction(() => this.#inOrder(commands));
    } catch (error) {
      const fault = storageFault(error);
      if (fault !== null) return commands.map(() => ({ kind: "unavailable", message: fault }));
      const message = error instanceof Error ? error.message : String(error);
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
      this.#noticeOthers();
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

  /** Another connection has written since the last transaction: what is in memory may be outdated. */
  #noticeOthers(): void {
    const version = this.#dataVersion.get();
    if (version === this.#lastDataVersion) return;
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
      case "written":
        return writtenFor(this.#db, command);
      case "streams":
        return burstMarks(this.#db, command);
      case "adjust":
        return this.#adjust(command);
      case "run":
        return this.#write(command);
      case "bindTask":
        return this.#bindTask(command);
      case "observeTask":
        return observeTask(this.#db, command[1], command[2]);
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
    const reply = answerEach(this.#db, steps, (step) => this.#windows.carryOut(step));
    if (isAnnounced(reply)) this.#announce();
    return reply;
  }

  /** Lets all who watch the database notice that keys, teams, budgets or charges were changed. */
  #announce(): void {
    this.#bump.run();
    this.#charges.forget();
    this.#changed = true;
  }

  #adjust(command: AdjustCommand): AdjustResult {
    this.#flush();
    const result = adjust(this.#db, this.#windows, this.#rollups, command);
    this.#announce();
    return result;
  }

  #hold(command: HoldCommand): HoldResult {
    const [, id, values] = command;
    const { admitted_at: at, key, team, session, hold: whole, bounded, firstSlice } = holdColumns.read(values);
    const windows = this.#windows.open({ key, team, session }, at);
    const amount = amountToHold(windows, whole, firstSlice);
    invariant(amount === null || (amount >= 0n && amount <= picoUsdMax), "a hold is an amount");
    const refusal = refuse(windows, amount, bounded);
    if (refusal !== null)
      return this.#charges.find(id) === undefined ? refusal : { ok: true, room: tightestRoom(windows) };
    if (this.#charges.insert(command, amount, this.#ownEpoch(at), windows))
      this.#windows.move(windows, 0n, amount ?? 0n);
    return { ok: true, room: tightestRoom(windows) };
  }

  #extend([, id, amount, atLeast]: ExtendCommand): ExtendResult {
    invariant(amount >= atLeast && atLeast >= 0n && amount <= picoUsdMax, "an extension is an amount");
    const found = this.#charges.find(id);
    if (found === undefined || !("pending" in found)) return { ok: false, reason: "not_pending" };
    const { pending } = found;
    const shortage = worstShortage(
      pending.windows.map((window) => shortageOf(window, atLeast)).filter((each) => each !== null),
    );
    if (shortage !== null)
      return { ok: false, reason: "no_room", shortage: { ...shortage, window: snapshot(shortage.window) } };
    const granted = smaller(amount, tightestRoom(pending.windows) ?? amount);
    this.#charges.enlarge(pending, granted);
    if (pending.hold !== null) this.#windows.move(pending.windows, 0n, granted);
    return { ok: true, granted };
  }

  #settle(command: PostCommand | VoidCommand): SettleResult {
    const found = this.#charges.find(command[1]);
    if (found === undefined) return { ok: false, reason: "no_such_charge" };
    if ("ended" in found) return { ok: true, first: false, ...found.ended };
    const ended =
      command[0] === "post" ? this.#post(found.pending, command) : this.#charges.void(found.pending, command);
    this.#windows.move(found.pending.windows, ended.cost ?? 0n, -(found.pending.hold ?? 0n));
    return { ok: true, first: true, ...ended };
  }

  #settleOrCorrect(command: PostCommand | VoidCommand): SettleResult {
    const result = this.#settle(command);
    const late = result.ok && !result.first && result.state === "posted" ? lateSettlement(command) : null;
    const charge =
      late && (this.#db.prepare("select * from charges where id = ?").safeIntegers().get(late.id) as ChargeRow);
    if (late === null || charge === null || !isPostedForTheDead(charge)) return result;
    const sums = "select coalesce(sum(cost), 0), coalesce(sum(list_cost), 0) from charges where id = ? or adjusts = ?";
    const [total, listTotal] = this.#db.prepare(sums).raw().safeIntegers().get(late.id, late.id) as [bigint, bigint];
    const correction = lateCorrection(late, total, listTotal);
    if (correction !== null) this.#adjust(["adjust", late.id, correction]);
    return result;
  }

  #bindTask([, task]: BindTaskCommand): BindResult {
    const found = this.#charges.find(task.charge);
    return bindTask(this.#db, task, found !== undefined && "pending" in found && found.pending.kind === "task");
  }

  #endTask([, settling, taskId, facts]: EndTaskCommand): SettleResult {
    const result = this.#settle(settling);
    if (result.ok) endTask(this.#db, taskId, facts);
    return result;
  }

  #post(charge: PendingCharge, command: PostCommand): EndedCharge {
    const [, , values, notes] = command;
    const { cost: stated, list_cost: statedList, formula, source } = postColumns.read(values);
    // "assumed" is the hold itself, as the ledger knows it: an extension may have been granted without the caller hearing of it.
    const cost = formula === "assumed" ? charge.hold : stated;
    const listCost = formula === "assumed" ? charge.hold : statedList;
    invariant((cost === null) === (formula === "unpriced"), "only an unpriced charge has no cost");
    invariant(cost === null || (cost >= 0n && cost <= picoUsdMax), "a cost is an amount");
    const ended = this.#charges.post(charge, command, cost, listCost);
    this.#rollups.add({
      at: charge.at,
      key: charge.caller.key,
      team: charge.caller.team,
      model: charge.model,
      group: charge.group,
      source,
      tokens: tokensIn(values),
      requests: 1,
      unpriced: cost === null ? 1 : 0,
      retries: charge.retry > 0 ? 1 : 0,
      cost: cost ?? 0n,
      listCost: listCost ?? 0n,
      inDoubt: inDoubt(notes, cost),
    });
    return ended;
  }

  /** A task that is known goes on. */
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

/** Registers a run that will place holds; its epoch is never given again. */
export function registerOwner(db: Connection, at: number): number {
  return Number(db.prepare("insert into owners (started_at) values (?)").run(at).lastInsertRowid);
}

function refuse(windows: readonly OpenWindow[], amount: PicoUsd | null, bounded: boolean): HoldResult | null {
  if (amount === null || !bounded) {
    return windows.some(({ budget }) => budget.mode === "hard") ? { ok: false, reason: "not_bounded" } : null;
  }
  const shortages = windows.map((window) => shortageOf(window, amount)).filter((each) => each !== null);
  const shortage = worstShortage(shortages);
  return shortage && { ok: false, reason: "no_room", shortage: { ...shortage, window: snapshot(shortage.window) } };
}
