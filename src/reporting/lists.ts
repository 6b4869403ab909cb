import { usedPercent, type BudgetWindow } from "../core/budget.ts";
import { keyOfScope, keyOfSubject, namedScope } from "../core/scope.ts";
import { teamDetails } from "../core/audit.ts";
import { formatUsd } from "../core/money.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type {
  ListedKey,
  ListedModel,
  ListedTeam,
  PastWindow,
  RankedBudget,
  RankedWindow,
  Usage,
} from "../ports/lists.ts";
import { keyJson } from "./keys.ts";
import { isoTime, isoTimeOrNull } from "../core/time.ts";
import type { NameOf } from "./names.ts";
import type {
  BudgetHistoryJson,
  FullestJson,
  ListedKeyJson,
  ListedModelJson,
  ListedTeamJson,
  RankedBudgetJson,
  RankedStandingJson,
} from "./shapes/lists.ts";
import { standingOf } from "./standing.ts";

export function usageJson({ spent, requests, lastUsedAt, refusedToday }: Usage) {
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

function fullestJson(window: RankedWindow | null, nameOf: NameOf): FullestJson {
  if (window === null) return null;
  const standing = rankedStanding(window, nameOf);
  const { warn_percent: _warn, remaining_usd: _left, starts_at: _start, ...rest } = standing;
  const { raised_usd: _raised, raised_until: _until, raises: _raises, ...json } = rest;
  return json;
}

export function listedKeyJson({ key, usage, fullest }: ListedKey, now: number): ListedKeyJson {
  return { ...keyJson(key, now), usage: usageJson(usage), fullest: fullestJson(fullest, () => key.name) };
}

export function listedTeamJson({ team, usage, fullest, liveKeys }: ListedTeam): ListedTeamJson {
  return {
    ...teamDetails(team),
    keys: liveKeys,
    live_keys: liveKeys.length,
    usage: usageJson(usage),
    fullest: fullestJson(fullest, (id) => id),
  };
}

/** Returns the models that have a price in force, with their groups. */
export function pricedModels(catalogue: Catalogue, now: number): readonly (readonly [string, string | null])[] {
  return catalogue.list(now).flatMap(({ id, group, price }) => (price === null ? [] : [[id, group] as const]));
}

/**
 * Returns a row of the list of models. `model` may be an alias, because a request may name one. An alias has the price
 * of its model.
 */
export function listedModelJson(
  { model, group, isPriced, usage }: ListedModel,
  catalogue: Catalogue,
  now: number,
): ListedModelJson {
  const known = catalogue.named(model, now);
  return {
    model,
    group: group ?? known?.group ?? null,
    priced: isPriced || (known !== undefined && known.price !== null),
    usage: usageJson(usage),
  };
}

/** Returns, for each window, the id of the key that its subject or scope names; null if neither names a key. */
export function keysIn(windows: readonly BudgetWindow[]): (string | null)[] {
  return windows.map(({ budget: { scope }, subject }) => keyOfSubject(scope, subject) ?? keyOfScope(scope));
}

/**
 * Returns the ids of the keys that budgets and their fullest windows name. Includes the budgets, because a budget may
 * have no window yet.
 */
export function keysInRanked(ranked: readonly RankedBudget[]): (string | null)[] {
  return ranked.flatMap(({ budget: { scope }, fullest }) => [keyOfScope(scope), ...keysIn(fullest)]);
}

export function rankedBudgetJson(ranked: RankedBudget, nameOf: NameOf): RankedBudgetJson {
  const { budget, windows, refusing, spent, held, end, fullest } = ranked;
  return {
    scope: namedScope(budget.scope, nameOf),
    period: budget.period,
    mode: budget.mode,
    limit_usd: formatUsd(budget.limit),
    warn_percent: budget.warnPercent,
    windows,
    refusing,
    used_percent: fullest.length === 0 && budget.limit === 0n ? 100 : Math.max(0, ...fullest.map(usedPercent)),
    spent_usd: formatUsd(spent),
    held_usd: formatUsd(held),
    resets_at: isoTimeOrNull(end),
    fullest: fullest.map((window) => rankedStanding(window, nameOf)),
  };
}

export function budgetHistoryJson(windows: readonly PastWindow[]): BudgetHistoryJson {
  return {
    windows: windows.map(({ start, end, spent, requests }) => ({
      starts_at: isoTime(start),
      ends_at: isoTimeOrNull(end),
      spent_usd: formatUsd(spent),
      requests,
    })),
  };
}
