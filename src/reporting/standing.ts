import { namedScope, type BudgetWindow } from "../core/budget.ts";
import { formatUsd, larger, noMoney, subtract } from "../core/money.ts";
import { isoTime, isoTimeOrNull, type NameOf } from "./names.ts";
import type { StandingJson } from "./shapes/keys.ts";

export function standingOf(window: BudgetWindow, nameOf: NameOf): StandingJson {
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
    resets_at: isoTimeOrNull(window.end),
  };
}
