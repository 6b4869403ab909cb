import { namedScope, type Scope, type Shortage } from "../core/budget.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { HoldKind } from "../core/charge.ts";
import { noMoney, type PicoUsd } from "../core/money.ts";
import type { PriceVersion } from "../core/price.ts";
import type { HoldBasis } from "../core/bounds.ts";
import type { Affordable, Refusal } from "../core/refusals.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import type { Charging, HoldRequest, HoldResult } from "../ports/ledger.ts";
import { sendBeforeFile, unnamedModel } from "../wire/form.ts";
import type { Authenticated } from "./authenticate.ts";
import { firstHold, type Growth, type Pricer, type Quote, type Reservation } from "./price.ts";

/** Durable pending charge. It is written before the first byte is sent to the gateway. */
export interface Held {
  readonly id: string;
  readonly route: string;
  readonly hold: PicoUsd | null;
  /** Growth of a hold that covers only the first slice; null for a hold of the whole cost. */
  readonly growth: Growth | null;
  readonly price: PriceVersion | null;
  /** Room that the tightest hard budget has in addition to this hold; null if no hard budget applies to the caller. */
  readonly room: PicoUsd | null;
}

/** Request into which Farebox wrote a maximum so that it fits its budget. */
export interface FittedRequest {
  readonly quote: Quote;
  readonly body: Buffer;
  readonly basis: HoldBasis;
}

type Holding<Fitted = FittedRequest> =
  | { readonly ok: true; readonly held: Held; readonly fitted: Fitted | null }
  | { readonly ok: false; readonly refusal: Refusal };

/** Request for which a hold is written. */
interface HoldRow {
  readonly id: string;
  readonly kind: HoldKind;
  readonly route: string;
  readonly who: Authenticated;
  readonly quote: {
    readonly at: number;
    readonly bounded: boolean;
    readonly request: { readonly model: string };
    readonly model: Pick<CatalogueModel, "group" | "price"> | undefined;
  };
  readonly tags: Readonly<Record<string, string>>;
  readonly retry: number;
}

/** Asks the ledger to hold an amount. Every admission calls this function. */
export function writeHold(
  ledger: Pick<Charging, "hold">,
  { id, kind, route, who, quote, tags, retry }: HoldRow,
  amount: PicoUsd | null,
  more: Partial<HoldRequest> = {},
): Promise<HoldResult> {
  return ledger.hold({
    id,
    kind,
    at: quote.at,
    caller: who.caller,
    route,
    model: quote.request.model,
    group: quote.model?.group ?? null,
    stream: false,
    price: quote.model?.price ?? null,
    amount,
    bounded: quote.bounded,
    tags,
    retry,
    ...more,
  });
}

interface HoldParams<Fitted = FittedRequest> extends HoldRow {
  readonly quote: Quote;
  readonly body: Buffer;
  /** Output that the hold covers, and the reason for that number; null if the endpoint has no maximum for text. */
  readonly basis: HoldBasis | null;
  /** Returns the same request with a maximum that fits its budget. Null if Farebox must not write a maximum. */
  readonly fitted: ((tokens: number) => Fitted | null) | null;
}

/** Largest number of times that a request is fitted. It is fitted again if its budget's room has shrunk. */
const fitsMax = 3;

interface HoldDeps {
  readonly ledger: Pick<Charging, "hold">;
  readonly pricer: Pick<Pricer, "tighten" | "fit" | "affordable">;
  /** Returns the name under which a user knows a budget's scope. */
  readonly scopeName: (shortage: Shortage) => Promise<string>;
}

/** Holds the worst case of a request. Counts the prompt only if the bound by its length does not fit. */
export async function placeHold<Fitted extends FittedRequest>(
  deps: HoldDeps,
  given: HoldParams<Fitted>,
): Promise<Holding<Fitted>> {
  let params: HoldParams = given;
  let { reservation, result, counted } = await tryBoth(deps, params);
  let fitted: Fitted | null = null;
  // If another request takes the room meanwhile, a smaller maximum is tried.
  for (let fits = 0; fits < fitsMax && given.fitted !== null && isShort(result); fits++) {
    const tokens = deps.pricer.fit(given.quote, roomNow(result.shortage));
    const next = tokens === null ? null : given.fitted(tokens);
    const isLess = next !== null && (next.quote.hold ?? noMoney) < (firstHold(params.quote) ?? noMoney);
    if (next === null || !isLess) break;
    fitted = next;
    params = { ...given, ...next, fitted: null };
    ({ reservation, result, counted } = await tryBoth(deps, params));
  }
  if (!result.ok) {
    const { request, models, unboundedFields } = params.quote;
    if (result.reason === "not_bounded" && request.isUnpriced === true) return { ok: false, refusal: unknownCost };
    if (result.reason === "not_bounded" && request.model === unnamedModel)
      return { ok: false, refusal: sendBeforeFile("model") };
    const unpriced = models.find(({ model }) => model?.price == null);
    const asked = {
      model: unpriced?.name ?? request.model,
      isPriced: unpriced === undefined,
      fields: unboundedFields,
      why: request.fields.why,
      affordable:
        params.basis === null || !isShort(result) ? null : await affordableIn(deps, params, result.shortage, counted),
    };
    return { ok: false, refusal: await holdRefusal(result, asked, deps.scopeName) };
  }
  const price = params.quote.model?.price?.version ?? null;
  // Without a hard budget the whole worst case is held, so the answer cannot outgrow the hold.
  const growth = result.room === null ? null : reservation.growth;
  const hold = growth === null ? reservation.hold : firstHold(reservation);
  return { ok: true, held: { id: params.id, route: params.route, hold, growth, price, room: result.room }, fitted };
}

