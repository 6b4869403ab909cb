import { limitOf, maySeeAmounts, visibleRoom, type BudgetWindow, type OwnView, type Shortage } from "../core/budget.ts";
import { keyOfScope, keyOfSubject, namedScope, namedSubject, type Caller } from "../core/scope.ts";
import type { KeyStore } from "../ports/stores.ts";
import type { HoldKind } from "../core/charge.ts";
import { noMoney, type PicoUsd } from "../core/money.ts";
import type { PriceVersion } from "../core/price.ts";
import type { Affordable, BudgetNames, BudgetRefusal, OrRefused, Refusal } from "../core/refusals.ts";
import { isRateTerm } from "../core/rate-variants.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import type { Charging, HoldRequest, HoldResult } from "../ports/ledger.ts";
import type { OutputMaximum } from "../wire/endpoint.ts";
import type { Authenticated, Sender } from "./authenticate.ts";
import { basisOf, type PricedRequest } from "./output-cap.ts";
import { firstHold, type Growth, type HoldPlan, type Pricer, type Quote } from "./price.ts";

/** Charge with a durable hold. Farebox writes it before it sends the first byte to the gateway. */
export interface PendingCharge {
  readonly id: string;
  readonly route: string;
  readonly hold: PicoUsd | null;
  /** Rule by which a hold of only the first slice grows; null for a hold of the whole cost. */
  readonly growth: Growth | null;
  readonly price: PriceVersion | null;
  /** Amount that the tightest hard budget has left after this hold; null if no hard budget applies to the caller. */
  readonly room: PicoUsd | null;
  /** Like `room`, only for the hard budgets whose amounts the caller may see. */
  readonly visibleRoom: PicoUsd | null;
  /** Prompt tokens that the hold covers if they were counted; absent if the prompt's bytes bound them. */
  readonly countedPrompt?: number | undefined;
}

/** `held`: the request that the hold covers, which is the capped one or one with an output maximum that fits. */
type Holding = OrRefused<{ charge: PendingCharge; held: PricedRequest }>;

/** Request for which Farebox writes a hold. */
export interface RequestToHold {
  readonly id: string;
  readonly kind: HoldKind;
  readonly route: string;
  readonly who: Authenticated;
  readonly quote: {
    readonly at: number;
    readonly bounded: boolean;
    readonly request: { readonly model: string };
    readonly model: Pick<CatalogueModel, "group" | "price"> | undefined;
    readonly modelIds: readonly string[];
    readonly anyModel: boolean;
  };
  readonly sender: Sender;
  readonly retry: number;
}

/** Asks the ledger to hold an amount. Every admission calls this function. */
export function writeHold(
  ledger: Pick<Charging, "hold">,
  { id, kind, route, who, quote, sender, retry }: RequestToHold,
  amount: PicoUsd | null,
  more: Partial<HoldRequest> = {},
): Promise<HoldResult> {
  return ledger.hold({
    id,
    kind,
    at: quote.at,
    caller: { ...who.caller, user: sender.user },
    route,
    model: quote.request.model,
    group: quote.model?.group ?? null,
    stream: false,
    price: quote.model?.price ?? null,
    amount,
    bounded: quote.bounded,
    tags: sender.tags,
    models: quote.modelIds,
    anyModel: quote.anyModel,
    retry,
    ...more,
  });
}

interface HoldParams extends Omit<RequestToHold, "quote"> {
  /** Request for which the first hold is tried. */
  readonly capped: PricedRequest;
  /** Output maximum of the endpoint; null if requests to it cannot limit text output. */
  readonly maximum: OutputMaximum | null;
  /**
   * Puts an output maximum of `tokens` into the request. Returns null if it cannot. The property is null if Farebox
   * must not put a maximum into the request.
   */
  readonly fit: ((tokens: number) => PricedRequest | null) | null;
  /** Returns true if a request whose cost has no bound may pass under a hard budget. */
  readonly mayPass: (quote: Quote) => boolean;
}

/** Largest number of output maximums that Farebox tries for a request. */
const fitsMax = 3;

