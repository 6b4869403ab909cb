import { invariant } from "../core/assert.ts";
import { imageTokensMax, type ImageRule } from "../core/prompt-text.ts";
import { parseRate } from "../core/money.ts";
import {
  canonicalPrice,
  ceilingPrice,
  type PinnedPrice,
  type PriceTier,
  type PriceVersion,
  type ToolFee,
} from "../core/price.ts";
import { unchanged, type Permille } from "../core/usage.ts";
import type { CatalogueModel, FileLocation, ModelSpan } from "../ports/catalogue.ts";
import { contentId } from "../wire/content-id.ts";
import { traitsIn, type Change } from "./changes.ts";
import { factorTexts, variantsOf } from "./factors.ts";
import { decidePrice, type DecidedPrice, type DecidedTier, type Levels } from "./levels.ts";
import type { Block, Decided } from "./read.ts";
import {
  cacheWords,
  chargedRates,
  chargedUsd,
  freeTiers,
  listRates,
  reportUncharged,
  usdOf,
  type DecidedAmount,
} from "./rates.ts";
import { traitNames, type StatedModel, type StatedPrice, type StatedTraits } from "./schema.ts";
import { intervalsOf, validities, type Dated, type Validity } from "./validity.ts";

/** Statement of a model in its file, with the file's defaults and the levels that apply to the model. */
export interface ModelStatement {
  readonly id: string;
  readonly provider: string;
  readonly model: StatedModel;
  readonly defaults: StatedTraits;
  /** Position of the model in its file. */
  readonly block: Block;
  /** Position of the file's defaults. */
  readonly defaultsBlock: Block;
}

/** What applies to a model at an instant in addition to its own statement. */
export interface ModelLevels extends Levels {
  readonly group: string | null;
  /** Changes in force, from the lowest to the highest level. */
  readonly changes: readonly Change[];
}

/** What applies to a model in addition to its own statement, over time. */
export interface LevelsInTime {
  /** Instants at which changes begin or end, in milliseconds since 1970. */
  readonly starts: ReadonlySet<number>;
  /** The part of `starts` at which a price may change. */
  readonly pricedStarts: ReadonlySet<number>;
  at(instant: number): ModelLevels;
}

/** Defaults for a model whose file states none. They make estimates too high rather than too low. */
const fallback = { errorFactor: "1.5", tokensPerByte: "1.5", tokensPerSecond: 400 } as const;

/**
 * Returns the spans of a model. In a span without a price in force, the price is null. If the function reports faults,
 * the result is incomplete.
 */
export function resolveModel(statement: ModelStatement, levels: LevelsInTime): readonly ModelSpan[] {
  const block = statement.block.at("prices");
  // A price that was removed because of a fault is undefined.
  const prices: readonly (StatedPrice | undefined)[] = statement.model.prices ?? [];
  const priced: { readonly start: number; readonly price: PinnedPrice | null }[] = [];
  for (const inForce of pricesInForce(prices, block, levels)) {
    const version = versionOf(statement, inForce);
    if (version === undefined) continue;
    priced.push({ start: inForce.validity.start, price: pin(version) });
    if (inForce.endsAt !== null) priced.push({ start: inForce.endsAt, price: null });
  }
  const starts = new Set([Number.NEGATIVE_INFINITY, ...priced.map(({ start }) => start), ...levels.starts]);
  const traits = new Map<ModelLevels, Traits>();
  return [...starts]
    .sort((a, b) => a - b)
    .map((start) => {
      const inForce = levels.at(start);
      const own = traits.get(inForce) ?? traitsOf(statement, inForce);
      traits.set(inForce, own);
      return { start, model: { ...own, price: priced.findLast((each) => each.start <= start)?.price ?? null } };
    });
}

/** A price of a model, and a part of its validity in which the same levels apply. */
export interface PriceInForce<Price> {
  readonly price: Price;
  readonly validity: Validity;
  readonly block: Block;
  readonly levels: ModelLevels;
  /** Instant after which no price is in force, in milliseconds since 1970; null if another price follows, or no end. */
  readonly endsAt: number | null;
}

/** Returns the parts of the prices' validities. A price is undefined if it was removed because of a fault. */
export function* pricesInForce<Price extends Dated>(
  prices: readonly (Price | undefined)[],
  block: Block,
  levels: LevelsInTime,
): Generator<PriceInForce<Price>> {
  for (const { index, validity, ends } of intervalsOf(validities(prices, block), levels.pricedStarts)) {
    const price = prices[index];
    const inForce = levels.at(validity.start);
    for (const { effect } of inForce.changes) effect.meetsPrice = true;
    if (price !== undefined)
      yield { price, validity, block: block.at(index), levels: inForce, endsAt: ends ? validity.end : null };
  }
}

