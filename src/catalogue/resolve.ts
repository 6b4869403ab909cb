import { invariant } from "../core/assert.ts";
import { parseRate } from "../core/money.ts";
import { canonicalPrice, type PriceTier, type PriceVersion } from "../core/price.ts";
import { unchanged, type Permille } from "../core/tokens.ts";
import type { CatalogueModel, ModelSpan, PinnedPrice } from "../ports/catalogue.ts";
import { contentId } from "../wire/content-id.ts";
import { chargedRates, chargedUsd, freeRates, inexact, listRates, usdOf, type Fraction } from "./rates.ts";
import type { Path } from "./read.ts";
import type { StatedModel, StatedPrice, StatedRates, StatedTraits } from "./schema.ts";
import { validities, type Validity } from "./validity.ts";

/** A model as its file states it, with the file's defaults beside it. */
export interface ModelStatement {
  readonly id: string;
  readonly provider: string;
  readonly model: StatedModel;
  readonly defaults: StatedTraits;
  /** Reports a fault at a path inside the model. */
  report(path: Path, message: string): void;
}

/** What holds for a model whose file does not say; each on the dear side. */
const fallback = { errorFactor: "1.5", tokensPerByte: "1.5", tokensPerSecond: 400 } as const;

/** The model at all times, with gaps in price where none is in force; faults are reported and make it incomplete. */
export function resolveModel(statement: ModelStatement, fraction: Fraction | null): readonly ModelSpan[] {
  const base = traitsOf(statement);
  const prices = statement.model.prices ?? [];
  const spans = validities(prices, (path, message) => statement.report(["prices", ...path], message));
  const resolved: ModelSpan[] = [{ start: Number.NEGATIVE_INFINITY, model: { ...base, price: null } }];
  prices.forEach((price, index) => {
    const validity = spans[index];
    const report = (path: Path, message: string) => statement.report(["prices", index, ...path], message);
    const version = validity && versionOf(statement, price, validity, fraction, report);
    if (validity === undefined || version === undefined) return;
    resolved.push({ start: validity.start, model: { ...base, price: pin(version) } });
    const last = index === prices.length - 1;
    if (last && validity.end !== null) resolved.push({ start: validity.end, model: { ...base, price: null } });
  });
  return resolved;
}

function pin(version: PriceVersion): PinnedPrice {
  const canonical = canonicalPrice(version);
  return { id: contentId(canonical), canonical, version };
}

/** All but the price. What the model states wins over its file's defaults, and those over the fallback. */
function traitsOf(statement: ModelStatement): Omit<CatalogueModel, "price"> {
  const stated: StatedTraits = { ...statement.defaults, ...statement.model };
  const encoding = stated.tokenizer ?? null;
  if (encoding !== null && statement.model.error_factor !== undefined) {
    statement.report(["error_factor"], "is only for models without a tokenizer of their own; leave it out, or write `tokenizer: null`");
  }
  const needed = (field: "context_tokens" | "max_output_tokens") => {
    if (stated[field] === undefined) statement.report([field], `"${field}" is missing; write it here or in \`defaults\``);
    return stated[field] ?? 0;
  };
  return {
    id: statement.id,
    provider: statement.provider,
    group: statement.model.group ?? null,
    contextTokens: needed("context_tokens"),
    outputTokensMax: needed("max_output_tokens"),
    tokensPerByte: permille(stated.tokens_per_byte ?? (encoding === null ? fallback.tokensPerByte : "1")),
    imagePartTokens: stated.image_part_tokens ?? null,
    audioPartTokens: stated.audio_part_tokens ?? null,
    filePartTokens: stated.file_part_tokens ?? null,
    encoding: encoding ?? "o200k_base",
    tokenizerIsPublic: encoding !== null,
    errorFactor: encoding === null ? permille(stated.error_factor ?? fallback.errorFactor) : unchanged,
    reasons: stated.reasoning ?? true,
    tokensPerSecond: stated.tokens_per_second ?? fallback.tokensPerSecond,
    billsServerErrors: stated.bills_server_errors ?? false,
  };
}

/** A factor that the schema has let through; rates have six decimals, factors three. */
function permille(text: string): Permille {
  const millionths = parseRate(text);
  invariant(millionths !== undefined && millionths % 1000n === 0n, "a factor passed the schema");
  return Number(millionths / 1000n) as Permille;
}

type Report = (path: Path, message: string) => void;

/** One price worked out, or undefined after a report of what is wrong with it. */
function versionOf(
  statement: ModelStatement,
  price: StatedPrice,
  validity: Validity,
  fraction: Fraction | null,
  report: Report,
): PriceVersion | undefined {
  const flat = price.per_request;
  if ((flat === undefined) === (price.official === undefined)) {
    report([], "states a price in one way; write either `official` rates or `per_request`");
    return undefined;
  }
  const tiers = flat === undefined ? tiersOf(price, fraction, report) : flatTiers(price, report);
  const perRequest = flat === undefined ? null : flatPrice(flat, fraction, report);
  if (tiers === undefined || perRequest === undefined) return undefined;
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
    perRequest,
    minimum: { tokens: price.minimum?.tokens ?? 0, usd: usdOf(price.minimum?.usd ?? "0") },
  };
}

function flatPrice(
  flat: NonNullable<StatedPrice["per_request"]>,
  fraction: Fraction | null,
  report: Report,
): PriceVersion["perRequest"] | undefined {
  const list = usdOf(flat.official);
  if (flat.gateway !== undefined) return { charged: usdOf(flat.gateway), list };
  const charged = fraction === null ? undefined : chargedUsd(flat.official, fraction);
  if (charged !== undefined) return { charged, list };
  const message = fraction === null ? "no charged price; name a group, or state per_request.gateway" : inexact(flat.official, fraction);
  report(["per_request", "official"], message);
  return undefined;
}

/** A flat price has no rates; what only rates can use is reported. */
function flatTiers(price: StatedPrice, report: Report): PriceVersion["tiers"] {
  for (const field of ["gateway", "tiers", "tier_mode"] as const) {
    if (price[field] !== undefined) report([field], `has no meaning beside per_request; leave "${field}" out`);
  }
  if (price.minimum?.tokens !== undefined) {
    report(["minimum", "tokens"], "has no meaning beside per_request; write `usd` in its place");
  }
  return [{ fromPromptTokens: 0, charged: freeRates, list: freeRates }];
}

function tiersOf(price: StatedPrice, fraction: Fraction | null, report: Report): PriceVersion["tiers"] | undefined {
  const first = tierOf(0, price.official ?? {}, price.gateway ?? {}, fraction, report);
  const rest: PriceTier[] = [];
  let complete = first !== undefined;
  let below = 0;
  (price.tiers ?? []).forEach((stated, index) => {
    const here: Report = (path, message) => report(["tiers", index, ...path], message);
    const from = stated.from_prompt_tokens;
    if (from <= below) here(["from_prompt_tokens"], `is not above the tier before it, ${below}; write tiers in ascending order`);
    below = from;
    const tier = tierOf(from, stated.official, stated.gateway ?? {}, fraction, here);
    if (tier === undefined) complete = false;
    else rest.push(tier);
  });
  return first !== undefined && complete ? [first, ...rest] : undefined;
}

function tierOf(
  fromPromptTokens: number,
  official: StatedRates,
  gateway: StatedRates,
  fraction: Fraction | null,
  report: Report,
): PriceTier | undefined {
  const charged = chargedRates(official, gateway, fraction);
  if (charged.ok) return { fromPromptTokens, charged: charged.rates, list: listRates(official) };
  report(["official", charged.class], charged.message);
  return undefined;
}
