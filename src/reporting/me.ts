import { isRefusing, maySeeAmounts, refusingMs, noRaises, type BudgetWindow, type OwnView } from "../core/budget.ts";
import { formatScope, mayApplyTo, namedScope, namedSubject, type Caller } from "../core/scope.ts";
import type { Charge } from "../core/charge.ts";
import { noMoney } from "../core/money.ts";
import type { Key } from "../core/keys.ts";
import { tightestRateLimit, type RateLimits, type RateLimitStatus } from "../core/rate-limits.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Store } from "../ports/stores.ts";
import { pricesOf, type ChargeQuery, type LedgerQueries } from "../ports/ledger.ts";
import { chargeDetailsJson, chargesJson } from "./charges.ts";
import { isoTime, isoTimeOrNull, minuteMs } from "../core/time.ts";
import { ownName } from "./names.ts";
import type { ChargeDetailsJson, ChargeListJson } from "./shapes/charges.ts";
import { raiseRequestJson } from "./standing.ts";
import type { MeJson } from "./shapes/keys.ts";
import { standingOf } from "./standing.ts";

/**
 * Returns what a key may know about itself: its limits, the state of each budget whose amounts it may see, and the
 * budgets that refuse its requests. Without a key, returns the limits and budgets that apply to all requests.
 */
export async function meJson(
  tools: MeTools,
  { key, caller }: { readonly key: Key | null; readonly caller: Caller },
  limits: readonly RateLimitStatus[],
  { outputCap, view }: { readonly outputCap: number | null; readonly view: OwnView },
  at: number,
): Promise<MeJson> {
  const recent = await tools.figures.ledger.recent({ key: caller.key, limit: recentMax });
  const { windows, refusing, refusedToday } = await ownWindows(tools, caller, at);
  const requests = key === null ? [] : await tools.raiseRequests.list({ key: key.id, at, limit: requestsMax });
  const [fitted = null] = recent.charges.flatMap(fittedJson);
  return {
    key: key && {
      id: key.id,
      name: key.name,
      team: key.team,
      models: key.models,
      labels: key.labels,
      tags: key.tags,
      user: key.user,
      requires: key.requires,
      expires_at: isoTimeOrNull(key.expiresAt),
    },
    limits: { rpm: limitJson("rpm", limits), tpm: limitJson("tpm", limits), parallel: limitJson("parallel", limits) },
    output_cap: outputCap,
    fitted,
    budgets: windows
      .filter(({ budget }) => maySeeAmounts(view, budget.scope, caller))
      .map((window) => standingOf(window, ownName(key))),
    blocked: refusing.map((window) => ({
      scope: namedScope(window.budget.scope, ownName(key)),
      subject: namedSubject(window.budget.scope, window.subject, ownName(key)),
      period: window.budget.period,
      resets_at: isoTimeOrNull(window.end),
      refused_today: refusedToday.get(nameOf(window)) ?? 0,
    })),
    raise_requests: requests.map((request) => raiseRequestJson(request, ownName(key), at)),
  };
}

/** Largest number of raise requests that a key sees. It sees the latest ones. */
const requestsMax = 10;

/**
 * Returns the windows of a caller and the windows that refuse its requests. Also returns how many of its requests each
 * window refused today.
 */
export async function ownWindows(tools: Omit<MeTools, "raiseRequests">, caller: Caller, at: number) {
  const windows = [...(await tools.ledger.windowsOf(caller, at)), ...(await tools.lists.requestWindows(caller, at))];
  const [refusedToday, lastRefusals] = await ownRefusalsByBudget(tools, caller, at);
  const others = await otherRefusing(tools, { caller, windows, lastRefusals }, at);
  const refusing = [...windows, ...others].filter((window) => isRefusing(window, lastRefusals.get(nameOf(window)), at));
  return { windows, refusing, refusedToday };
}

interface MeTools extends Pick<Store, "ledger" | "lists" | "figures" | "raiseRequests"> {
  readonly calendar: Calendar;
}

const nameOf = ({ budget: { scope, period }, subject }: BudgetWindow) => `${formatScope(scope)}/${period} ${subject}`;