/** Adds the id and the canonical text to a price version. */
export function pin(version: PriceVersion): PinnedPrice {
  const canonical = canonicalPrice(version);
  return { id: contentId(canonical), canonical, version };
}

type Traits = Omit<CatalogueModel, "price">;

/** Returns the place that decides each stated property, by the property's name in price files. */
export function traitPlaces(
  statement: ModelStatement,
  changes: readonly Change[],
): Readonly<Record<string, FileLocation>> {
  const { stated, placeOf } = statedTraits(statement, changes);
  const fields = traitNames.filter((field) => stated[field] !== undefined);
  return Object.fromEntries(fields.map((field) => [field, placeOf(field).place()]));
}

/**
 * Returns the stated properties of a model. `rankOf`: rank of the level that decides a field, 0 for the file's defaults, 1
 * for the model, more for changes. `placeOf`: the block that decides a field, from the rank `lowest` up.
 */
function statedTraits({ model, defaults, block, defaultsBlock }: ModelStatement, changes: readonly Change[]) {
  const levels: readonly { readonly stated: StatedTraits; readonly block: Block }[] = [
    { stated: defaults, block: defaultsBlock },
    { stated: model, block },
    ...changes.map((change) => ({ stated: traitsIn(change.stated), block: change.block })),
  ];
  const stated: StatedTraits = Object.assign({}, ...levels.map((level) => level.stated));
  const rankOf = (field: keyof StatedTraits) => levels.findLastIndex((level) => level.stated[field] !== undefined);
  const placeOf = (field: keyof StatedTraits, lowest = 0) =>
    (levels[Math.max(rankOf(field), lowest)]?.block ?? block).at(field);
  return { stated, rankOf, placeOf };
}

/**
 * Returns all properties of a model except the price. Takes each value from the changes, from the model, from its file's
 * defaults or from `fallback`, in this order.
 */
function traitsOf(statement: ModelStatement, { group, changes }: ModelLevels): Traits {
  const { block, model, defaultsBlock } = statement;
  const { stated, rankOf, placeOf } = statedTraits(statement, changes);
  // A fault of a default is reported at the model, because the default may be right for others.
  const blockOf = (field: keyof StatedTraits) => placeOf(field, 1);
  const encoding = stated.tokenizer ?? null;
  const factorRank = rankOf("error_factor");
  const factorMessage = "is only for models whose tokenizer is not published; leave it out, or write `tokenizer: null`";
  const lacksMeaning = encoding !== null && factorRank > 0 && factorRank >= rankOf("tokenizer");
  if (lacksMeaning && factorRank === 1 && block.isReliable("tokenizer")) blockOf("error_factor").report(factorMessage);
  for (const { effect, stated: changed, block: own } of changes) {
    for (const field of Object.keys(traitsIn(changed))) {
      if (field !== "error_factor" || !lacksMeaning) effect.apply(field, statement.id);
      else effect.miss(field, statement.id, { block: own.at(field), message: factorMessage });
    }
  }
  const required = (field: "context_tokens" | "max_output_tokens") => {
    // A model with only task prices needs no token limits.
    const isForTasks = model.tasks !== undefined && model.prices === undefined && block.isReliable("prices");
    const missing =
      stated[field] === undefined && !isForTasks && block.isReliable(field) && defaultsBlock.isReliable(field);
    if (missing) block.report(`"${field}" is missing; write it here or in \`defaults\``);
    return stated[field] ?? 0;
  };
  const imageRule = imageRuleOf(stated.image_tokens);
  const imagePart = stated.image_part_tokens ?? null;
  const imageMost = imageRule === null ? 0 : imageTokensMax(imageRule);
  const imageRanks = rankOf("image_part_tokens") - rankOf("image_tokens");
  if ((imagePart ?? 0) < imageMost) {
    if (imageRanks > 0 || (imageRanks === 0 && imagePart !== null))
      blockOf("image_part_tokens").report(`is below the most that image_tokens can count; write ${imageMost} or more`);
    else {
      const fault = imagePart === null ? "but image_part_tokens is missing" : `above image_part_tokens, ${imagePart}`;
      const advice = rankOf("image_tokens") > 1 ? `write ${imageMost} or more there` : "write it here or in `defaults`";
      blockOf("image_tokens").report(`can count ${imageMost} tokens, ${fault}; ${advice}`);
    }
  }
  return {
    id: statement.id,
    provider: statement.provider,
    group: statement.id === ceilingPrice ? ceilingPrice : group,
    servedAs: model.served_as ?? [],
    contextTokens: required("context_tokens"),
    outputTokensMax: required("max_output_tokens"),
    maxOutputField: stated.max_output_field ?? {},
    streams: stated.streams ?? "burst",
    tokensPerByte: permille(stated.tokens_per_byte ?? (encoding === null ? fallback.tokensPerByte : "1")),
    imagePartTokens: imagePart,
    imageRule,
    audioPartTokens: stated.audio_part_tokens ?? null,
    filePartTokens: stated.file_part_tokens ?? null,
    unit: stated.unit ?? "token",
    imagesOnly: stated.images_only ?? false,
    encoding: encoding ?? "o200k_base",
    tokenizerIsPublic: encoding !== null,
    errorFactor: encoding === null ? permille(stated.error_factor ?? fallback.errorFactor) : unchanged,
    promptForm: (stated.reasoning ?? true) ? (stated.prompt_form ?? "chat") : "chat",
    reasons: stated.reasoning ?? true,
    tokensPerSecond: stated.tokens_per_second ?? fallback.tokensPerSecond,
    billsServerErrors: stated.bills_server_errors ?? false,
    obeysMaxToolCalls: stated.obeys_max_tool_calls ?? false,
  };
}

