import {
  isTierUnbounded,
  outputBound,
  partTokens,
  plainTerms,
  predictedBound,
  promptBound,
  promptWithCalls,
  tiersToHold,
  toolBoundOf,
  worstCase,
  type ToolBound,
} from "../core/bounds.ts";
import { add, larger, noMoney, type PicoUsd } from "../core/money.ts";
import type { PromptText } from "../core/prompt-text.ts";
import { canonicalPrice, lacksHourRate, timesPieces } from "../core/price.ts";
import type { Refusal } from "../core/refusals.ts";
import { tokensCovered, type Slices } from "../core/slices.ts";
import { scaleTokens } from "../core/usage.ts";
import type { Catalogue, CatalogueModel } from "../ports/catalogue.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { contentId } from "../wire/content-id.ts";
import { mergeFindings } from "../wire/findings.ts";
import type { ModelRequest } from "../wire/model-request.ts";
import { countPromptText } from "./meter.ts";

/** Growth of the hold of a stream. */
export interface Growth extends Slices {
  /** Returns the hold for a number of output tokens, by the price in force at the admission. */
  readonly costAt: (outputTokens: number) => PicoUsd;
}

/** Amount to hold for a request. */
export interface Reservation {
  /** Largest possible cost; null for a model without a price. */
  readonly hold: PicoUsd | null;
  /** Growth of a hold that covers only the first slice, under a hard budget. Null if the whole cost is held from the start. */
  readonly growth: Growth | null;
}

/** Reservation for a prompt that was counted. */
interface Tightened extends Reservation {
  readonly promptTokens: number;
}

interface WorstCase extends Reservation {
  /** Growth for an answer that exceeds a hold of the whole cost; null if that could not be seen. */
  readonly beyond: Growth | null;
  /** Returns `hold` for a number of output tokens. Null if the price does not depend on them. */
  readonly costAt: ((outputTokens: number) => PicoUsd) | null;
  readonly outputTokens: number | null;
}

/** Model that may answer a request. */
export interface Candidate {
  /** Name of the model in the request. */
  readonly name: string;
  /** Model with its price for this request; undefined if the catalogue does not know it. */
  readonly model: CatalogueModel | undefined;
}

/** Largest possible cost of a request, by the price in force when it arrived. */
export interface Quote extends Reservation {
  readonly request: ModelRequest;
  /** Every model that the request names, the requested one first. The hold covers the most expensive of them. */
  readonly models: readonly Candidate[];
  /** Time of the admission and of the charge, in milliseconds since 1970 UTC. */
  readonly at: number;
  /** Requested model; undefined if the catalogue does not know it. */
  readonly model: CatalogueModel | undefined;
  /** Largest possible number of prompt tokens, without tokenising. */
  readonly promptTokens: number;
  /** Fields whose cost has no bound under the price of at least one named model. */
  readonly unboundedFields: readonly string[];
  /** False if the request could cost more than `hold`. */
  readonly bounded: boolean;
  /** Calls of hosted tools that the hold covers and the request does not state; null if nothing is to be stated. */
  readonly toolCalls: number | null;
  /** Growth of the hold for output beyond `outputTokens`; null if such output could not be seen. */
  readonly beyond: Growth | null;
  /** Output tokens of all choices that `hold` covers; null if the price does not depend on them. */
  readonly outputTokens: number | null;
  /** Prices in force at the admission. */
  readonly catalogue: Catalogue;
}

export type Pricing = { readonly ok: true; readonly quote: Quote } | { readonly ok: false; readonly refusal: Refusal };

