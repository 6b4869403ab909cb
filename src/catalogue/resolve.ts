import { invariant } from "../core/assert.ts";
import { imageTokensMax, type ImageRule } from "../core/prompt-text.ts";
import { parseRate } from "../core/money.ts";
import {
  canonicalPrice,
  ceilingPrice,
  serviceTierNames,
  type PinnedPrice,
  type PriceTier,
  type PriceVersion,
  type ToolFee,
} from "../core/price.ts";
import { unchanged, type Permille } from "../core/usage.ts";
import type { CatalogueModel, ModelSpan } from "../ports/catalogue.ts";
import { contentId } from "../wire/content-id.ts";
import type { Block } from "./read.ts";
import { chargedRates, chargedUsd, freeRates, listRates, usdOf, type Fraction, type StatedSides } from "./rates.ts";
import type { StatedModel, StatedPrice, StatedTraits } from "./schema.ts";

/** Statement of a model in its file, with the file's defaults. */
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

/** Defaults for a model whose file states none. They make estimates too high rather than too low. */
const fallback = { errorFactor: "1.5", tokensPerByte: "1.5", tokensPerSecond: 400 } as const;

/**
 * Returns the spans of a model. In a span without a price in force, the price is null. If the function reports faults,
 * the result is incomplete.
 */
export function resolveModel(statement: ModelStatement, fraction: Fraction | null): readonly ModelSpan[] {
  const base = traitsOf(statement);
  const block = statement.block.at("prices");
  // A price that was removed because of a fault is undefined.
  const prices: readonly (StatedPrice | undefined)[] = statement.model.prices ?? [];
  const validity = validities(prices, block);
  const resolved: ModelSpan[] = [{ start: Number.NEGATIVE_INFINITY, model: { ...base, price: null } }];
  prices.forEach((price, index) => {
    const span = validity[index];
    if (price === undefined || span === undefined) return;
    const version = versionOf(statement, price, span, fraction, block.at(index));
    if (version === undefined) return;
    resolved.push({ start: span.start, model: { ...base, price: pin(version) } });
    const isLast = index === prices.length - 1;
    if (isLast && span.end !== null) resolved.push({ start: span.end, model: { ...base, price: null } });
  });
  return resolved;
}

/** Adds the id and the canonical text to a price version. */
export function pin(version: PriceVersion): PinnedPrice {
  const canonical = canonicalPrice(version);
  return { id: contentId(canonical), canonical, version };
}

/**
 * Returns all properties of a model except the price. Takes each value from the model, from its file's defaults or from
 * `fallback`, in this order.
 */
