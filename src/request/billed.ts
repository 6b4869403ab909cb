import { costUnder } from "../core/cost.ts";
import { bareName, fold } from "../core/model-names.ts";
import { formatUsd, noMoney, type PicoUsd } from "../core/money.ts";
import { noDoubts, type Doubt } from "../core/usage.ts";
import type { HeaderList } from "../ports/exchange.ts";
import type { AnswerTerms, ModelAnswer, ToolCalls } from "../wire/model-answer.ts";
import type { PendingCharge } from "./hold.ts";
import { ceilingPrice } from "../core/price.ts";
import { hasVariant, plainTerms, type HostedTools, type RequestTerms } from "../core/bounds.ts";
import { anyServiceTier, factorValueOf, serviceTierOf, variantName } from "../core/rate-variants.ts";
import { billingOfRuns } from "../core/runs.ts";
import { usageFor, type Billed, type ChargeTerms, type OwnPrice } from "./charged-usage.ts";
import { pricedFor, type Quote } from "./price.ts";

/** Terms of an answer at the price of the requested model, at the standard tier, without hosted tools. */
const plainlyBilled: Billed = { servedPrice: null, answered: undefined, billing: undefined, doubts: noDoubts };

/**
 * Returns the terms by which an answer is charged: those of the model that answered, and of each other model with a
 * price that an earlier event of the stream names. The most expensive ones are charged. Terms that the answer states
 * take precedence over those of the request. `answer`: the stated terms; null for none.
 */
export function billedAs(quote: Quote, answer: AnswerTerms | null): readonly [Billed, ...Billed[]] {
  const latest = billedBy(quote, answer);
  const others = (answer?.otherModels ?? []).map((servedModel) => billedBy(quote, { ...answer, servedModel }));
  // A name without a price of its own may be an alias of the model that answered.
  const priced = others.filter(({ servedPrice }) => servedPrice !== null && servedPrice.id !== latest.servedPrice?.id);
  return [latest, ...priced];
}

function billedBy(quote: Quote, answer: AnswerTerms | null): Billed {
  const asked = quote.request.terms ?? plainTerms;
  const { hostedTools } = asked;
  const serviceTier = variantBilled(asked, answer);
  const calls = callsOf(answer?.toolCalls, hostedTools);
  const madeKinds = calls === noCalls ? [] : Object.keys(calls).filter((kind) => (calls[kind] ?? 0) > 0);
  const isStandard = serviceTier === null && madeKinds.length === 0;
  const billing = isStandard
    ? undefined
    : { serviceTier, calls: Object.fromEntries(madeKinds.map((kind) => [kind, calls[kind] ?? 0])) };
  const answered = quote.modelIds.length > 1 ? answeredBy(quote, answer?.servedModel ?? null) : undefined;
  const price = quote.model?.price?.version;
  // Without a price there is no amount, so there is nothing to doubt.
  if (price === undefined) return { servedPrice: null, answered, billing, doubts: [] };
  const served = servedBy(quote, answer?.servedModel ?? null);
  if (isStandard && hostedTools === null && !served.isOther && answered === undefined) return plainlyBilled;
  const prices = [price, ...(served.price === null ? [] : [served.price.version])];
  const hasFee = (kind: string) => prices.every(({ fees = {} }) => Object.hasOwn(fees, kind));
  const isUncounted =
    hostedTools !== null &&
    (hostedTools.areShown
      ? answer?.toolCalls === undefined
      : hostedTools.calls.some((kind) => calls[kind] === undefined));
  const doubts: Doubt[] = [];
  if (served.isOther) doubts.push("served_model");
  if (!prices.every((each) => hasVariant(each, serviceTier))) doubts.push("service_tier");
  if (isUncounted || !madeKinds.every(hasFee)) doubts.push("hosted_tool");
  return { servedPrice: served.price, answered, billing, doubts };
}

/** Returns the variant of the rates that answered. Each part that the answer states precedes that of the request. */
function variantBilled(asked: RequestTerms, answer: AnswerTerms | null): string | null {
  const { serviceTier, speed, inferenceGeo } = answer ?? plainTerms;
  const stated = serviceTierOf(serviceTier);
  const isStated = serviceTier != null && stated !== anyServiceTier;
  return variantName({
    serviceTier: isStated ? stated : asked.serviceTier === anyServiceTier ? null : asked.serviceTier,
    speed: speed == null ? asked.speed : factorValueOf("speed", speed),
    inferenceGeo: inferenceGeo == null ? asked.inferenceGeo : factorValueOf("inference_geo", inferenceGeo),
  });
}

