import { costUnder, type Billing } from "../core/cost.ts";
import { formatUsd, noMoney, type PicoUsd } from "../core/money.ts";
import { noDoubts, usageIn, type Doubt } from "../core/usage.ts";
import type { HeaderList } from "../ports/exchange.ts";
import type { AnswerTerms, ModelAnswer, ToolCalls } from "../wire/model-answer.ts";
import type { Held } from "./hold.ts";
import { ceilingPrice, type PinnedPrice } from "../core/price.ts";
import { anyServiceTier, hasServiceTier, plainTerms, serviceTierOf, type HostedTools } from "../core/bounds.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import { pricedFor, type Quote } from "./price.ts";

/** Terms that decide the charge of an answer, in addition to its tokens and the price of the requested model. */
export interface Billed {
  /** Price of the model that answered, if the request named another; null otherwise. */
  readonly servedPrice: PinnedPrice | null;
  /** Undefined for the standard service tier and no calls of hosted tools. */
  readonly billing: Billing | undefined;
  readonly doubts: readonly Doubt[];
}

/** Terms of an answer at the price of the requested model, at the standard tier, without hosted tools. */
const plainlyBilled: Billed = { servedPrice: null, billing: undefined, doubts: noDoubts };

/**
 * Returns the terms that the answer states. Uses the request's terms for those that it leaves out; `answer` is null if it
 * states none.
 */
export function billedAs(quote: Quote, answer: AnswerTerms | null): Billed {
  const { serviceTier: asked, hostedTools } = quote.request.terms ?? plainTerms;
  const stated = serviceTierOf(answer?.serviceTier);
  const isStated = answer?.serviceTier != null && stated !== anyServiceTier;
  const serviceTier = isStated ? stated : asked === anyServiceTier ? null : asked;
  const calls = callsOf(answer?.toolCalls, hostedTools);
  const made = calls === noCalls ? [] : Object.keys(calls).filter((kind) => (calls[kind] ?? 0) > 0);
  const isStandard = serviceTier === null && made.length === 0;
  const billing = isStandard
    ? undefined
    : { serviceTier, calls: Object.fromEntries(made.map((kind) => [kind, calls[kind] ?? 0])) };
  const price = quote.model?.price?.version;
  // Without a price there is no amount, so there is nothing to doubt.
  if (price === undefined) return { servedPrice: null, billing, doubts: [] };
  const served = servedBy(quote, answer?.servedModel ?? null);
  if (isStandard && hostedTools === null && !served.isOther) return plainlyBilled;
  const prices = [price, ...(served.price === null ? [] : [served.price.version])];
  const hasFee = (kind: string) => prices.every(({ fees = {} }) => Object.hasOwn(fees, kind));
  const isUncounted =
    hostedTools !== null &&
    (hostedTools.areShown
      ? answer?.toolCalls === undefined
      : hostedTools.calls.some((kind) => calls[kind] === undefined));
  const doubts: Doubt[] = [];
  if (served.isOther) doubts.push("served_model");
  if (!prices.every((each) => hasServiceTier(each, serviceTier))) doubts.push("service_tier");
  if (isUncounted || !made.every(hasFee)) doubts.push("hosted_tool");
  return { servedPrice: served.price, billing, doubts };
}

const noCalls: ToolCalls = {};

const previewSearch = "web_search_preview_call";

/**
 * Counts searches as calls of the preview tool if the request has it. Answers do not distinguish the two, but their fees
 * differ.
 */
function callsOf(stated: ToolCalls = noCalls, asked: HostedTools | null): ToolCalls {
  if (stated["web_search_call"] === undefined || asked?.calls.includes(previewSearch) !== true) return stated;
  const { web_search_call: searches, ...others } = stated;
  return { ...others, [previewSearch]: searches };
}

/** Comparison of the model that answered with the requested model. */
interface Served {
  readonly isOther: boolean;
  /** Price for this request of the model that answered. Null if it is the requested model, or has no price. */
  readonly price: PinnedPrice | null;
}

const asAsked: Served = { isOther: false, price: null };

/** Compares the model that answered with the requested model, by the prices in force at the admission. */
function servedBy({ request, model, at, catalogue }: Quote, name: string | null): Served {
  if (name === null || model === undefined || name === request.model || name === model.id) return asAsked;
  // Some gateways write the provider before the name.
  const bare = name.slice(name.lastIndexOf("/") + 1);
  // The ceiling price is no evidence of what an unknown model costs.
  const known = (each: string): CatalogueModel | undefined => catalogue.named(each, at);
  const found = known(name) ?? known(bare) ?? known(bare.toLowerCase());
  if (
    model.servedAs.some(
      (each) => each === name || each === bare || (found !== undefined && known(each)?.id === found.id),
    )
  )
    return asAsked;
  if (found === undefined) return isRevision(bare, request.model) ? asAsked : { isOther: true, price: null };
  if (found.id === model.id) return asAsked;
  return { isOther: true, price: found.unit === model.unit ? (pricedFor(request, found)?.price ?? null) : null };
}

/** Returns true if a name is the requested name, or that name followed by a date or a revision. */
function isRevision(name: string, asked: string): boolean {
  const bare = asked.slice(asked.lastIndexOf("/") + 1);
  return (
    name.toLowerCase().startsWith(bare.toLowerCase()) &&
    /^(?:[-@](?:[\d-]+|latest))?$/.test(name.slice(bare.length).toLowerCase())
  );
}

/**
 * Returns headers with the cost of an answer and the room left in its budget. Returns none without a price or reported
 * usage.
 */
export function costHeaders({ price, room, hold }: Held, quote: Quote, answer: ModelAnswer): HeaderList {
  const usage = usageIn(quote.model?.unit ?? "token", answer.usage, quote.request.classes.prompt);
  if (price === null || usage === undefined) return [];
  const { servedPrice, billing } = billedAs(quote, answer);
  const { charged } = costUnder({ price, servedPrice: servedPrice?.version ?? null }, usage.tokens, billing);
  const cost: HeaderList = [
    ["x-farebox-cost-usd", formatUsd(charged)],
    ...(price.model === ceilingPrice ? [ceilingMark] : []),
  ];
  if (room === null) return cost;
  const left = room + (hold ?? noMoney) - charged;
  return [...cost, ["x-farebox-budget-remaining-usd", formatUsd((left < 0n ? noMoney : left) as PicoUsd)]];
}

/** Header of a cost that is not by the model's own price. */
const ceilingMark = ["x-farebox-price", ceilingPrice] as const;
