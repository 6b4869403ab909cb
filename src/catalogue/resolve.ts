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

/** A model as stated by its file, with the file's defaults. */
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

/** Defaults for a model whose file states none. Each errs on the expensive side. */
const fallback = { errorFactor: "1.5", tokensPerByte: "1.5", tokensPerSecond: 400 } as const;

/**
 * Returns the model at all times. The price is null while none is in force. If it reports faults, the result is
 * incomplete.
 */
export function resolveModel(statement: ModelStatement, fraction: Fraction | null): readonly ModelSpan[] {
  const base = traitsOf(statement);
  const block = statement.block.at("prices");
  const prices: readonly (StatedPrice | undefined)[] = statement.model.prices ?? [];
  const spans = validities(prices, block);
  const resolved: ModelSpan[] = [{ start: Number.NEGATIVE_INFINITY, model: { ...base, price: null } }];
  prices.forEach((price, index) => {
    const validity = spans[index];
    if (price === undefined || validity === undefined) return;
    const version = versionOf(statement, price, validity, fraction, block.at(index));
    if (version === undefined) return;
    resolved.push({ start: validity.start, model: { ...base, price: pin(version) } });
    const last = index === prices.length - 1;
    if (last && validity.end !== null) resolved.push({ start: validity.end, model: { ...base, price: null } });
  });
  return resolved;
}

export function pin(version: PriceVersion): PinnedPrice {
  const canonical = canonicalPrice(version);
  return { id: contentId(canonical), canonical, version };
}

/**
 * Returns all properties except the price. The model's values take precedence over its file's defaults, and those
 * over the fallback.
 */