function imageRuleOf(stated: StatedTraits["image_tokens"]): ImageRule | null {
  if (stated == null) return null;
  if ("base" in stated) return { kind: "tiles", base: stated.base, tile: stated.tile };
  const { patch, most, multiplier = "1", longest = null } = stated;
  return { kind: "patches", side: patch, most, multiplier: permille(multiplier), longest };
}

/** Parses a factor that the schema has validated. Rates have six decimals, factors three. */
function permille(text: string): Permille {
  const millionths = parseRate(text);
  invariant(millionths !== undefined && millionths % 1000n === 0n, "a factor passed the schema");
  return Number(millionths / 1000n) as Permille;
}

/** Resolves one price. Returns undefined if it reports a fault. */
function versionOf(
  statement: ModelStatement,
  { price, validity, block, levels }: PriceInForce<StatedPrice>,
): PriceVersion | undefined {
  const isFlat = price.per_request !== undefined;
  const hasNeither =
    !isFlat && price.official === undefined && block.isReliable("official") && block.isReliable("per_request");
  if (hasNeither || (isFlat && price.official !== undefined)) {
    block.report("must have exactly one kind of price; write either `official` rates or `per_request`");
    return undefined;
  }
  if (isFlat) reportRates(price, block);
  const decided = decidePrice({ id: statement.id, countsTokens: countsTokens(statement) }, price, block, levels);
  const { perRequest } = decided;
  const tiers = isFlat ? freeTiers : tiersOf(decided.tiers, decided);
  const serviceTiers = isFlat ? {} : serviceTiersOf(decided);
  const flat = perRequest && flatPrice(perRequest, decided, block);
  const fees = feesOf(price, decided, block);
  if (tiers === undefined || flat === undefined || serviceTiers === undefined || fees === undefined) return undefined;
  const isAbsolute = isFlat ? perRequest?.gateway !== undefined : statesRates(decided);
  const minimum = decided.minimum?.value ?? {};
  return {
    model: statement.id,
    group: levels.group,
    fraction: isAbsolute ? null : (decided.fraction?.value ?? null),
    from: validity.from,
    until: validity.until,
    source: decided.source,
    tierMode: decided.tierMode?.value === "marginal" ? "marginal_from" : "whole_request",
    tiers,
    ...(Object.keys(serviceTiers).length + decided.factors.length > 0 && {
      serviceTiers: { ...serviceTiers, ...variantsOf(decided, { tiers, serviceTiers }) },
    }),
    ...(decided.factors.length > 0 && { factors: factorTexts(decided) }),
    ...(Object.keys(fees).length > 0 && { fees }),
    perRequest: flat,
    minimum: { tokens: minimum.tokens ?? 0, usd: usdOf(minimum.usd ?? "0") },
  };
}

/** Returns false for a model by the second or the character. */
export function countsTokens({ model, defaults }: ModelStatement): boolean {
  return (model.unit ?? defaults.unit ?? "token") === "token";
}

/** Returns true if the gateway states an absolute rate for a class of the first tier. */
function statesRates({ tiers, cacheTerms }: DecidedPrice): boolean {
  const isAmount = (term: Decided<string> | undefined) => term !== undefined && !cacheWords.has(term.value);
  return Object.keys(tiers[0]?.gateway ?? {}).length > 0 || Object.values(cacheTerms).some(isAmount);
}