function tryHold({ ledger }: HoldDeps, params: HoldParams, reservation: Reservation): Promise<HoldResult> {
  const { quote } = params;
  const firstSlice = reservation.growth === null ? null : firstHold(reservation);
  return writeHold(ledger, params, reservation.hold, {
    stream: quote.request.stream,
    basis: params.basis,
    ...(reservation.growth !== null &&
      firstSlice !== null && { firstSlice, sliceTokens: reservation.growth.sliceTokens }),
  });
}

/** Tries a hold by the length of the body, then by a count of its prompt. */
async function tryBoth(deps: HoldDeps, params: HoldParams): Promise<TryResult> {
  const reservation: Reservation = params.quote;
  const result = await tryHold(deps, params, reservation);
  if (result.ok || result.reason !== "no_room") return { reservation, result };
  const tighter = await deps.pricer.tighten(params.quote, params.body, roomFor(result.shortage));
  const counted = tighter?.promptTokens;
  if (tighter === undefined || (firstHold(tighter) ?? noMoney) >= (firstHold(reservation) ?? noMoney))
    return { reservation, result, counted };
  return { reservation: tighter, result: await tryHold(deps, params, tighter), counted };
}

async function affordableIn(
  { pricer }: HoldDeps,
  { quote, body }: HoldParams,
  shortage: Shortage,
  counted: number | undefined,
): Promise<Affordable | null> {
  const tokens = await pricer.affordable(quote, body, roomNow(shortage), counted);
  return tokens === null ? null : { tokens, field: quote.request.maximumField ?? null };
}

interface TryResult {
  readonly reservation: Reservation;
  readonly result: HoldResult;
  /** Tokens of the prompt; undefined if they were not counted. */
  readonly counted?: number | undefined;
}

function isShort(result: HoldResult): result is Extract<HoldResult, { ok: false; reason: "no_room" }> {
  return !result.ok && result.reason === "no_room";
}

/** Returns the room that the window has now; at least 0. */
function roomNow({ window }: Shortage): bigint {
  const room = window.budget.limit - window.spent - window.held;
  return room > 0n ? room : 0n;
}

/**
 * Returns the room into which a counted hold must fit to change the refusal. Ignores other holds if the budget is
 * exhausted.
 */
function roomFor({ window, exhausted }: Shortage): bigint {
  return window.budget.limit - window.spent - (exhausted ? 0n : window.held);
}

/** Returns the refusal for a hold that was not placed. `fields`: the request's fields whose cost has no bound. */
export async function holdRefusal(
  result: Extract<HoldResult, { ok: false }>,
  asked: {
    readonly model: string;
    readonly isPriced: boolean;
    readonly fields: readonly string[];
    readonly why?: string | null;
    readonly affordable?: Affordable | null;
  },
  scopeName: (shortage: Shortage) => Promise<string>,
): Promise<Refusal> {
  switch (result.reason) {
    case "no_room":
      return {
        code: result.shortage.exhausted ? "budget_exceeded" : "budget_held",
        shortage: result.shortage,
        scopeName: await scopeName(result.shortage),
        ...(asked.affordable != null && { affordable: asked.affordable }),
      };
    case "not_bounded":
      return asked.isPriced
        ? { code: "cost_not_bounded", model: asked.model, fields: asked.fields, why: asked.why ?? null }
        : { code: "model_not_priced", model: asked.model, underBudget: true };
    case "unavailable":
      return { code: "ledger_unavailable" };
  }
}

const unknownCost: Refusal = {
  code: "invalid_request",
  param: null,
  message: "The cost of this path is not known, so a key under a hard budget cannot use it.",
};

/** Returns the name of a budget's scope, with the key's name instead of its id. */
export async function scopeNameOf(scope: Scope, keys: Pick<KeyStore, "findById">): Promise<string> {
  const key = scope.kind === "key" ? await keys.findById(scope.key) : undefined;
  return namedScope(scope, () => key?.name);
}