function traitsOf(statement: ModelStatement): Omit<CatalogueModel, "price"> {
  const { block, model, defaultsBlock } = statement;
  const stated: StatedTraits = { ...statement.defaults, ...model };
  const encoding = stated.tokenizer ?? null;
  if (encoding !== null && model.error_factor !== undefined && block.isReliable("tokenizer")) {
    block
      .at("error_factor")
      .report("is only for models whose tokenizer is not published; leave it out, or write `tokenizer: null`");
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
  if (imagePart === null && imageMost > 0) {
    block
      .at("image_tokens")
      .report(`can count ${imageMost} tokens, but image_part_tokens is missing; write it here or in \`defaults\``);
  } else if (imagePart !== null && imagePart < imageMost) {
    block.at("image_part_tokens").report(`is below the most that image_tokens can count; write ${imageMost} or more`);
  }
  return {
    id: statement.id,
    provider: statement.provider,
    group: statement.id === ceilingPrice ? ceilingPrice : (model.group ?? null),
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
  price: StatedPrice,
  validity: Validity,
  fraction: Fraction | null,
  block: Block,
): PriceVersion | undefined {
  const flat = price.per_request;
  const hasNeither =
    flat === undefined &&
    price.official === undefined &&
    block.isReliable("official") &&
    block.isReliable("per_request");
  if (hasNeither || (flat !== undefined && price.official !== undefined)) {
    block.report("must have exactly one kind of price; write either `official` rates or `per_request`");
    return undefined;
  }
  const tiers = flat === undefined ? tiersOf(price, fraction, block) : flatTiers(price, block);
  const perRequest = flat === undefined ? null : flatPrice(flat, fraction, block.at("per_request"));
  const serviceTiers = flat === undefined ? serviceTiersOf(price, fraction, block.at("service_tiers")) : {};
  const fees = feesOf(price, fraction, block.at("fees"));
  if (tiers === undefined || perRequest === undefined || serviceTiers === undefined || fees === undefined)
    return undefined;
  const absolute = flat === undefined ? price.gateway !== undefined : flat.gateway !== undefined;
  return {
    model: statement.id,
    group: statement.model.group ?? null,
    fraction: absolute ? null : (fraction?.text ?? null),
    from: price.from,
    until: validity.until,
    source: price.source,
    tierMode: price.tier_mode ?? "whole_request",
    tiers,
    ...(Object.keys(serviceTiers).length > 0 && { serviceTiers }),
    ...(Object.keys(fees).length > 0 && { fees }),
    perRequest,
    minimum: { tokens: price.minimum?.tokens ?? 0, usd: usdOf(price.minimum?.usd ?? "0") },
  };
}

/** Resolves the rates of service tiers. Returns undefined if it reports a fault. */
function serviceTiersOf(
  price: StatedPrice,
  fraction: Fraction | null,
  block: Block,
): NonNullable<PriceVersion["serviceTiers"]> | undefined {
  const resolved = serviceTierNames.flatMap((name) => {
    const stated = price.service_tiers?.[name];
    return stated === undefined ? [] : [[name, tiersOf(stated, fraction, block.at(name))] as const];
  });
  return resolved.every(([, tiers]) => tiers !== undefined)
    ? (Object.fromEntries(resolved) as NonNullable<PriceVersion["serviceTiers"]>)
    : undefined;
}

/** Resolves fees. Returns undefined if it reports a fault, or if an amount was removed because of an earlier fault. */
function feesOf(
  price: StatedPrice,
  fraction: Fraction | null,
  block: Block,
): Readonly<Record<string, ToolFee>> | undefined {
  const fees: [string, ToolFee][] = [];
  let complete = true;
  for (const [name, stated] of Object.entries(price.fees ?? {})) {
    const here = block.at(name);
    const isWhole = (["usd", "gateway", "input_tokens"] as const).every((field) => here.isReliable(field));
    const sides = { official: stated.usd, gateway: stated.gateway };
    const charged = isWhole ? chargedUsd(sides, fraction, here.at("usd"), `fees.${name}.gateway`) : undefined;
    if (charged === undefined) complete = false;
    else fees.push([name, { charged, list: usdOf(stated.usd), inputTokens: stated.input_tokens }]);
  }
  return complete ? Object.fromEntries(fees) : undefined;
}

function flatPrice(
  flat: NonNullable<StatedPrice["per_request"]>,
  fraction: Fraction | null,
  block: Block,
): PriceVersion["perRequest"] | undefined {
  if (!block.isReliable("official") || !block.isReliable("gateway")) return undefined;
  const charged = chargedUsd(flat, fraction, block.at("official"), "per_request.gateway");
  return charged === undefined ? undefined : { charged, list: usdOf(flat.official) };
}

/** Returns the single free tier of a flat price. Reports fields that apply only to rates. */
function flatTiers(price: StatedPrice, block: Block): PriceVersion["tiers"] {
  for (const field of ["gateway", "tiers", "tier_mode", "service_tiers"] as const) {
    if (price[field] !== undefined) block.at(field).report(`has no meaning next to per_request; leave "${field}" out`);
  }
  if (price.minimum?.tokens !== undefined) {
    block.at("minimum", "tokens").report("has no meaning next to per_request; write `usd` instead");
  }
  return [{ fromPromptTokens: 0, charged: freeRates, list: freeRates }];
}

function tiersOf(
  price: Pick<StatedPrice, "official" | "gateway" | "tiers">,
  fraction: Fraction | null,
  block: Block,
): PriceVersion["tiers"] | undefined {
  const first = tierOf(0, sidesOf(price), fraction, block);
  const higher: PriceTier[] = [];
  let complete = first !== undefined;
  let below = 0;
  const tiers: readonly (NonNullable<StatedPrice["tiers"]>[number] | undefined)[] = price.tiers ?? [];
  tiers.forEach((stated, index) => {
    const here = block.at("tiers", index);
    const from = stated?.from_prompt_tokens;
    if (stated === undefined) return;
    if (from !== undefined && from <= below) {
      here
        .at("from_prompt_tokens")
        .report(`is ${from}, not above the tier before it, ${below}; write tiers in ascending order`);
    }
    below = from ?? below;
    const tier = tierOf(from, sidesOf(stated), fraction, here);
    if (tier === undefined) complete = false;
    else higher.push(tier);
  });
  return first !== undefined && complete ? [first, ...higher] : undefined;
}

export function sidesOf(stated: {
  readonly official?: StatedSides["official"] | undefined;
  readonly gateway?: StatedSides["gateway"] | undefined;
}): StatedSides {
  return { official: stated.official ?? {}, gateway: stated.gateway ?? {} };
}

/** Resolves one tier. Returns undefined if it reports a fault, or if a rate was removed because of an earlier fault. */
function tierOf(
  fromPromptTokens: number | undefined,
  sides: StatedSides,
  fraction: Fraction | null,
  block: Block,
): PriceTier | undefined {
  const charged = chargedRates(sides, fraction);
  if (!charged.ok) {
    // One correction usually gives all classes a rate, so only the first class without a rate is reported.
    const unknown = charged.faults.find(({ kind, class: name }) => kind === "none" && areSidesReliable(block, name));
    for (const fault of charged.faults) {
      if (fault.kind === "inexact" || fault === unknown) block.at("official", fault.class).report(fault.message);
    }
    return undefined;
  }
  const { official } = sides;
  if (official.input === undefined || official.output === undefined || fromPromptTokens === undefined) return undefined;
  return { fromPromptTokens, charged: charged.rates, list: listRates(official) };
}

function areSidesReliable(block: Block, name: string): boolean {
  return ["official", "gateway"].every((side) => block.isReliable(side) && block.at(side).isReliable(name));
}

type Dated = Pick<StatedPrice, "from" | "until">;

/**
 * UTC days on which a price is valid, from `start` up to but not including `end`, in milliseconds since 1970. `end` is
 * null if the validity has no end.
 */
export interface Validity {
  readonly start: number;
  readonly end: number | null;
  /** First ISO day after the validity: the stated end, or `from` of the next price; null if there is neither. */
  readonly until: string | null;
}

/** Returns midnight UTC of an ISO day that the schema has validated, in milliseconds since 1970. */
export function instantOf(day: string): number {
  return Date.parse(`${day}T00:00:00Z`);
}

/**
 * Returns the validity of each price, in order. A price ends when the next one begins. Reports a stated end that
 * overlaps the next price. Also reports a stated end that leaves a gap, because requests would have no price in the
 * gap.
 */
export function validities(prices: readonly (Dated | undefined)[], block: Block): readonly Validity[] {
  return prices.map((price, index) => {
    const next = prices[index + 1];
    const until = price?.until ?? next?.from ?? null;
    if (price?.until !== undefined && price.from !== undefined && price.until <= price.from) {
      block
        .at(index, "until")
        .report(`ends on ${price.until}, not after its start on ${price.from}; write a later day or leave it out`);
    }
    if (price?.from !== undefined && next?.from !== undefined)
      reportGapOrOverlap(price, next, block.at(index + 1, "from"));
    return { start: instantOf(price?.from ?? ""), end: until === null ? null : instantOf(until), until };
  });
}

function reportGapOrOverlap(price: Dated, next: Dated, start: Block): void {
  if (next.from <= price.from) {
    start.report(
      `begins on ${next.from}, but the price above it begins on ${price.from}; write them in ascending order`,
    );
    return;
  }
  if (price.until === undefined || price.until === next.from) return;
  const fault = price.until > next.from ? "overlaps the price above it" : "leaves a gap after the price above it";
  start.report(`${fault}, which ends on ${price.until}; leave that \`until\` out or write ${next.from} there`);
}