export interface Pricer {
  /** Returns the worst case by the length of the body, without tokenising it. */
  quote(request: ModelRequest, at: number): Pricing;
  /** Counts the prompt tokens, including a bound for its template and media. Returns undefined if they cannot be counted. */
  countPrompt(quote: Quote, body: Buffer): Promise<number | undefined>;
  /**
   * Returns a maximum for each choice that lets a text request without one fit into `room`, the room of the tightest budget.
   * Returns null if a truncated answer would be worthless, or if a maximum does not bound the cost.
   */
  fit(quote: Quote, room: bigint): number | null;
  /**
   * Returns the largest maximum for each choice that fits into `room`. Counts the prompt if possible. Returns null if a maximum
   * does not bound the cost. `counted`: tokens of the prompt, if they are known.
   */
  affordable(quote: Quote, body: Buffer, room: bigint, counted?: number): Promise<number | null>;
  /**
   * Returns a tighter worst case by a count of the prompt. Undefined if the prompt cannot be counted or no count would fit
   * into `room`.
   */
  tighten(quote: Quote, body: Buffer, room: bigint): Promise<Tightened | undefined>;
}

/** Creates a pricer, which prices requests before they are sent. */
export function createPricer(deps: {
  readonly catalogue: () => Catalogue;
  readonly tokens: TokenCounter;
  readonly unpriced: "record" | "refuse";
  /** Output tokens of a slice for each choice. A stream without a stated maximum holds one slice at first. */
  readonly sliceTokens: number;
  /** Calls of hosted tools that are held and written into requests that state no maximum; 0 refuses such requests. */
  readonly toolCalls: number;
  /** Least maximum to which a request with tools is fitted; null if no request is fitted. */
  readonly fitTokensMin: number | null;
}): Pricer {
  const { sliceTokens, toolCalls, fitTokensMin } = deps;
  const terms: HoldTerms = { sliceTokens, toolCalls };
  /** Returns the models that a request names in addition to the requested one. */
  const others = ({ model, fields }: ModelRequest, at: number, catalogue: Catalogue): Named[] => {
    const stated = fields.models.map((name) => ({ name, model: catalogue.find(name, at), isStated: true }));
    const mentioned = fields.mentions.flatMap((name) => {
      const found = spellingsOf(name)
        .map((spelling) => catalogue.named(spelling, at))
        .find((model) => model !== undefined);
      return found === undefined ? [] : [{ name, model: found, isStated: false }];
    });
    return uniqueNames([...stated, ...mentioned]).filter(({ name }) => name !== model);
  };

  const countPrompt: Pricer["countPrompt"] = async ({ request, model, promptTokens }, body) => {
    if (
      model === undefined ||
      model.unit !== "token" ||
      !model.tokenizerIsPublic ||
      request.size.unboundedFields.length > 0
    )
      return undefined;
    const media = partTokens(request.size, model);
    if (media === null) return undefined;
    const prompt = request.prompt.text(body);
    const counted = await countPromptText(
      deps.tokens,
      prompt.kind === "chat" ? withoutTools(prompt) : prompt,
      model,
      promptTokens,
    );
    if (!counted.ok) return undefined;
    const template = prompt.kind === "chat" ? templateSlackTokens * prompt.chat.messages : 0;
    const beside = scaleTokens(request.prompt.bytesOutside(body), model.tokensPerByte);
    return Math.min(counted.tokens + template + beside + media, promptTokens);
  };

  return {
    quote(given, at) {
      const catalogue = deps.catalogue();
      const model = pricedFor(given, catalogue.find(given.model, at));
      const asked = { name: given.model, model, isStated: true };
      const { models, mentions } = given.fields;
      const isAlone = models.length === 0 && mentions.length === 0;
      const named = isAlone
        ? [asked]
        : [asked, ...others(given, at, catalogue).map((other) => ({ ...other, model: pricedFor(given, other.model) }))];
      const request =
        cachesForHour(given) &&
        named.some(({ model: each }) => each?.price != null && lacksHourRate(each.price.version))
          ? withUnpricedHour(given)
          : given;
      const unpriced = named.filter((one) => one.model?.price == null);
      const refused = deps.unpriced === "refuse" ? unpriced.find(({ isStated }) => isStated) : undefined;
      if (refused !== undefined)
        return { ok: false, refusal: { code: "model_not_priced", model: refused.name, underBudget: false } };
      const promptTokens = Math.max(
        ...named.map((one) =>
          one.model === undefined ? request.size.textBytes : promptBound(request.size, one.model),
        ),
      );
      const { unboundedFields, toolCalls } = boundsOf(request, named, terms);
      const quoted = { request, at, model, models: named, promptTokens, unboundedFields, toolCalls, catalogue };
      if (model?.price == null) return { ok: true, quote: { ...quoted, ...quoteOf(unpricedHold), bounded: false } };
      const bounded = unboundedFields.length === 0 && unpriced.length === 0;
      return { ok: true, quote: { ...quoted, ...quoteOf(reservationForAll(request, named, terms)), bounded } };
    },

    countPrompt,

    fit(quote, room) {
      const { request, models } = quote;
      if (fitTokensMin === null || !isPlainText(request) || request.hasThinkingBudget === true || isPredicted(request))
        return null;
      const most = outputMost(quote);
      const isCutWorthless = request.isCutWorthless === true || models.some(({ model }) => model?.reasons === true);
      const least = isCutWorthless ? Math.max(sliceTokens, fitTokensMin) : sliceTokens;
      const quarter = affordableOf(quote, room / 4n, terms);
      if (quarter === null) return null;
      const tokens = Math.max(least, quarter);
      return tokens < most ? tokens : null;
    },

    async affordable(quote, body, room, counted) {
      const byBytes = affordableOf(quote, room, terms);
      // A count applies to one tokenizer only, so several models use the bound by bytes.
      if (byBytes === null || quote.models.length > 1) return byBytes;
      if (counted === undefined && affordableOf(quote, room, terms, 0) === byBytes) return byBytes;
      const prompt = counted ?? (await countPrompt(quote, body));
      return prompt === undefined ? byBytes : affordableOf(quote, room, terms, prompt);
    },

    async tighten(quote, body, room) {
      const { request, model, models } = quote;
      // A count applies to one tokenizer only.
      if (model === undefined || models.length > 1) return undefined;
      const withoutPrompt = firstHold(reservationFor(request, model, 0, terms));
      if (withoutPrompt === null || withoutPrompt > room) return undefined;
      const prompt = await countPrompt(quote, body);
      if (prompt === undefined) return undefined;
      const { hold, growth } = reservationFor(request, model, prompt, terms);
      return { hold, growth, promptTokens: prompt };
    },
  };
}