/** Decides what a refusal shows the caller about the budget. */
export interface ShortageView {
  /** Returns the names of a window's scope and subject for users. */
  readonly budgetNames: (window: BudgetWindow) => Promise<BudgetNames>;
  readonly ownView: OwnView;
}

interface HoldDeps extends ShortageView {
  readonly ledger: Pick<Charging, "hold">;
  readonly pricer: Pick<Pricer, "tighten" | "fit" | "affordable">;
}

/**
 * Holds the largest possible cost of a request, or its first slice under a hard budget. Counts the prompt's tokens only
 * if a hold based on the prompt's length does not fit. If the hold after the count does not fit either, puts an output
 * maximum that fits into the request, unless `params.fit` is null.
 */
export async function placeHold(deps: HoldDeps, params: HoldParams): Promise<Holding> {
  const { capped, fit } = params;
  let held = capped;
  let plan: HoldPlan = held.quote;
  /** Tokens of the prompt; undefined if they were not counted. */
  let counted: number | undefined;
  for (let fits = 0; ;) {
    const result = await holdPlan(deps, params, held, plan);
    if (result.ok) {
      const charge = pendingCharge(deps, params, held.quote, plan, result);
      return { ok: true, charge: plan === held.quote ? charge : { ...charge, countedPrompt: counted }, held };
    }
    if (!isShort(result)) return { ok: false, refusal: await refusalOf(deps, params, held, result, undefined) };
    if (plan === held.quote) {
      const tighter = await deps.pricer.tighten(
        held.quote,
        held.body,
        largestUsefulHold(result.shortage),
        params.who.caller.key,
      );
      counted = tighter?.promptTokens;
      if (tighter !== undefined && (firstHold(tighter) ?? noMoney) < (firstHold(plan) ?? noMoney)) {
        plan = tighter;
        continue;
      }
    }
    // Other requests may use the budget during a try, so the next try has a smaller maximum.
    const tokens = fit === null || fits++ === fitsMax ? null : deps.pricer.fit(capped.quote, roomNow(result.shortage));
    const fitted = tokens === null ? null : (fit?.(tokens) ?? null);
    if (fitted === null || (fitted.quote.hold ?? noMoney) >= (firstHold(held.quote) ?? noMoney))
      return { ok: false, refusal: await refusalOf(deps, params, held, result, counted) };
    held = fitted;
    plan = held.quote;
  }
}

/** Asks the ledger to hold the amount of a plan. */
function holdPlan({ ledger }: HoldDeps, params: HoldParams, held: PricedRequest, plan: HoldPlan): Promise<HoldResult> {
  const { quote } = held;
  const firstSlice = plan.growth === null ? null : firstHold(plan);
  return writeHold(ledger, { ...params, quote }, plan.hold, {
    stream: quote.request.stream,
    bounded: quote.bounded || params.mayPass(quote),
    basis: params.maximum && basisOf(held, params.maximum),
    ...(plan.growth !== null && firstSlice !== null && { firstSlice, sliceTokens: plan.growth.sliceTokens }),
  });
}

function pendingCharge(
  { ownView }: HoldDeps,
  { id, route, who }: HoldParams,
  quote: Quote,
  plan: HoldPlan,
  result: Extract<HoldResult, { ok: true }>,
): PendingCharge {
  const { room } = result;
  // Without a hard budget the whole worst case is held, so the answer cannot outgrow the hold.
  const growth = room === null ? null : plan.growth;
  return {
    id,
    route,
    hold: growth === null ? plan.hold : firstHold(plan),
    growth,
    price: quote.model?.price?.version ?? null,
    room,
    visibleRoom: visibleRoom(ownView, result, who.caller),
  };
}

