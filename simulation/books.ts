import { callerOf, subjectOf, appliesTo, type Budget } from "../src/core/budget.ts";
import type { Charge } from "../src/core/charge.ts";
import type { Calendar } from "../src/ports/calendar.ts";
import type { SettleResult } from "../src/ports/ledger.ts";
import type { BatchResult, Command, Outcome } from "../src/ledger/commands.ts";
import type { RunCommand } from "../src/ledger/tables/tables.ts";
import type { Look } from "./disk.ts";

/**
 * Keeps its own sums next to the ledger: what every commit left behind, added up again in the plainest way. What does not
 * agree with DESIGN's invariants is a fault.
 */
export class Books {
  readonly #look: Look;
  readonly #calendar: () => Calendar;
  readonly #onFault: (what: string) => void;
  readonly charges = new Map<string, Charge>();
  /** Windows that exist, by budget, start and subject. */
  readonly #opened = new Set<string>();

  constructor(look: Look, calendar: () => Calendar, onFault: (what: string) => void) {
    this.#look = look;
    this.#calendar = calendar;
    this.#onFault = onFault;
  }

  /** After each transaction. */
  written(commands: readonly Command[], { outcomes }: BatchResult): void {
    const before = new Set(this.charges.keys());
    commands.forEach((command, index) => {
      const outcome = outcomes[index];
      if (outcome?.kind === "failed") this.#onFault(`a command failed: ${command[0]}: ${outcome.message}`);
      if (outcome?.kind !== "done") return;
      if (command[0] === "post" || command[0] === "void") this.#settled(command[1], outcome.reply as SettleResult);
      if (command[0] === "endTask") this.#settled(command[1][1], outcome.reply as SettleResult);
      for (const id of this.#touchedBy(command)) this.#take(id, command[0]);
    });
    const changesBudgets = commands.some(([op, write]) => op === "run" && write.startsWith("budgets."));
    commands.forEach((command, index) => {
      const outcome = outcomes[index];
      if (command[0] === "run") this.#budgetChanged(command, outcome);
      if (outcome?.kind !== "done" || changesBudgets) return;
      const isGranted = typeof outcome.reply === "object" && "ok" in outcome.reply && outcome.reply.ok;
      if (command[0] === "hold" && isGranted && !before.has(command[1])) this.#admitted(command[1]);
      if (command[0] === "extend" && isGranted) this.#extended(command[1]);
    });
  }

  #budgetChanged([, write, args]: RunCommand, outcome: Outcome | undefined): void {
    if (write === "budgets.setBudget" && outcome?.kind === "done") this.budgetSet(outcome.reply as Budget, args[1]);
    if (write === "budgets.removeBudget") this.budgetRemoved(`${args[0]}/${args[1]}`);
  }

  /** Its current window exists from now on, for whom it has charges. */
  budgetSet(budget: Budget, at: number): void {
    const span = this.#calendar().spanOf(budget.period, at);
    if (budget.scope.kind !== "eachKey") this.#opened.add(`${budget.id} ${span.start} `);
    for (const charge of this.charges.values()) {
      const isInside = charge.at >= span.start && (span.end === null || charge.at < span.end);
      if (isInside && charge.state !== "voided" && appliesTo(budget.scope, callerOf(charge)))
        this.#opened.add(`${budget.id} ${span.start} ${subjectOf(budget.scope, charge)}`);
    }
  }

  budgetRemoved(id: string): void {
    for (const name of this.#opened) if (name.startsWith(`${id} `)) this.#opened.delete(name);
  }

  /** Builds the current windows again in another time zone. */
  zoneChanged(at: number): void {
    this.#opened.clear();
    for (const budget of this.#look.budgets()) this.budgetSet(budget, at);
  }

  #touchedBy(command: Command): readonly string[] {
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

  /** Checks that a repeated settlement is answered with the first one. */
  #settled(id: string, result: SettleResult): void {
    const before = this.charges.get(id);
    if (result.ok && result.first !== (before?.state === "pending")) {
      this.#onFault(
        `the ledger says that this is ${result.first ? "" : "not "}the first settlement of ${id}, which was ${before?.state ?? "not there"}`,
      );
    }
  }

  /** A charge begins as pending and ends once; a correction is posted from the start. */
  #take(id: string, op: string): void {
    const before = this.charges.get(id);
    const now = this.#look.charge(id);
    if (now === undefined) {
      if (before !== undefined) this.#onFault(`charge ${id} is gone`);
      return;
    }
    this.charges.set(id, now);
    if (before === undefined) {
      if (now.state !== "pending" && now.adjusts === null) this.#onFault(`charge ${id} begins as ${now.state}`);
      return;
    }
    const isEnded = before.state !== "pending";
    if (
      isEnded &&
      (before.state !== now.state ||
        before.cost !== now.cost ||
        before.endedAt !== now.endedAt ||
        before.reason !== now.reason)
    ) {
      this.#onFault(`charge ${id} ended twice: ${before.state} ${before.cost}, then ${now.state} ${now.cost} by ${op}`);
    }
    if (before.at !== now.at || before.key !== now.key || before.priceId !== now.priceId)
      this.#onFault(`charge ${id} was edited`);
    if (before.state === "pending" && now.state === "pending" && (now.hold ?? 0n) < (before.hold ?? 0n))
      this.#onFault(`the hold of ${id} shrank`);
  }

  #admitted(id: string): void {
    const charge = this.charges.get(id);
    if (charge === undefined) return this.#onFault(`hold ${id} was granted and is not there`);
    for (const budget of this.#look.budgets()) {
      if (!appliesTo(budget.scope, callerOf(charge))) continue;
      this.#opened.add(
        `${budget.id} ${this.#calendar().spanOf(budget.period, charge.at).start} ${subjectOf(budget.scope, charge)}`,
      );
      this.#checkRoom(budget, charge, "admission");
    }
  }

  /** An extension is for the windows of the admission, as far as they exist. */
  #extended(id: string): void {
    const charge = this.charges.get(id);
    if (charge === undefined) return this.#onFault(`${id} was extended and is not there`);
    for (const budget of this.#look.budgets()) {
      const { start } = this.#calendar().spanOf(budget.period, charge.at);
      const exists = this.#opened.has(`${budget.id} ${start} ${subjectOf(budget.scope, charge)}`);
      if (exists && appliesTo(budget.scope, callerOf(charge))) this.#checkRoom(budget, charge, "extension");
    }
  }

  /** Invariant 5: spent and held, by the charges themselves, are within the limit. */
  #checkRoom(budget: Budget, { id, at, key, team, hold }: Charge, when: string): void {
    if (budget.mode === "soft") return;
    if (hold === null) return this.#onFault(`${id} holds nothing under the hard budget ${budget.id}`);
    const { start, end } = this.#calendar().spanOf(budget.period, at);
    const subject = subjectOf(budget.scope, { key, team });
    let sum = 0n;
    for (const other of this.charges.values()) {
      if (other.at < start || (end !== null && other.at >= end)) continue;
      if (!appliesTo(budget.scope, callerOf(other)) || subjectOf(budget.scope, other) !== subject) continue;
      if (other.state === "posted") sum += other.cost ?? 0n;
      else if (other.state === "pending") sum += other.hold ?? 0n;
    }
    if (sum > budget.limit)
      this.#onFault(`at the ${when} of ${id} spent and held are ${sum}, beyond the ${budget.limit} of ${budget.id}`);
  }
}
