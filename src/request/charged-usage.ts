import { hasVariant } from "../core/bounds.ts";
import { costUnder, type BilledRun, type Billing } from "../core/cost.ts";
import { tierFor, type PinnedPrice, type PriceVersion } from "../core/price.ts";
import { billingOfRuns, mergeRuns } from "../core/runs.ts";
import { mapRuns, usagesIn } from "../core/several-usages.ts";
import { mergeDoubts, promptTotal, withDoubts, type Doubt, type TokenClass, type Usage } from "../core/usage.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import type { ModelRequest } from "../wire/model-request.ts";

/** Terms that decide the charge of an answer, in addition to its tokens and the price of the requested model. */
export interface Billed {
  /** Price of the model that answered. Null if it is the requested model, or has no price in that model's unit. */
  readonly servedPrice: PinnedPrice | null;
  /**
   * Id of the model that answered. Undefined if the request named only one model, or if it is unknown which one
   * answered.
   */
  readonly answered: string | undefined;
  /** Service tier and calls of hosted tools; undefined at the standard tier without such calls. */
  readonly billing: Billing | undefined;
  readonly doubts: readonly Doubt[];
}

/** Price of another model than the requested one. */
export interface OwnPrice {
  readonly isOther: boolean;
  /** Null if it is the requested model, or has no price in that model's unit. */
  readonly price: PinnedPrice | null;
}

/** Request and prices that decide the charge of a usage. */
export interface ChargeTerms {
  readonly model: CatalogueModel | undefined;
  readonly request: ModelRequest;
  /** Terms that decide which of several stated usages costs most. */
  readonly billed: readonly Pick<Billed, "servedPrice" | "billing">[];
  /** Returns the price of a model that an answer names for one of its runs. */
  readonly runPrice: (model: string) => OwnPrice;
}

/** Usage with the runs that are charged apart; without runs if the tokens cost as much as those of one run. */
export interface ChargedUsage extends Usage {
  readonly billedRuns?: readonly BilledRun[];
}

/**
 * Returns the usage for which the request is charged; undefined if the answer states none in the model's billing unit.
 * If the answer states usages that contradict each other, returns the more expensive prompt with the more expensive
 * completion.
 */
export function usageFor(terms: ChargeTerms, stated: Usage | undefined): ChargedUsage | undefined {
  const { model, request, billed } = terms;
  const price = model?.price?.version;
  const [latest, ...rivals] = usagesIn(model?.unit ?? "token", stated, request.classes.prompt).map(
    (usage): ChargedUsage =>
      price === undefined ? usage : withBilledRuns(withKnownClasses(usage, price, terms), price, terms),
  );
  if (latest === undefined || price === undefined) return latest;
  let [most, cost]: [ChargedUsage, bigint] = [latest, -1n];
  for (const usage of rivals.length === 0 ? [] : [latest, ...rivals])
    for (const { servedPrice, billing } of billed) {
      const prices = { price, servedPrice: servedPrice?.version ?? null };
      const { charged } = costUnder(prices, usage.tokens, billingOfRuns(billing, usage.billedRuns));
      if (charged > cost) [most, cost] = [usage, charged];
    }
  return most === latest ? latest : withDoubts(most, mergeDoubts(latest.doubts, ["usage_contradicts"]));
}

/** Moves tokens whose class is unknown into the most expensive class that they can have, in each run by its price. */
function withKnownClasses(
  usage: Usage,
  price: PriceVersion,
  { request, runPrice }: Pick<ChargeTerms, "request" | "runPrice">,
): Usage {
  if (price.perRequest !== null) return usage;
  return mapRuns(usage, (run, model) => {
    const own = (model === null ? null : runPrice(model).price?.version) ?? price;
    return withMediaTokens(withUnknownTokens(run, own, request.classes.prompt), own, mediaClasses(request));
  });
}