/** Settings that a hold depends on, in addition to the request and its model. */
interface HoldTerms {
  readonly sliceTokens: number;
  readonly toolCalls: number;
}

function quoteOf({
  hold,
  growth,
  beyond,
  outputTokens,
}: WorstCase): Pick<Quote, "hold" | "growth" | "beyond" | "outputTokens"> {
  return { hold, growth, beyond, outputTokens };
}

const unpricedHold: WorstCase = { hold: null, growth: null, beyond: null, costAt: null, outputTokens: null };

/** Bytes that a maximum adds to a request: `"max_completion_tokens":100000000,`. */
const memberBytes = 40;

/**
 * Returns the largest affordable maximum. `counted`: prompt tokens for the only model; by default, the bound by bytes is
 * used.
 */
function affordableOf(quote: Quote, room: bigint, terms: HoldTerms, counted?: number): number | null {
  const { request, model, models, bounded } = quote;
  if (
    !bounded ||
    request.isUnseen === true ||
    request.size.outputLimit === 0 ||
    request.size.unboundedFields.length > 0
  )
    return null;
  const { size } = request;
  const written = { ...request, size: { ...size, textBytes: size.textBytes + memberBytes } };
  const { costAt } =
    counted === undefined || model === undefined
      ? reservationForAll(written, models, terms)
      : reservationFor(written, model, counted + scaleTokens(memberBytes, model.tokensPerByte), terms);
  if (costAt === null) return null;
  return Math.floor(tokensCovered(room as PicoUsd, costAt, outputMost(quote) * size.choices) / size.choices);
}

