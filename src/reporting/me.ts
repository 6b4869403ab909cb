import type { BudgetWindow, Caller } from "../core/budget.ts";
import type { Charge, ChargeState } from "../core/charge.ts";
import type { Key } from "../core/keys.ts";
import { tightestLimit, type Limits, type LimitStatus } from "../core/limits.ts";
import { pricesOf, type BudgetStore, type LedgerQueries } from "../ports/ledger.ts";
import { chargeDetailsJson, chargesJson } from "./charges.ts";
import { isoTime, isoTimeOrNull, ownName } from "./names.ts";
import type { ChargeDetailsJson, ChargeListJson } from "./shapes/charges.ts";
import type { MeJson } from "./shapes/keys.ts";
import { standingOf } from "./standing.ts";

/**
 * Returns the limits of a key and the state of each budget that applies to it. Without a key, returns those that apply to
 * all.
 */
export async function meJson(
  { ledger, latest }: { readonly ledger: BudgetStore; readonly latest: LedgerQueries },
  { key, caller }: { readonly key: Key | null; readonly caller: Caller },
  limits: readonly LimitStatus[],
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

/** Number of the key's latest charges that are searched for a fitted one. */
const recentMax = 100;

/** Returns a request whose output was capped to fit a budget. Returns nothing for any other request. */
function fittedJson({ id, at, model, basis }: Charge) {
  const fitted = basis?.fitted ?? null;
  return fitted === null ? [] : [{ request_id: id, time: isoTime(at), model, max_output_tokens: fitted }];
}

/** Returns the tighter limit of the key and its team; null if neither has one. */
function limitJson(kind: keyof Limits, limits: readonly LimitStatus[]) {
  const tightest = tightestLimit(kind, limits);
  if (tightest === undefined) return null;
  const { scope, limit, remaining, resetsInMs } = tightest;
  return { scope, limit, remaining, resets_in_seconds: resetsInMs === null ? null : Math.ceil(resetsInMs / 1000) };
}

/** Access to a key's own charges. If requests need no key, `key` is null and the charges without a key are shown. */
export interface OwnCharges {
  readonly ledger: LedgerQueries;
  readonly key: Key | null;
}

/** Returns one page of a key's own charges, newest first; undefined if the cursor is not one of them. */
export async function ownCharges(
  own: OwnCharges,
  {
    limit,
    cursor,
    model,
    state,
    since,
  }: {
    readonly limit: number;
    readonly cursor?: string | undefined;
    readonly model?: string | undefined;
    readonly state?: ChargeState | undefined;
    readonly since?: number | undefined;
  },
): Promise<ChargeListJson | undefined> {
  if (cursor !== undefined && (await findOwn(own, cursor)) === undefined) return undefined;
  const page = await own.ledger.charges({
    key: own.key?.id ?? "",
    limit,
    ...(model !== undefined && { model }),
    ...(state !== undefined && { state }),
    ...(since !== undefined && { since }),
    ...(cursor !== undefined && { after: cursor }),
  });
  return chargesJson(page, ownName(own.key));
}

/** Returns one of a key's own charges with its corrections. Returns undefined for any other id, even if the charge exists. */
export async function ownCharge(own: OwnCharges, id: string): Promise<ChargeDetailsJson | undefined> {
  const charge = await findOwn(own, id);
  if (charge === undefined) return undefined;
  const { charges } = await own.ledger.charges({ adjusts: charge.id, limit: correctionsMax });
  return chargeDetailsJson(charge, charges, ownName(own.key), await pricesOf(own.ledger, charge));
}

const correctionsMax = 1000;

async function findOwn({ ledger, key }: OwnCharges, id: string): Promise<Charge | undefined> {
  const charge = await ledger.charge(id);
  return charge?.key === (key?.id ?? "") ? charge : undefined;
}