/**
 * Prices the runs of a usage. A run of another model has that model's price; without one, it has the price of the
 * request, with the doubt `served_model`.
 */
function withBilledRuns(
  { runs, ...usage }: Usage,
  price: PriceVersion,
  { billed, runPrice }: Pick<ChargeTerms, "billed" | "runPrice">,
): ChargedUsage {
  if (runs === undefined) return usage;
  const terms = billed.map(({ servedPrice, billing }) => ({
    prices: servedPrice === null ? [price] : [price, servedPrice.version],
    serviceTier: billing?.serviceTier ?? null,
  }));
  const doubts: Doubt[] = [];
  const priced = runs.map(({ usage: { tokens }, model }): BilledRun => {
    const { isOther, price: own } = model === null ? { isOther: false, price: null } : runPrice(model);
    // A price per request says nothing about a run's tokens.
    const runsPrice = own === null || own.version.perRequest !== null ? null : own;
    if (isOther && runsPrice === null) doubts.push("served_model");
    if (runsPrice !== null && !terms.every(({ serviceTier }) => hasVariant(runsPrice.version, serviceTier)))
      doubts.push("service_tier");
    return { tokens, promptTokens: promptTotal(tokens), price: runsPrice };
  });
  const merged = mergeRuns(priced, terms);
  if (merged.isRounded) doubts.push("usage_unknown_class");
  return withDoubts({ ...usage, ...(merged.runs && { billedRuns: merged.runs }) }, doubts);
}

/** Counts prompt tokens of an unknown class in the most expensive class that the request's prompt can have. */
function withUnknownTokens(usage: Usage, price: PriceVersion, classes: readonly TokenClass[]): Usage {
  const { tokens, unknownInput = 0 } = usage;
  if (unknownInput === 0) return usage;
  const { charged } = tierFor(price, promptTotal(tokens));
  const most = classes.reduce<TokenClass>((top, name) => (charged[name] > charged[top] ? name : top), "input");
  const moved = { ...tokens, input: tokens.input - unknownInput };
  return withDoubts({ ...usage, tokens: { ...moved, [most]: moved[most] + unknownInput } }, ["usage_unknown_class"]);
}

/**
 * Token classes of sound and images: `prompt` for those that a request contains, `completion` for those that it asks
 * for.
 */
export interface MediaClasses {
  readonly prompt: readonly TokenClass[];
  readonly completion: readonly TokenClass[];
}

/**
 * Counts all text tokens as sound or image tokens if those cost more than text and the usage states none of them. Many
 * gateways state only totals, which do not show how many tokens are text.
 */
export function withMediaTokens(usage: Usage, price: PriceVersion, media: MediaClasses): Usage {
  const prompted = withTokensIn(usage, price, "input", media.prompt);
  return usage.wroteOnlyText === true ? prompted : withTokensIn(prompted, price, "output", media.completion);
}

function withTokensIn(
  usage: Usage,
  price: PriceVersion,
  text: "input" | "output",
  media: readonly TokenClass[],
): Usage {
  const { tokens } = usage;
  const extra = (name: TokenClass) => price.tiers[0].charged[name] - price.tiers[0].charged[text];
  const unstated = media.filter((name) => tokens[name] === 0 && extra(name) > 0n);
  const [most] = unstated.toSorted((one, other) => (extra(one) > extra(other) ? -1 : 1));
  if (most === undefined || tokens[text] === 0) return usage;
  const moved = { ...tokens, [text]: 0, [most]: tokens[text] };
  return withDoubts({ ...usage, tokens: moved }, ["usage_unknown_class"]);
}

function mediaClasses({ size, classes }: ModelRequest): MediaClasses {
  return {
    prompt: [
      ...(size.audioParts > 0 ? (["audio_input"] as const) : []),
      ...(size.imageParts > 0 ? (["image_input"] as const) : []),
    ],
    completion: classes.completion.filter((name) => name === "audio_output" || name === "image_output"),
  };
}
