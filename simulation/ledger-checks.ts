import { type Budget, type Raise } from "../src/core/budget.ts";
import { appliesTo, hasSubjects, limitsUnbounded, subjectsOf } from "../src/core/scope.ts";
import type { Charge } from "../src/core/charge.ts";
import type { Calendar } from "../src/ports/calendar.ts";
import type { NewRaise, RaiseResult, SettleResult } from "../src/ports/ledger.ts";
import { holdColumns } from "../src/ledger/charge-columns.ts";
import {
  settlesFirst,
  type BatchResult,
  type Command,
  type HoldCommand,
  type Outcome,
} from "../src/ledger/commands.ts";
import type { RunCommand } from "../src/ledger/tables/tables.ts";
import type { DurableState } from "./disk.ts";

/**
 * Checks the ledger after every commit. Adds up the charges independently, in the simplest way, and reports each broken
 * rule as a fault.
 */
export class LedgerChecks {
  readonly #durable: DurableState;
  readonly #calendar: () => Calendar;
  readonly #onFault: (what: string) => void;
  readonly charges = new Map<string, Charge>();
  /** Windows that exist, by budget, start and subject. */
  readonly #opened = new Set<string>();
  /** Raises by budget and subject. */
  readonly #raises = new Map<string, Raise[]>();

  constructor(durable: DurableState, calendar: () => Calendar, onFault: (what: string) => void) {
    this.#durable = durable;
    this.#calendar = calendar;
    this.#onFault = onFault;
  }

  /** Called after each transaction. */
  onWritten(commands: readonly Command[], { outcomes }: BatchResult): void {
    const before = new Set(this.charges.keys());
    const changesBudgets = commands.some(([op, write]) => op === "run" && write.startsWith("budgets."));
    // Follow the writer's order, because a later command may have an earlier time, at which a raise was still in force.
    for (const index of settlesFirst(commands)) {
      const command = commands[index] as Command;
      const outcome = outcomes[index];
      if (outcome?.kind === "failed") this.#onFault(`a command failed: ${command[0]}: ${outcome.message}`);
      if (command[0] === "run") this.#onBudgetCommand(command, outcome);
      if (outcome?.kind !== "done") continue;
      if (command[0] === "post" || command[0] === "void") this.#checkFirst(command[1], outcome.reply as SettleResult);
      if (command[0] === "endTask") this.#checkFirst(command[1][1], outcome.reply as SettleResult);
      for (const id of this.#changedBy(command)) this.#checkCharge(id, command[0]);
      if (changesBudgets) continue;
      const isGranted = typeof outcome.reply === "object" && "ok" in outcome.reply && outcome.reply.ok;
      if (command[0] === "hold" && isGranted && !before.has(command[1])) this.#onAdmission(command);
      if (command[0] === "extend" && isGranted) this.#onExtension(command[1], command[4]);
    }
  }

  #onBudgetCommand([, write, args]: RunCommand, outcome: Outcome | undefined): void {
    if (write === "budgets.setBudget" && outcome?.kind === "done") this.#openWindows(outcome.reply as Budget, args[1]);
    if (write === "budgets.removeBudget") this.#removeBudget(`${args[0]}/${args[1]}`);
    if (write === "budgets.raiseBudget" && outcome?.kind === "done" && (outcome.reply as RaiseResult).ok)
      this.#addRaise(args[0]);
  }

