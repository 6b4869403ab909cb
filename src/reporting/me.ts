import type { BudgetWindow, Caller } from "../core/budget.ts";
import type { Charge } from "../core/charge.ts";
import type { Key } from "../core/keys.ts";
import { tightestOf, type Limits, type LimitStanding } from "../core/limits.ts";
import type { FigureLedger, Ledger } from "../ports/ledger.ts";
import { isoTime, isoTimeOrNull, ownName } from "./names.ts";
import type { MeJson } from "./shapes/keys.ts";
import { standingOf } from "./standing.ts";

/** Limits of a key and the rest of each budget that applies to it. Without a key, those that apply to all. */
export async function meJson(
  { ledger, latest }: { readonly ledger: Ledger; readonly latest: FigureLedger },
  { key, caller }: { readonly key: Key | null; readonly caller: Caller },
  limits: readonly LimitStanding[],
  outputCap: number | null,
  at: number,
): Promise<MeJson> {
  const windows: readonly BudgetWindow[] = await ledger.windowsOf(caller, at);
  const recent = await latest.recent({ key: caller.key, limit: recentMax });
  const [fitted = null] = recent.charges.flatMap(fittedJson);
  return {
    key: key && {
      id: key.id,
      name: key.name,
      team: key.team,
      models: key.models,
      expires_at: isoTimeOrNull(key.expiresAt),
    },
    limits: { rpm: limitJson("rpm", limits), tpm: limitJson("tpm", limits), parallel: limitJson("parallel", limits) },
    output_cap: outputCap,
    fitted,
    budgets: windows.map((window) => standingOf(window, ownName(key))),
  };
}

/** Charges of the key that are searched for one that was fitted. */
const recentMax = 100;

/** A request that got a maximum so that it fits a budget; none for any other. */
function fittedJson({ id, at, model, basis }: Charge) {
  const fitted = basis?.fitted ?? null;
  return fitted === null ? [] : [{ request_id: id, time: isoTime(at), model, max_output_tokens: fitted }];
}

/** The tighter of the key's and its team's; null where neither has one. */
function limitJson(kind: keyof Limits, limits: readonly LimitStanding[]) {
  const tightest = tightestOf(kind, limits);
  if (tightest === undefined) return null;
  const { scope, limit, remaining, resetsInMs } = tightest;
  return { scope, limit, remaining, resets_in_seconds: resetsInMs === null ? null : Math.ceil(resetsInMs / 1000) };
}
