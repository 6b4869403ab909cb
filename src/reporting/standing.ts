import { namedScope, type BudgetWindow } from "../core/budget.ts";
import { formatUsd, larger, noMoney, subtract } from "../core/money.ts";
import { isoTime, type NameOf } from "./names.ts";

/** One budget window as CONTRACT's `me` gives it, with the key that it is of where each key has its own. */
export interface Standing {
  readonly scope: string;
  readonly key: string | null;
  readonly period: string;
  readonly mode: string;
  readonly limit_usd: string;
  readonly spent_usd: string;
  readonly held_usd: string;
  readonly remaining_usd: string;
  readonly warn_percent: number | null;
  readonly starts_at: string;
  readonly resets_at: string | null;
}

export function standingOf(window: BudgetWindow, nameOf: NameOf): Standing {
  const { budget, spent, held } = window;
  return {
    scope: namedScope(budget.scope, nameOf),
    key: window.subject === "" ? null : nameOf(window.subject),
    period: budget.period,
    mode: budget.mode,
    limit_usd: formatUsd(budget.limit),
    spent_usd: formatUsd(spent),
    held_usd: formatUsd(held),
    remaining_usd: formatUsd(larger(noMoney, subtract(subtract(budget.limit, spent), held))),
    warn_percent: budget.warnPercent,
    starts_at: isoTime(window.start),
    resets_at: window.end === null ? null : isoTime(window.end),
  };
}