  /** Opens the budget's current window for every subject that has charges in the window. */
  #openWindows(budget: Budget, at: number): void {
    const span = this.#calendar().spanOf(budget.period, at);
    if (!hasSubjects(budget.scope)) this.#opened.add(`${budget.id} ${span.start} `);
    for (const charge of this.charges.values()) {
      const isInside = charge.at >= span.start && (span.end === null || charge.at < span.end);
      if (isInside && charge.state !== "voided" && appliesTo(budget.scope, charge))
        for (const subject of subjectsOf(budget.scope, charge))
          this.#opened.add(`${budget.id} ${span.start} ${subject}`);
    }
  }

  #removeBudget(id: string): void {
    for (const names of [this.#opened, this.#raises])
      for (const name of names.keys()) if (name.startsWith(`${id} `)) names.delete(name);
  }

  #addRaise({ scope, period, subject, amount, from, until }: NewRaise): void {
    this.#opened.add(`${scope}/${period} ${from} ${subject}`);
    const name = `${scope}/${period} ${subject}`;
    this.#raises.set(name, [...(this.#raises.get(name) ?? []), { amount, from, until }]);
  }

  /** Rebuilds the current windows after a change of the time zone. */
  onZoneChange(at: number): void {
    this.#opened.clear();
    for (const budget of this.#durable.budgets()) this.#openWindows(budget, at);
  }

  #changedBy(command: Command): readonly string[] {
    switch (command[0]) {
      case "hold":
      case "extend":
      case "post":
      case "void":
        return [command[1]];
      case "endTask":
        return [command[1][1]];
      case "adjust":
        return [command[2].id];
      case "recover":
        return [...this.charges.values()].filter(({ state }) => state === "pending").map(({ id }) => id);
      default:
        return [];
    }
  }

  /** Checks that the ledger reports a settlement as the first one if and only if the charge was pending. */
  #checkFirst(id: string, result: SettleResult): void {
    const before = this.charges.get(id);
    if (result.ok && result.first !== (before?.state === "pending")) {
      this.#onFault(
        `the ledger says that this is ${result.first ? "" : "not "}the first settlement of ${id}, which was ${before?.state ?? "missing"}`,
      );
    }
  }

  /** Checks that a charge begins as pending and is settled once. A correction begins as posted. */
  #checkCharge(id: string, op: string): void {
    const before = this.charges.get(id);
    const now = this.#durable.charge(id);
    if (now === undefined) {
      if (before !== undefined) this.#onFault(`charge ${id} has disappeared`);
      return;
    }
    this.charges.set(id, now);
    if (before === undefined) {
      if (now.state !== "pending" && now.adjusts === null) this.#onFault(`charge ${id} begins as ${now.state}`);
      return;
    }
    const isSettled = before.state !== "pending";
    if (
      isSettled &&
      (before.state !== now.state ||
        before.cost !== now.cost ||
        before.endedAt !== now.endedAt ||
        before.reason !== now.reason)
    ) {
      this.#onFault(
        `charge ${id} was settled twice: ${before.state} ${before.cost}, then ${now.state} ${now.cost} by ${op}`,
      );
    }
    if (before.at !== now.at || before.key !== now.key || before.priceId !== now.priceId)
      this.#onFault(`charge ${id} was edited`);
    if (before.state === "pending" && now.state === "pending" && (now.hold ?? 0n) < (before.hold ?? 0n))
      this.#onFault(`the hold of ${id} shrank`);
  }

  #onAdmission([, id, values]: HoldCommand): void {
    const charge = this.charges.get(id);
    if (charge === undefined) return this.#onFault(`hold ${id} was granted, but has no charge`);
    const { bounded, anyModel } = holdColumns.read(values);
    const isUnbounded = !bounded || charge.hold === null;
    for (const budget of this.#durable.budgets()) {
      if (isUnbounded && budget.mode === "hard" && limitsUnbounded(budget.scope, charge, anyModel))
        this.#onFault(`${id} was admitted under the hard budget ${budget.id}, although its cost is not bounded`);
      if (!appliesTo(budget.scope, charge)) continue;
      const { start } = this.#calendar().spanOf(budget.period, charge.at);
      for (const subject of subjectsOf(budget.scope, charge)) {
        this.#opened.add(`${budget.id} ${start} ${subject}`);
        this.#checkRoom(budget, subject, charge, { when: "admission", decidedAt: charge.at });
      }
    }
  }

  /** Checks an extension in the existing windows of the charge's admission. */
  #onExtension(id: string, grantedAt: number): void {
    const charge = this.charges.get(id);
    if (charge === undefined) return this.#onFault(`${id} was extended, but has no charge`);
    for (const budget of this.#durable.budgets()) {
      const { start } = this.#calendar().spanOf(budget.period, charge.at);
      if (!appliesTo(budget.scope, charge)) continue;
      for (const subject of subjectsOf(budget.scope, charge)) {
        const exists = this.#opened.has(`${budget.id} ${start} ${subject}`);
        if (exists) this.#checkRoom(budget, subject, charge, { when: "extension", decidedAt: grantedAt });
      }
    }
  }

  /** Checks that the spent and held amounts of the charges are within a hard limit. */
  #checkRoom(
    budget: Budget,
    subject: string,
    { id, at, hold }: Charge,
    { when, decidedAt }: { readonly when: string; readonly decidedAt: number },
  ): void {
    if (budget.mode === "soft") return;
    if (hold === null) return this.#onFault(`${id} holds no amount under the hard budget ${budget.id}`);
    const { start, end } = this.#calendar().spanOf(budget.period, at);
    let sum = 0n;
    for (const other of this.charges.values()) {
      if (other.at < start || (end !== null && other.at >= end)) continue;
      if (!appliesTo(budget.scope, other) || !subjectsOf(budget.scope, other).includes(subject)) continue;
      if (other.state === "posted") sum += other.cost ?? 0n;
      else if (other.state === "pending") sum += other.hold ?? 0n;
    }
    let limit: bigint = budget.limit;
    // An extension may be granted after the end of the window, or before its start if the clock was set back.
    let decidedIn = decidedAt < start ? start : decidedAt;
    if (end !== null && decidedIn >= end) decidedIn = end - 1;
    for (const { amount, from, until } of this.#raises.get(`${budget.id} ${subject}`) ?? [])
      if (from <= decidedIn && (until === null || decidedIn < until)) limit += amount;
    if (sum > limit)
      this.#onFault(`at the ${when} of ${id}, spent + held is ${sum}, above the limit ${limit} of ${budget.id}`);
  }
}
