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
}

/** Gauges that are read from the ledger at each scrape, so that they agree with the reports. */
export function ledgerGauges(registers: Registry[]): { set(figures: LedgerFigures): void } {
  const scoped = { labelNames: ["scope", "period"], registers };
  const limit = new Gauge({ name: "farebox_budget_limit_usd", help: "Limit of a budget, in USD.", ...scoped });
  const spent = new Gauge({ name: "farebox_budget_spent_usd", help: "Spent in a budget's current window, in USD.", ...scoped });
  const held = new Gauge({ name: "farebox_budget_held_usd", help: "Held by running requests in a budget's current window, in USD.", ...scoped });
  const spend = new Gauge({ name: "farebox_spend_usd", help: "Spent since the day or the month began, in USD.", labelNames: ["team", "period"], registers });
  const pending = new Gauge({ name: "farebox_ledger_pending_holds", help: "Holds that are not settled yet.", registers });
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
    },
  };
}