/** Returns the largest number of output tokens for one choice that every model of the request can write. */
function outputMost({ models }: Quote): number {
  return Math.min(...models.flatMap(({ model }) => model?.outputTokensMax ?? []));
}

/** Returns the request's unbounded fields, and the number of hosted tool calls to write into it. */
function boundsOf(
  request: ModelRequest,
  named: readonly Named[],
  { toolCalls }: HoldTerms,
): Pick<Quote, "unboundedFields" | "toolCalls"> {
  if (request.terms === undefined) return { unboundedFields: request.unboundedFields, toolCalls: null };
  const each = named.flatMap(({ model }) => (model?.price == null ? [] : [termsUnder(request, model, toolCalls)]));
  const fields = each.flatMap(({ unbounded }) => unbounded);
  const unstated = each.flatMap(({ tools }) => (tools === null || tools.isStated ? [] : [tools.calls]));
  return { unboundedFields: [...new Set([...request.unboundedFields, ...fields])], toolCalls: unstated[0] ?? null };
}

/** Returns the terms that a model's price does not bound, and the bound of its hosted tools. `tools` is null for none. */
function termsUnder(
  { terms = plainTerms }: ModelRequest,
  { price, obeysMaxToolCalls }: CatalogueModel,
  toolCalls: number,
) {
  if (price === null) return { unbounded: [], tools: null };
  const tier = isTierUnbounded(price.version, terms.serviceTier) ? ["service_tier"] : [];
  const tools: ToolBound | readonly string[] | null =
    terms.hostedTools && toolBoundOf(terms.hostedTools, { price: price.version, obeysMaxToolCalls }, toolCalls);
  if (tools === null || "calls" in tools) return { unbounded: tier, tools };
  return { unbounded: [...tier, ...tools], tools: null };
}

interface Named extends Candidate {
  /** True if a field for models names the model, not only an unknown field. */
  readonly isStated: boolean;
}

function cachesForHour({ classes }: ModelRequest): boolean {
  return classes.prompt.includes("cache_write_1h");
}

function withUnpricedHour(request: ModelRequest): ModelRequest {
  return {
    ...request,
    unboundedFields: [...request.unboundedFields, "cache_control.ttl"],
    fields: mergeFindings(request.fields, {
      models: [],
      mentions: [],
      unknown: [],
      why: "the price file states no cache_write_1h for a cache that is kept for an hour",
      doubts: ["unknown_field"],
    }),
  };
}

/** Returns the spellings of a model's name without upper case, provider and variant, as in "openai/gpt-4o:nitro". */
function spellingsOf(name: string): string[] {
  const lower = name.toLowerCase();
  const bare = lower.slice(lower.lastIndexOf("/") + 1);
  return [name, lower, bare, bare.replace(/:.*$/s, "")];
}

/** Returns the first model with each name. */
function uniqueNames(named: readonly Named[]): Named[] {
  const byName = new Map<string, Named>();
  for (const one of named) if (!byName.has(one.name)) byName.set(one.name, one);
  return [...byName.values()];
}

/**
 * Returns the model with its price for this request. Removes a price for images only; multiplies a price per request by the
 * pieces.
 */
export function pricedFor(
  { pieces, isUnpriced }: ModelRequest,
  model: CatalogueModel | undefined,
): CatalogueModel | undefined {
  if (model?.price == null) return model;
  if (isUnpriced === true || (model.imagesOnly && pieces === undefined)) return { ...model, price: null };
  if (pieces === undefined || pieces === 1 || model.price.version.perRequest === null) return model;
  const version = timesPieces(model.price.version, pieces);
  const canonical = canonicalPrice(version);
  return { ...model, price: { id: contentId(canonical), canonical, version } };
}

/** Template tokens for each message that the published count does not include on every model. */
const templateSlackTokens = 5;

/** Removes tools and schemas, because their bytes are a bound. One empty tool remains, to count the text around tools. */
function withoutTools(prompt: Extract<PromptText, { kind: "chat" }>): PromptText {
  const { tools } = prompt.chat;
  return { ...prompt, chat: { ...prompt.chat, tools: tools.length > 0 ? [noTool] : [], schema: null } };
}

