import type { PicoUsd } from "../../core/money.ts";
import { eachOf, hasSubjects, namedScope, type Scope } from "../../core/scope.ts";
import { ceilingNames, type TaskCounts } from "../../core/tasks.ts";
import { labelText, seriesName, usdText, type Family, type KeyNames } from "./series.ts";

/** Exact figures of the ledger for a scrape. */
export interface LedgerFigures {
  /** Current windows of budgets. Budgets by user or tag are missing if `subjectsMax` is 0. */
  readonly budgets: readonly BudgetFigures[];
  readonly spend: readonly {
    readonly team: string | null;
    readonly period: "day" | "month";
    readonly spent: PicoUsd;
  }[];
  readonly pendingHolds: number;
  readonly runningTasks: TaskCounts;
  readonly outboxWaiting: number;
  /**
   * Amount that left the gateway's account in the last 24 hours minus the ledger's charges, and the part of this
   * difference beyond its uncertainty. Null while unknown.
   */
  readonly reconciliation: { readonly difference: PicoUsd; readonly unexplained: PicoUsd } | null;
}

export interface BudgetFigures {
  readonly scope: Scope;
  readonly subject: string;
  /** Name of the key that the scope or the subject names; null if they name none. */
  readonly key: string | null;
  readonly period: string;
  /** Limit with the raises in force. */
  readonly limit: PicoUsd;
  readonly spent: PicoUsd;
  readonly held: PicoUsd;
}

/** Returns the gauges that show the ledger's exact figures, so that a scrape agrees with the reports. */
export function ledgerGauges(figures: LedgerFigures, names: KeyNames): readonly Family[] {
  const { reconciliation } = figures;
  const budgets = { limit: new Sums(), spent: new Sums(), held: new Sums() };
  for (const budget of figures.budgets) {
    const labels = labelText(["scope", "period"], [scopeLabel(budget, names), budget.period]);
    for (const kind of ["limit", "spent", "held"] as const) budgets[kind].add(labels, budget[kind]);
  }
  const spend = new Sums();
  for (const { team, period, spent } of figures.spend)
    spend.add(labelText(["team", "period"], [names.team(team), period]), spent);
  return [
    gauge("farebox_budget_limit_usd", "Limit of a budget, in USD.", budgets.limit),
    gauge("farebox_budget_spent_usd", "Spent in a budget's current window, in USD.", budgets.spent),
    gauge("farebox_budget_held_usd", "Held by running requests in a budget's current window, in USD.", budgets.held),
    gauge("farebox_spend_usd", "Spent since the day or the month began, in USD.", spend),
    gauge("farebox_ledger_pending_holds", "Holds that are not settled yet.", [["", String(figures.pendingHolds)]]),
    gauge(
      "farebox_running_tasks",
      "Tasks at the gateway that are not settled yet, by family and in total. Each has a pending hold.",
      ceilingNames.map((family) => [labelText(["family"], [family]), String(figures.runningTasks[family])]),
    ),
    gauge("farebox_outbox_waiting", "Messages that are not delivered yet.", [["", String(figures.outboxWaiting)]]),
    gauge(
      "farebox_reconciliation_difference_usd",
      "Amount that left the gateway's account over the last 24 hours minus the ledger's charges, in USD. Absent while unknown.",
      new Sums(reconciliation?.difference),
    ),
    gauge(
      "farebox_reconciliation_unexplained_usd",
      "Part of farebox_reconciliation_difference_usd beyond its uncertainty, above or below 0, in USD; 0 if account and ledger agree. Absent while unknown.",
      new Sums(reconciliation?.unexplained),
    ),
  ];
}

/**
 * Returns the label of a scope and a subject: `key:alice`, `each-key=alice`, `each-key:red=alice`, `each-user=u_42`.
 * A key, user, tag value or model that metrics do not show by name appears as `other`.
 */
function scopeLabel({ scope, subject, key }: BudgetFigures, names: KeyNames): string {
  const name = key === null ? null : names.key(key);
  const shown = namedScope(scope, () => name);
  if (!hasSubjects(scope)) return shown;
  const values = subject.split(" ");
  const labels = eachOf(scope).map((dimension, index) => {
    const value = values[index] ?? "";
    if (dimension === "key") return name ?? value;
    if (value === "") return "";
    return dimension === "model" ? names.model(value) : names.subject(value);
  });
  return `${shown}=${labels.join(" ")}`;
}

/** Amounts by labels. Adds up amounts with the same labels. */
class Sums {
  readonly #sums = new Map<string, PicoUsd>();

  /** `only` is an amount without labels. */
  constructor(only?: PicoUsd) {
    if (only !== undefined) this.add("", only);
  }

  add(labels: string, amount: PicoUsd): void {
    this.#sums.set(labels, ((this.#sums.get(labels) ?? 0n) + amount) as PicoUsd);
  }

  *[Symbol.iterator](): Iterator<readonly [labels: string, text: string]> {
    for (const [labels, amount] of this.#sums) yield [labels, usdText(amount)];
  }
}

function gauge(name: string, help: string, values: Iterable<readonly [labels: string, text: string]>): Family {
  return {
    name,
    help,
    type: "gauge",
    *lines() {
      for (const [labels, text] of values) yield `${seriesName(name, labels)} ${text}\n`;
    },
  };
}