async function refusalOf(
  deps: HoldDeps,
  { who, maximum }: HoldParams,
  held: PricedRequest,
  result: Extract<HoldResult, { ok: false }>,
  counted: number | undefined,
): Promise<Refusal> {
  const { request, models, unboundedFields } = held.quote;
  if (result.reason === "not_bounded" && request.isUnpriced === true) return unknownCostRefusal;
  const unpriced = models.find(({ model }) => model?.price == null);
  const asked = {
    model: unpriced?.name ?? request.model,
    isPriced: unpriced === undefined,
    fields: unboundedFields,
    why: request.fields.why ?? (isRateTerm(unboundedFields[0]) ? "its price has no rates for this value" : null),
    affordable:
      maximum === null || !isShort(result)
        ? null
        : await affordableIn(deps, held, result.shortage, { key: who.caller.key, counted }),
  };
  return holdRefusal(deps, result, asked, who.caller);
}

async function affordableIn(
  { pricer }: HoldDeps,
  { quote, body }: PricedRequest,
  shortage: Shortage,
  { key, counted }: { readonly key: string; readonly counted: number | undefined },
): Promise<Affordable | null> {
  const tokens = await pricer.affordable(quote, body, roomNow(shortage), counted, key);
  return tokens === null ? null : { tokens, field: quote.request.maximumField ?? null };
}

type Short = Extract<HoldResult, { ok: false; reason: "no_room" }>;

function isShort(result: HoldResult): result is Short {
  return !result.ok && result.reason === "no_room";
}

/** Returns the amount that the window has left now; at least 0. */
function roomNow({ window }: Shortage): bigint {
  const room = limitOf(window) - window.spent - window.held;
  return room > 0n ? room : 0n;
}

/**
 * Returns the largest hold for which counting the prompt is useful. A larger hold would be refused again for the same
 * reason. Does not subtract the held amount of an exhausted budget.
 */
function largestUsefulHold({ window, exhausted }: Shortage): bigint {
  return limitOf(window) - window.spent - (exhausted ? 0n : window.held);
}

/**
 * Returns the refusal for an amount that could not be held. `asked.fields`: the request's fields whose cost has no
 * bound.
 */
export async function holdRefusal(
  view: ShortageView,
  result: Extract<HoldResult, { ok: false }>,
  asked: {
    readonly model: string;
    readonly isPriced: boolean;
    readonly fields: readonly string[];
    readonly why?: string | null;
    readonly affordable?: Affordable | null;
  },
  caller: Caller,
): Promise<Refusal> {
  switch (result.reason) {
    case "no_room":
      return {
        code: result.shortage.exhausted ? "budget_exceeded" : "budget_held",
        ...(await budgetRefusal(view, result.shortage, caller)),
        ...(asked.affordable != null && { affordable: asked.affordable }),
      };
    case "not_bounded":
      return asked.isPriced
        ? { code: "cost_not_bounded", model: asked.model, fields: asked.fields, why: asked.why ?? null }
        : { code: "model_not_priced", model: asked.model, hardBudget: true };
    case "too_many_subjects":
      return { code: "too_many_subjects" };
    case "unavailable":
      return { code: "ledger_unavailable" };
  }
}

/** Returns the details of a refusal by a budget, including whether the caller may see the budget's amounts. */
export async function budgetRefusal(
  { budgetNames, ownView }: ShortageView,
  shortage: Shortage,
  caller: Caller,
): Promise<BudgetRefusal> {
  const showsAmounts = maySeeAmounts(ownView, shortage.window.budget.scope, caller);
  return { shortage, ...(await budgetNames(shortage.window)), showsAmounts };
}

const unknownCostRefusal: Refusal = {
  code: "invalid_request",
  param: null,
  message: "The cost of this path is not known, so a key under a hard budget cannot use it.",
};

/** Returns the names of a window's scope and subject, with the key's name instead of its id. */
export async function budgetNamesOf(
  { budget: { scope }, subject }: BudgetWindow,
  keys: Pick<KeyStore, "findById">,
): Promise<BudgetNames> {
  const id = keyOfScope(scope) ?? keyOfSubject(scope, subject);
  const name = id === null ? undefined : (await keys.findById(id))?.name;
  return {
    scopeName: namedScope(scope, () => name),
    subjectName: namedSubject(scope, subject, () => name),
  };
}