/** Resolves the rates of service tiers. Returns undefined if it reports a fault. */
function serviceTiersOf(decided: DecidedPrice): NonNullable<PriceVersion["serviceTiers"]> | undefined {
  const resolved = [...decided.serviceTiers].map(([name, tiers]) => [name, tiersOf(tiers, decided)] as const);
  return resolved.every(([, tiers]) => tiers !== undefined)
    ? (Object.fromEntries(resolved) as NonNullable<PriceVersion["serviceTiers"]>)
    : undefined;
}

/** Resolves fees. Returns undefined if it reports a fault, or if an amount was removed because of an earlier fault. */
function feesOf(
  price: StatedPrice,
  decided: DecidedPrice,
  block: Block,
): Readonly<Record<string, ToolFee>> | undefined {
  const isWhole = Object.keys(price.fees ?? {}).every((name) =>
    (["usd", "gateway", "input_tokens"] as const).every((field) => block.at("fees", name).isReliable(field)),
  );
  const fees: [string, ToolFee][] = [];
  let complete = isWhole;
  for (const [name, fee] of decided.fees) {
    const charged = isWhole ? chargedUsd(fee, decided, `fees.${name}.gateway`) : undefined;
    if (charged === undefined) complete = false;
    else fees.push([name, { charged, list: usdOf(fee.official.value), inputTokens: fee.inputTokens.value }]);
  }
  return complete ? Object.fromEntries(fees) : undefined;
}

function flatPrice(amount: DecidedAmount, decided: DecidedPrice, block: Block): PriceVersion["perRequest"] | undefined {
  const here = block.at("per_request");
  if (!here.isReliable("official") || !here.isReliable("gateway")) return undefined;
  const charged = chargedUsd(amount, decided, "per_request.gateway");
  return charged === undefined ? undefined : { charged, list: usdOf(amount.official.value) };
}

/** Reports fields of a flat price that apply only to rates. */
function reportRates(price: StatedPrice, block: Block): void {
  for (const field of ["gateway", "tiers", "tier_mode", "service_tiers", "factors"] as const) {
    if (price[field] !== undefined) block.at(field).report(`has no meaning next to per_request; leave "${field}" out`);
  }
  if (price.minimum?.tokens !== undefined) {
    block.at("minimum", "tokens").report("has no meaning next to per_request; write `usd` instead");
  }
}

/** Resolves the tiers of one service tier, in ascending order. Returns undefined if a tier is incomplete. */
function tiersOf(tiers: readonly DecidedTier[], decided: DecidedPrice): PriceVersion["tiers"] | undefined {
  const resolved: PriceTier[] = [];
  let below = 0;
  for (const tier of tiers) {
    const from = tier.from === null ? 0 : tier.from?.value;
    if (tier.from && tier.from.value <= below) {
      tier.from.block.report(
        `is ${tier.from.value}, not above the tier before it, ${below}; write tiers in ascending order`,
      );
    }
    below = from ?? below;
    const rates = tierOf(from, tier, decided);
    if (rates !== undefined) resolved.push(rates);
  }
  const [first, ...higher] = resolved;
  return first !== undefined && resolved.length === tiers.length ? [first, ...higher] : undefined;
}

/** Resolves one tier. Returns undefined if it reports a fault, or if a rate was removed because of an earlier fault. */
function tierOf(fromPromptTokens: number | undefined, tier: DecidedTier, decided: DecidedPrice): PriceTier | undefined {
  const charged = chargedRates(tier, decided);
  const { official, blocks } = tier;
  if (!charged.ok) {
    // One correction usually gives all classes a rate, so only the first class without a rate is reported.
    const isUnknown = (fault: (typeof charged.faults)[number]) =>
      fault.kind === "none" && blocks.every((block) => areSidesReliable(block, fault.class));
    const unknown = charged.faults.find(isUnknown);
    for (const fault of charged.faults) {
      if (fault.kind === "inexact") fault.report();
      else if (fault === unknown) {
        const { class: name } = fault;
        const message = `no charged rate for ${name}; name a group with a fraction, or state gateway.${name}`;
        reportUncharged(blocks[0].at("official", name), decided.assigned, message);
      }
    }
    return undefined;
  }
  if (official.input === undefined || official.output === undefined || fromPromptTokens === undefined) return undefined;
  return { fromPromptTokens, charged: charged.rates, list: listRates(official) };
}

function areSidesReliable(block: Block, name: string): boolean {
  return ["official", "gateway"].every((side) => block.isReliable(side) && block.at(side).isReliable(name));
}
