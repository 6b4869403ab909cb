import { limitOf, raisedIn, raisedUntil, raisesByEnd, type Budget, type BudgetWindow } from "../core/budget.ts";
import { keyOfSubject, namedScope, namedSubject } from "../core/scope.ts";
import { formatUsd, larger, noMoney, subtract } from "../core/money.ts";
import { isoTime, isoTimeOrNull } from "../core/time.ts";
import type { NameOf } from "./names.ts";
import type { NewRaise } from "../ports/ledger.ts";
import type { RaiseJson, StandingJson } from "./shapes/keys.ts";

/** Returns a raise of a budget. */
export function raiseJson(
  { scope, period, limit }: Budget,
  { subject, amount, from, until, why }: Omit<NewRaise, "scope" | "period">,
  nameOf: NameOf,
): RaiseJson {
  return {
    scope: namedScope(scope, nameOf),
    subject: namedSubject(scope, subject, nameOf),
    period,
    limit_usd: formatUsd(limit),
    amount_usd: formatUsd(amount),
    starts_at: isoTime(from),
    until: isoTimeOrNull(until),
    why,
  };
}

/** Returns the state of a budget in one of its windows. */
export function standingOf(window: BudgetWindow, nameOf: NameOf): StandingJson {
  const { budget, subject, spent, held } = window;
  const { countsSince = window.start } = budget;
  const key = keyOfSubject(budget.scope, subject);
  return {
    scope: namedScope(budget.scope, nameOf),
    key: key === null ? null : nameOf(key),
    subject: namedSubject(budget.scope, subject, nameOf),
    period: budget.period,
    mode: budget.mode,
    limit_usd: formatUsd(limitOf(window)),
    raised_usd: formatUsd(raisedIn(window)),
    raised_until: isoTimeOrNull(raisedUntil(window)),
    raises: raisesByEnd(window).map(({ amount, until }) => ({
      amount_usd: formatUsd(amount),
      until: isoTimeOrNull(until),
    })),
    spent_usd: formatUsd(spent),
    held_usd: formatUsd(held),
    remaining_usd: formatUsd(larger(noMoney, subtract(subtract(limitOf(window), spent), held))),
    warn_percent: budget.warnPercent,
    starts_at: isoTime(window.start),
    resets_at: isoTimeOrNull(window.end),
    ...(countsSince > window.start && { counts_since: isoTime(countsSince) }),
  };
}