const noTool = { type: "function", function: { name: "" } };

/** Returns the amount for which a hard budget must have room at the admission. */
export function firstHold({ hold, growth }: Reservation): PicoUsd | null {
  return growth === null ? hold : growth.costAt(growth.sliceTokens);
}

/** Returns the worst case of the most expensive model. Several models have no growth, because their tokenizers differ. */
function reservationForAll(request: ModelRequest, named: readonly Candidate[], terms: HoldTerms): WorstCase {
  const each = named.flatMap(({ model }) =>
    model?.price == null ? [] : reservationFor(request, model, promptBound(request.size, model), terms),
  );
  const [first] = each;
  if (first !== undefined && named.length === 1) return first;
  const costs = each.flatMap(({ costAt }) => costAt ?? []);
  const top = each.reduce((most, one) => ((one.hold ?? noMoney) > (most.hold ?? noMoney) ? one : most));
  return {
    hold: top.hold,
    growth: null,
    beyond: null,
    costAt: costs.length < each.length ? null : (tokens) => costs.map((costAt) => costAt(tokens)).reduce(larger),
    outputTokens: top.outputTokens,
  };
}

function reservationFor(
  request: ModelRequest,
  model: CatalogueModel,
  promptTokens: number,
  { sliceTokens, toolCalls }: HoldTerms,
): WorstCase {
  if (model.price === null) return unpricedHold;
  const { version } = model.price;
  const { size, classes } = request;
  const isHidden = size.unboundedFields.length > 0 && size.outputLimit !== 0;
  const outputTokensMax = outputBound(isHidden ? { ...size, outputLimit: null } : size, model);
  const { tools } = termsUnder(request, model, toolCalls);
  const versions = tiersToHold(version, request.terms?.serviceTier ?? null);
  const prompt = tools === null ? promptTokens : promptWithCalls(promptTokens, tools);
  const fees = tools === null ? noMoney : ((tools.feePerCall * BigInt(tools.calls)) as PicoUsd);
  const predicted = predictedBound(size, model);
  const costAt = (outputTokens: number) => {
    const bound = { promptTokens: prompt, outputTokens: outputTokens + predicted };
    return add(
      versions.reduce((most, each) => larger(most, worstCase(each, bound, classes)), noMoney),
      fees,
    );
  };
  const slices = { sliceTokens: sliceTokens * size.choices, outputTokensMax };
  const hold = costAt(outputTokensMax);
  if (version.perRequest !== null) return { ...unpricedHold, hold };
  // Not all output between the calls of hosted tools is seen.
  const isSeen = tools === null && request.stream && isPlainText(request);
  const grows = isSeen && isLive(request, model) && slices.sliceTokens < outputTokensMax;
  const growth = grows ? { ...slices, costAt } : null;
  const mostOfAll = outputBound({ ...size, outputLimit: null }, model);
  const beyond = isSeen ? { ...slices, outputTokensMax: mostOfAll, costAt } : null;
  return { hold, growth, beyond, costAt, outputTokens: outputTokensMax };
}

/** Returns true if output without a stated maximum is seen while it is written: the model hides none and is not marked. */
function isLive(request: ModelRequest, model: CatalogueModel): boolean {
  return (
    model.streams === "live" &&
    !model.reasons &&
    request.isHeldWhole !== true &&
    request.size.outputLimit === null &&
    !isPredicted(request)
  );
}

/** Returns true if the request predicts its answer. Rejected predictions are billed but not seen. */
function isPredicted({ size }: ModelRequest): boolean {
  return size.predictedBytes !== undefined;
}

/** Returns true if the answer is only text, which a maximum would bound. */
function isPlainText({ classes, isUnseen, size }: ModelRequest): boolean {
  const isText = classes.completion.every((name) => name === "output" || name === "reasoning");
  return isText && isUnseen !== true && size.unboundedFields.length === 0;
}
