import type { PicoUsd } from "../../core/money.ts";
import { ceilingNames, type TaskCounts } from "../../core/tasks.ts";
import { usdText } from "./counters.ts";
import { seriesName, type Family } from "./family.ts";
import type { KeyNames } from "./key-names.ts";
import { labelText } from "./labels.ts";

/** Figures of the ledger for a scrape, exactly as they are there. */
export interface LedgerFigures {
  readonly budgets: readonly BudgetFigures[];
  readonly spend: readonly {
    readonly team: string | null;
    readonly period: "day" | "month";
    readonly spent: PicoUsd;
  }[];
  readonly pendingHolds: number;
  readonly runningTasks: TaskCounts;
  readonly outboxWaiting: number;
  /** Amount that the gateway billed beyond the ledger over the last day, and the part without a stated doubt; null while unknown. */
  readonly reconciliation: { readonly difference: PicoUsd; readonly unexplained: PicoUsd } | null;
}

export interface BudgetFigures {
  /** `all`, `team:NAME`, `each-key` and `each-key:TEAM`; `key` where it is one key's own. */
  readonly scope: string;
  /** The name of the key whose window it is, for `key` and the two `each-key`; null for the others. */
  readonly key: string | null;
  readonly period: string;
  readonly limit: PicoUsd;
  readonly spent: PicoUsd;
  readonly held: PicoUsd;
}

/** Gauges read from the ledger at each scrape, so that they agree with the reports. */
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
      "Tasks at the gateway that are not settled yet, of a family or all together; each has a pending hold.",
      ceilingNames.map((family) => [labelText(["family"], [family]), String(figures.runningTasks[family])]),
    ),
    gauge("farebox_outbox_waiting", "Messages that are not delivered yet.", [["", String(figures.outboxWaiting)]]),
    gauge(
      "farebox_reconciliation_difference_usd",
      "Movement of the gateway's account beyond the ledger's charges over the last 24 hours, in USD. Absent while unknown.",
      new Sums(reconciliation?.difference),
    ),
    gauge(
      "farebox_reconciliation_unexplained_usd",
      "Part of that difference, in either direction, beyond its uncertainty, in USD: 0 when the two agree. Absent while unknown.",
      new Sums(reconciliation?.unexplained),
    ),
  ];
}

/** `key:alice`, `each-key=alice`, `each-key:red=alice`; beyond the cap of names all keys of a scope are its `other`. */
function scopeLabel({ scope, key }: BudgetFigures, names: KeyNames): string {
  if (key === null) return scope;
  return `${scope}${scope === "key" ? ":" : "="}${names.key(key)}`;
}

/** Amounts by labels; those that share their labels are added up. */
class Sums {
  readonly #sums = new Map<string, PicoUsd>();

  /** With an amount without labels, where there is one. */
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
