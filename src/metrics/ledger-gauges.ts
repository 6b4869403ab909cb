import { Gauge, type Registry } from "prom-client";
import { usdNumber, type PicoUsd } from "../core/money.ts";

/** What a scrape shows of the ledger itself: exact there, rounded to a double here. */
export interface LedgerFigures {
  readonly budgets: readonly {
    readonly scope: string;
    readonly period: string;
    readonly limit: PicoUsd;
    readonly spent: PicoUsd;
    readonly held: PicoUsd;
  }[];
  readonly spend: readonly { readonly team: string; readonly period: "day" | "month"; readonly spent: PicoUsd }[];
  readonly pendingHolds: number;
  readonly outboxWaiting: number;
  /** What the gateway billed beyond the ledger over the last day, and what of it no uncertainty explains; null while nobody knows. */
  readonly reconciliation: { readonly difference: PicoUsd; readonly unexplained: PicoUsd } | null;
}

/** Gauges that are read from the ledger at each scrape, so that they agree with the reports. */
export function ledgerGauges(registers: Registry[]): { set(figures: LedgerFigures): void } {
  const scoped = { labelNames: ["scope", "period"], registers };
  const limit = new Gauge({ name: "farebox_budget_limit_usd", help: "Limit of a budget, in USD.", ...scoped });
  const spent = new Gauge({ name: "farebox_budget_spent_usd", help: "Spent in a budget's current window, in USD.", ...scoped });
  const held = new Gauge({ name: "farebox_budget_held_usd", help: "Held by running requests in a budget's current window, in USD.", ...scoped });
  const spend = new Gauge({ name: "farebox_spend_usd", help: "Spent since the day or the month began, in USD.", labelNames: ["team", "period"], registers });
  const pending = new Gauge({ name: "farebox_ledger_pending_holds", help: "Holds that are not settled yet.", registers });
  const difference = new Gauge({
    name: "farebox_reconciliation_difference_usd",
    help: "What the gateway's account moved by beyond the ledger's charges over the last 24 hours, in USD. Absent while unknown.",
    registers,
  });
  const unexplained = new Gauge({
    name: "farebox_reconciliation_unexplained_usd",
    help: "How far that difference, in either direction, goes beyond its uncertainty, in USD: 0 when the two agree.",
    registers,
  });
  return {
    set(figures) {
      for (const gauge of [limit, spent, held, spend]) gauge.reset();
      for (const budget of figures.budgets) {
        limit.labels(budget.scope, budget.period).set(usdNumber(budget.limit));
        spent.labels(budget.scope, budget.period).set(usdNumber(budget.spent));
        held.labels(budget.scope, budget.period).set(usdNumber(budget.held));
      }
      for (const row of figures.spend) spend.labels(row.team, row.period).set(usdNumber(row.spent));
      pending.set(figures.pendingHolds);
      const { reconciliation } = figures;
      if (reconciliation === null) {
        difference.remove();
        unexplained.remove();
      } else {
        difference.set(usdNumber(reconciliation.difference));
        unexplained.set(usdNumber(reconciliation.unexplained));
      }
    },
  };
}
