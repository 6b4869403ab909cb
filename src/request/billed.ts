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

/** Terms that an answer is charged by, in addition to its tokens and the price that was asked for. */
export interface Billed {
  /** Price of another model that answered. */
  readonly servedPrice: PinnedPrice | null;
  /** Undefined for the standard service tier and no calls of hosted tools. */
  readonly billing: Billing | undefined;
  readonly doubts: readonly Doubt[];
}

/** By the price that was asked for, at the standard tier, without hosted tools. */
const plainlyBilled: Billed = { servedPrice: null, billing: undefined, doubts: noDoubts };

/** Decides it from what the answer states, else from what the request does; null for an answer that says nothing. */
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
  // Without a price there is no amount that could be doubted.
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

/** An answer does not tell searches of the preview tool, which has a fee of its own, from others. */
function callsOf(stated: ToolCalls = noCalls, asked: HostedTools | null): ToolCalls {
  if (stated["web_search_call"] === undefined || asked?.calls.includes(previewSearch) !== true) return stated;
  const { web_search_call: searches, ...others } = stated;
  return { ...others, [previewSearch]: searches };
}

/** The model that an answer names, where it is another one than was asked for. */
interface Served {
  readonly isOther: boolean;
  /** Its price for this request; null where it is the one that was asked for, and where it has none. */
  readonly price: PinnedPrice | null;
}

const asAsked: Served = { isOther: false, price: null };

/** Compares the model that answered with the one that was asked for, by the prices in force at the admission. */
function servedBy({ request, model, at, catalogue }: Quote, name: string | null): Served {
  if (name === null || model === undefined || name === request.model || name === model.id) return asAsked;
  // Some gateways put the provider before the name.
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

/** Reports whether an unknown name is the other one with a date or a revision after it. */
function isRevision(name: string, asked: string): boolean {
  const bare = asked.slice(asked.lastIndexOf("/") + 1);
  return (
    name.toLowerCase().startsWith(bare.toLowerCase()) &&
    /^(?:[-@](?:[\d-]+|latest))?$/.test(name.slice(bare.length).toLowerCase())
  );
}

/** Returns headers with an answer's cost and its budget's remaining room, by reported usage and the hold's result. */
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

/** Says that the cost is not of the model's own price. */
const ceilingMark = ["x-farebox-price", ceilingPrice] as const;
