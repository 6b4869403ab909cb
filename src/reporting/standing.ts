import {
  type Budget,
  type BudgetWindow,
  limitOf,
  raisedIn,
  raisedUntil,
  raisesByEnd,
  usedPercent,
} from "../core/budget.ts";
import type { Key } from "../core/keys.ts";
import { formatUsd, larger, noMoney, subtract } from "../core/money.ts";
import { keyOfScope, keyOfSubject, namedScope, namedSubject } from "../core/scope.ts";
import { isoTime, isoTimeOrNull } from "../core/time.ts";
import type { NewRaise } from "../ports/ledger.ts";
import type { RankedWindow, UsageSummary } from "../ports/lists.ts";
import { type RaiseRequest, raiseRequestState } from "../ports/stores.ts";
import type { NameOf } from "./names.ts";
import type { AdminRaiseRequestJson, RaiseJson, RaiseRequestJson, StandingJson } from "./shapes/budgets.ts";
import type { FullestJson, RankedStandingJson } from "./shapes/lists.ts";

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

export function usageJson({ spent, requests, lastUsedAt, refusedToday }: UsageSummary) {
  return {
    spent_usd: formatUsd(spent),
    requests,
    last_used_at: isoTimeOrNull(lastUsedAt),
    refused_today: refusedToday,
  };
}

export function rankedStanding(window: RankedWindow, nameOf: NameOf): RankedStandingJson {
  return { ...standingOf(window, nameOf), used_percent: usedPercent(window), refusing: window.refusing };
}

export function fullestJson(window: RankedWindow | null, nameOf: NameOf): FullestJson {
  if (window === null) return null;
  const standing = rankedStanding(window, nameOf);
  const { warn_percent: _warn, remaining_usd: _left, starts_at: _start, ...rest } = standing;
  const { raised_usd: _raised, raised_until: _until, raises: _raises, ...json } = rest;
  return json;
}

/** Returns, for each window, the id of the key that its subject or scope names; null if neither names a key. */
export function keysIn(windows: readonly BudgetWindow[]): (string | null)[] {
  return windows.map(({ budget: { scope }, subject }) => keyOfSubject(scope, subject) ?? keyOfScope(scope));
}

/** Returns a raise request in the form for the key that made it. */
export function raiseRequestJson(request: RaiseRequest, nameOf: NameOf, now: number): RaiseRequestJson {
  const { id, budget, subject, amount, why, at, lapsesAt, decidedAt, granted, until } = request;
  return {
    id,
    scope: namedScope(budget.scope, nameOf),
    subject: namedSubject(budget.scope, subject, nameOf),
    period: budget.period,
    amount_usd: formatUsd(amount),
    why,
    state: raiseRequestState(request, now),
    created_at: isoTime(at),
    lapses_at: isoTimeOrNull(lapsesAt),
    decided_at: isoTimeOrNull(decidedAt),
    approved_usd: granted === null ? null : formatUsd(granted),
    approved_until: isoTimeOrNull(until),
  };
}

/** Largest number of `spender_names`. */
const namesMax = 20;

/** Returns a raise request in the form for admins. `spenders`: live keys that may spend the raise. */
export function adminRaiseRequestJson(
  request: RaiseRequest,
  spenders: readonly Pick<Key, "name">[],
  nameOf: NameOf,
  now: number,
): AdminRaiseRequestJson {
  return {
    ...raiseRequestJson(request, nameOf, now),
    key: nameOf(request.key),
    decided_by: request.decidedBy,
    spenders: spenders.length,
    spender_names: spenders.slice(0, namesMax).map(({ name }) => name),
  };
}

/** Returns the ids of the keys that a raise request refers to; null for no key. */
export function keysInRequest({ budget: { scope }, subject, key }: RaiseRequest): (string | null)[] {
  return [key, keyOfScope(scope), keyOfSubject(scope, subject)];
}
