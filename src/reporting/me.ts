import type { BudgetWindow, Caller } from "../core/budget.ts";
import type { Charge } from "../core/charge.ts";
import type { Key } from "../core/keys.ts";
import { tightestOf, type Limits, type LimitStanding } from "../core/limits.ts";
import type { FigureLedger, Ledger } from "../ports/ledger.ts";
import { isoTime, ownName } from "./names.ts";
import { standingOf } from "./standing.ts";

/** CONTRACT's `me`: what a key may do, and what each budget that weighs on it has left. Without a key, what weighs on all. */
export async function meJson(
  { ledger, latest }: { readonly ledger: Ledger; readonly latest: FigureLedger },
  { key, caller }: { readonly key: Key | null; readonly caller: Caller },
  limits: readonly LimitStanding[],
  outputCap: number | null,
  at: number,
) {
  const windows: readonly BudgetWindow[] = await ledger.windowsOf(caller, at);
  const recent = await latest.recent({ key: caller.key, limit: recentMax });
  const fitted = recent.charges.find(({ basis }) => basis?.fitted != null);
  return {
    key: key && {
      id: key.id,
      name: key.name,
      team: key.team,
      models: key.models,
      expires_at: key.expiresAt === null ? null : isoTime(key.expiresAt),
    },
    limits: { rpm: limitJson("rpm", limits), tpm: limitJson("tpm", limits), parallel: limitJson("parallel", limits) },
    output_cap: outputCap,
    fitted: fitted === undefined ? null : fittedJson(fitted),
    budgets: windows.map((window) => standingOf(window, ownName(key))),
  };
}

/** Charges of the key that are searched for one that was fitted. */
const recentMax = 100;

/** The last request that got a maximum so that it fits a budget. */
function fittedJson({ id, at, model, basis }: Charge) {
  return { request_id: id, time: isoTime(at), model, max_output_tokens: basis?.fitted ?? null };
}

/** The tighter of the key's and its team's; null where neither has one. */
function limitJson(kind: keyof Limits, limits: readonly LimitStanding[]) {
  const tightest = tightestOf(kind, limits);
  if (tightest === undefined) return null;
  const { scope, limit, remaining, resetsInMs } = tightest;
  return { scope, limit, remaining, resets_in_seconds: resetsInMs === null ? null : Math.ceil(resetsInMs / 1000) };
}