const noCalls: ToolCalls = {};

const previewSearch = "web_search_preview_call";

/**
 * Counts web searches as calls of the preview search tool if the request has that tool. Answers do not distinguish the
 * two tools, but their fees differ.
 */
function callsOf(stated: ToolCalls = noCalls, asked: HostedTools | null): ToolCalls {
  if (stated["web_search_call"] === undefined || asked?.calls.includes(previewSearch) !== true) return stated;
  const { web_search_call: searches, ...others } = stated;
  return { ...others, [previewSearch]: searches };
}

/** Returns the request and the prices that decide the charge of an answer, by the terms of `billedAs`. */
export function chargeTerms(quote: Quote, billed: ChargeTerms["billed"]): ChargeTerms {
  const { model, request } = quote;
  return { model, request, billed, runPrice: (name) => servedBy(quote, name) };
}

const asAsked: OwnPrice = { isOther: false, price: null };

/** Returns the id of the model that answered; undefined if the request did not name it. */
function answeredBy(quote: Quote, name: string | null): string | undefined {
  if (name === null) return undefined;
  const served = servedBy(quote, name);
  const id =
    quote.model === undefined || served.isOther ? (quote.catalogue.named(name, quote.at)?.id ?? name) : quote.model.id;
  return quote.modelIds.includes(id) ? id : undefined;
}

/** Compares a model that an answer names with the requested model, by the prices in force at the admission. */
function servedBy(quote: Quote, name: string | null): OwnPrice {
  const { request, model, at, catalogue } = quote;
  if (name === null || model === undefined || name === request.model || name === model.id) return asAsked;
  // Only named models count, because the ceiling price does not show what an unknown model costs.
  const found = catalogue.named(name, at);
  if (model.servedAs.some((each) => isServedAs(each, name) || (found && catalogue.named(each, at)?.id === found.id)))
    return asAsked;
  if (found === undefined) return isRevision(name, request.model) ? asAsked : { isOther: true, price: null };
  if (found.id === model.id) return asAsked;
  return { isOther: true, price: found.unit === model.unit ? (pricedFor(request, found)?.price ?? null) : null };
}

/** Returns true if `name` spells the stated name, alone or with a provider. */
function isServedAs(stated: string, name: string): boolean {
  const [one, other] = [fold(stated), fold(name)];
  return one === other || one === bareName(other);
}

/** Returns true if `name` is the requested name, alone or followed by a date or a revision. Ignores providers. */
function isRevision(name: string, asked: string): boolean {
  const [bare, requested] = [bareName(fold(name)), bareName(fold(asked))];
  return bare.startsWith(requested) && /^(?:[-@](?:[\d-]+|latest))?$/.test(bare.slice(requested.length));
}

/**
 * Returns headers with the cost of an answer and the amount left in its budget. Returns no headers if there is no price
 * or the answer reports no usage.
 */
export function costHeaders(
  { price, visibleRoom: room, hold }: PendingCharge,
  quote: Quote,
  answer: ModelAnswer,
): HeaderList {
  const billed = billedAs(quote, answer);
  const usage = usageFor(chargeTerms(quote, billed), answer.usage);
  if (price === null || usage === undefined) return [];
  const [{ servedPrice, billing }] = billed;
  const prices = { price, servedPrice: servedPrice?.version ?? null };
  const { charged } = costUnder(prices, usage.tokens, billingOfRuns(billing, usage.billedRuns));
  const cost: HeaderList = [
    ["x-farebox-cost-usd", formatUsd(charged)],
    ...(price.model === ceilingPrice ? [ceilingMark] : []),
  ];
  if (room === null) return cost;
  const left = room + (hold ?? noMoney) - charged;
  return [...cost, ["x-farebox-budget-remaining-usd", formatUsd((left < 0n ? noMoney : left) as PicoUsd)]];
}

/** Header of the answer to a request without a price, so that a missing cost is not taken for 0. */
export const noPriceMark = ["x-farebox-price", "none"] as const;

/** Header that marks a cost as calculated from the ceiling price instead of the model's own price. */
const ceilingMark = ["x-farebox-price", ceilingPrice] as const;