/**
 * Returns two maps by window: the number of the caller's requests that the window refused today, and the time of its
 * latest refusal within `refusingMs`. Counts only the caller's requests, because a key must not see the requests of
 * others.
 */
async function ownRefusalsByBudget(
  { figures: { refusals }, calendar }: Pick<MeTools, "figures" | "calendar">,
  { key }: Caller,
  at: number,
): Promise<readonly [today: ReadonlyMap<string, number>, last: ReadonlyMap<string, number>]> {
  const since = calendar.spanOf("1d", at).start;
  const counts = await refusals.count({ by: ["scope", "period", "subject"], key, since, until: at + minuteMs });
  const today = new Map(
    counts.map(({ scope, period, subject, count }) => [`${scope}/${period} ${subject ?? ""}`, count]),
  );
  if (today.size === 0 && at - since > refusingMs) return [today, new Map()];
  const page = await refusals.list({ key, since: at - refusingMs - minuteMs, limit: recentRefusalsMax });
  const last = new Map<string, number>();
  for (const { scope, period, subject, lastAt } of page?.refusals ?? []) {
    const name = `${scope}/${period} ${subject ?? ""}`;
    last.set(name, Math.max(lastAt, last.get(name) ?? -Infinity));
  }
  return [today, last];
}

/**
 * Returns the windows outside `windows` that recently refused the caller's requests. An example is the window of a user
 * whom several keys share.
 */
async function otherRefusing(
  { ledger, calendar }: Pick<MeTools, "ledger" | "calendar">,
  {
    caller,
    windows,
    lastRefusals,
  }: {
    readonly caller: Caller;
    readonly windows: readonly BudgetWindow[];
    readonly lastRefusals: ReadonlyMap<string, number>;
  },
  at: number,
): Promise<readonly BudgetWindow[]> {
  const known = new Set(windows.map(nameOf));
  const others = [...lastRefusals.keys()].filter((name) => !known.has(name));
  if (others.length === 0) return [];
  const budgets = (await ledger.budgets()).filter(({ scope }) => mayApplyTo(scope, caller));
  return others.flatMap((name) =>
    budgets
      .filter(({ id }) => name.startsWith(`${id} `))
      .map((budget) => {
        const subject = name.slice(budget.id.length + 1);
        const sums = { spent: noMoney, held: noMoney, raises: noRaises };
        return { budget, subject, ...calendar.spanOf(budget.period, at), ...sums };
      }),
  );
}

const recentRefusalsMax = 1000;

/** Number of latest charges to search for a fitted request. */
const recentMax = 100;

/** Returns a list with the charge's request if its output was limited to fit a budget; otherwise an empty list. */
function fittedJson({ id, at, model, basis }: Charge) {
  const fitted = basis?.fitted ?? null;
  return fitted === null ? [] : [{ request_id: id, time: isoTime(at), model, max_output_tokens: fitted }];
}

/** Returns the tighter one of the limits of the key and its team; null if neither has a limit. */
function limitJson(kind: keyof RateLimits, limits: readonly RateLimitStatus[]) {
  const tightest = tightestRateLimit(kind, limits);
  if (tightest === undefined) return null;
  const { scope, limit, remaining, resetsInMs } = tightest;
  return { scope, limit, remaining, resets_in_seconds: resetsInMs === null ? null : Math.ceil(resetsInMs / 1000) };
}

/** Access to the charges of one key. If requests need no key, `key` is null and selects the charges without a key. */
interface OwnCharges {
  readonly ledger: LedgerQueries;
  readonly key: Key | null;
}

/**
 * Returns one page of the key's charges, newest first. Returns undefined if the cursor is not the id of one of these
 * charges.
 */
export async function ownCharges(
  own: OwnCharges,
  query: Omit<ChargeQuery, "key" | "adjusts">,
): Promise<ChargeListJson | undefined> {
  if (query.after !== undefined && (await findOwn(own, query.after)) === undefined) return undefined;
  const page = await own.ledger.charges({ ...query, key: own.key?.id ?? "" });
  return chargesJson(page, ownName(own.key));
}

/**
 * Returns one of the key's charges with its corrections. Returns undefined for any other id, even if the charge exists.
 */
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