function traitsOf(statement: ModelStatement): Omit<CatalogueModel, "price"> {
  const { block, model, defaultsBlock } = statement;
  const stated: StatedTraits = { ...statement.defaults, ...model };
  const encoding = stated.tokenizer ?? null;
  if (encoding !== null && model.error_factor !== undefined && block.reliable("tokenizer")) {
    block
      .at("error_factor")
      .report("is only for models without a tokenizer of their own; leave it out, or write `tokenizer: null`");
  }
  const needed = (field: "context_tokens" | "max_output_tokens") => {
    // A model that has only task prices needs no token limits.
    const isForTasks = model.tasks !== undefined && model.prices === undefined && block.reliable("prices");
    const missing =
      stated[field] === undefined && !isForTasks && block.reliable(field) && defaultsBlock.reliable(field);
    if (missing) block.report(`"${field}" is missing; write it here or in \`defaults\``);
    return stated[field] ?? 0;
  };
  const imageRule = imageRuleOf(stated.image_tokens);
  const imagePart = stated.image_part_tokens ?? null;
  const imageMost = imageRule === null ? 0 : imageTokensMax(imageRule);
  if (imagePart === null && imageMost > 0) {
    block
      .at("image_tokens")
      .report(`can count ${imageMost}, which image_part_tokens must bound; write it here or in \`defaults\``);
  } else if (imagePart !== null && imagePart < imageMost) {
    block.at("image_part_tokens").report(`is below what image_tokens can count; write ${imageMost} or more`);
  }
  return {
    id: statement.id,
    provider: statement.provider,
    group: statement.id === ceilingPrice ? ceilingPrice : (model.group ?? null),
    servedAs: model.served_as ?? [],
    contextTokens: needed("context_tokens"),
    outputTokensMax: needed("max_output_tokens"),
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

/** Returns one resolved price; undefined if it reports a fault. */
function versionOf(
  statement: ModelStatement,
  price: StatedPrice,
  validity: Validity,
  fraction: Fraction | null,
  block: Block,
): PriceVersion | undefined {
  const flat = price.per_request;
  const neither =
    flat === undefined && price.official === undefined && block.reliable("official") && block.reliable("per_request");
  if (neither || (flat !== undefined && price.official !== undefined)) {
    block.report("states a price in one way; write either `official` rates or `per_request`");
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

/** Returns undefined if it reports a fault. */
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

/** Returns undefined if it reports a fault, or if an amount was removed because of an earlier fault. */
function feesOf(
  price: StatedPrice,
  fraction: Fraction | null,
  block: Block,
): Readonly<Record<string, ToolFee>> | undefined {
  const fees: [string, ToolFee][] = [];
  let complete = true;
  for (const [name, stated] of Object.entries(price.fees ?? {})) {
    const here = block.at(name);
    const isWhole = (["usd", "gateway", "input_tokens"] as const).every((field) => here.reliable(field));
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
  if (!block.reliable("official") || !block.reliable("gateway")) return undefined;
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
  const rest: PriceTier[] = [];
  let complete = first !== undefined;
  let below = 0;
  const tiers: readonly (NonNullable<StatedPrice["tiers"]>[number] | undefined)[] = price.tiers ?? [];
  tiers.forEach((stated, index) => {
    const here = block.at("tiers", index);
    const from = stated?.from_prompt_tokens;
    if (stated === undefined) return;
    if (from !== undefined && from <= below) {
      here.at("from_prompt_tokens").report(`is not above the tier before it, ${below}; write tiers in ascending order`);
    }
    below = from ?? below;
    const tier = tierOf(from, sidesOf(stated), fraction, here);
    if (tier === undefined) complete = false;
    else rest.push(tier);
  });
  return first !== undefined && complete ? [first, ...rest] : undefined;
}

export function sidesOf(stated: {
  readonly official?: StatedSides["official"] | undefined;
  readonly gateway?: StatedSides["gateway"] | undefined;
}): StatedSides {
  return { official: stated.official ?? {}, gateway: stated.gateway ?? {} };
}

/** Returns undefined if it reports a fault, or if a rate was removed because of an earlier fault. */
function tierOf(
  fromPromptTokens: number | undefined,
  sides: StatedSides,
  fraction: Fraction | null,
  block: Block,
): PriceTier | undefined {
  const charged = chargedRates(sides, fraction);
  if (!charged.ok) {
    // One fix applies to all classes without a rate, so only one fault is reported.
    const unknown = charged.faults.find(({ kind, class: name }) => kind === "none" && sidesReliable(block, name));
    for (const fault of charged.faults) {
      if (fault.kind === "inexact" || fault === unknown) block.at("official", fault.class).report(fault.message);
    }
    return undefined;
  }
  const { official } = sides;
  if (official.input === undefined || official.output === undefined || fromPromptTokens === undefined) return undefined;
  return { fromPromptTokens, charged: charged.rates, list: listRates(official) };
}

function sidesReliable(block: Block, name: string): boolean {
  return ["official", "gateway"].every((side) => block.reliable(side) && block.at(side).reliable(name));
}

/** Dates of a price's validity. */
type Dated = Pick<StatedPrice, "from" | "until">;

/**
 * Half-open span of UTC days in which a price is valid, in milliseconds since 1970. `end` is null while the price has
 * no successor.
 */
export interface Validity {
  readonly start: number;
  readonly end: number | null;
  /** ISO day, exclusive; the successor's `from` if the price states no end. */
  readonly until: string | null;
}

/** Returns midnight UTC of an ISO day that the schema has validated, in milliseconds since 1970. */
export function instantOf(day: string): number {
  return Date.parse(`${day}T00:00:00Z`);
}

/**
 * Returns the validity of each price, in order. A price ends when the next one begins. Reports a stated end that
 * overlaps the next price or leaves a gap, in which requests would have no price.
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
    if (price?.from !== undefined && next?.from !== undefined) reportJoint(price, next, block.at(index + 1, "from"));
    return { start: instantOf(price?.from ?? ""), end: until === null ? null : instantOf(until), until };
  });
}

function reportJoint(price: Dated, next: Dated, start: Block): void {
  if (next.from <= price.from) {
    start.report(`begins on ${next.from}, but the price above it on ${price.from}; write them in ascending order`);
    return;
  }
  if (price.until === undefined || price.until === next.from) return;
  const fault = price.until > next.from ? "overlaps the price above it" : "leaves a gap after the price above it";
  start.report(`${fault}, which ends on ${price.until}; leave that \`until\` out or write ${next.from} there`);
}
