import type { BudgetWindow, Caller } from "../core/budget.ts";
import type { Key } from "../core/keys.ts";
import { tightestOf, type Limits, type LimitStanding } from "../core/limits.ts";
import type { Ledger } from "../ports/ledger.ts";
import { isoTime, ownName } from "./names.ts";
import { standingOf } from "./standing.ts";

/** CONTRACT's `me`: what a key may do, and what each budget that weighs on it has left. Without a key, what weighs on all. */
export async function meJson(
  ledger: Ledger,
  { key, caller }: { readonly key: Key | null; readonly caller: Caller },
  limits: readonly LimitStanding[],
  at: number,
) {
  const windows: readonly BudgetWindow[] = await ledger.windowsOf(caller, at);
  return {
    key: key && {
      id: key.id,
      name: key.name,
      team: key.team,
      models: key.models,
      expires_at: key.expiresAt === null ? null : isoTime(key.expiresAt),
    },
    limits: { rpm: limitJson("rpm", limits), tpm: limitJson("tpm", limits), parallel: limitJson("parallel", limits) },
    budgets: windows.map((window) => standingOf(window, ownName(key))),
  };
}

/** The tighter of the key's and its team's; null where neither has one. */
function limitJson(kind: keyof Limits, limits: readonly LimitStanding[]) {
  const tightest = tightestOf(kind, limits);
  if (tightest === undefined) return null;
  const { scope, limit, remaining, resetsInMs } = tightest;
  return { scope, limit, remaining, resets_in_seconds: resetsInMs === null ? null : Math.ceil(resetsInMs / 1000) };
}
