import type { BodyBytes } from "../ports/exchange.ts";
import {
  outputBound,
  partTokens,
  plainTerms,
  predictedBound,
  promptBound,
  promptBoundByWords,
  promptWithCalls,
  toolBoundOf,
  unboundedTerms,
  variantsToHold,
  worstCase,
  type ToolBound,
} from "../core/bounds.ts";
import { fold, withoutVariant } from "../core/model-names.ts";
import { add, larger, noMoney, type PicoUsd } from "../core/money.ts";
import { textsOfChat, type PromptText } from "../core/prompt-text.ts";
import { canonicalPrice, ceilingPrice, lacksHourRate, multiplyByPieces } from "../core/price.ts";
import type { Refusal } from "../core/refusals.ts";
import { tokensCovered, type Slices } from "../core/slices.ts";
import { scaleTokens } from "../core/usage.ts";
import { wordsIn } from "../core/words.ts";
import type { Catalogue, CatalogueModel } from "../ports/catalogue.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { contentId } from "../wire/content-id.ts";
import { mentionsMax, mergeFindings } from "../wire/findings.ts";
import { modelFault, tooManyNames, type ModelRequest } from "../wire/model-request.ts";
import type { LongPrompts } from "./long-prompts.ts";
import { countPromptText } from "./meter.ts";

/** Rule by which the hold of a stream grows. */
export interface Growth extends Slices {
  /** Returns the amount to hold for a number of output tokens, by the price in force at the admission. */
  readonly costAt: (outputTokens: number) => PicoUsd;
}

/** Amount to hold for a request. */
export interface HoldPlan {
  /** Largest possible cost; null for a model without a price. */
  readonly hold: PicoUsd | null;
  /**
   * Rule by which a hold of only the first slice grows, under a hard budget. Null if the whole cost is held from the
   * start.
   */
  readonly growth: Growth | null;
}

/** Amount to hold after the prompt was counted. */
export interface CountedPlan extends HoldPlan {
  readonly promptTokens: number;
}

interface WorstCase extends HoldPlan {
  /** Rule by which the hold grows for output beyond `outputTokens`; null if Farebox could not see such output. */
  readonly beyond: Growth | null;
  /** Returns the largest cost for a number of output tokens. Null if the price does not depend on them. */
  readonly costAt: ((outputTokens: number) => PicoUsd) | null;
  /** Output tokens of all choices that `hold` covers; null if the price does not depend on them. */
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
export interface Quote extends WorstCase {
  readonly request: ModelRequest;
  /** Every model that the request names, the requested one first. The hold covers the most expensive of them. */
  readonly models: readonly Candidate[];
  /**
   * Catalogue ids of `models`, or the names of models that the catalogue does not know. If it is unknown which model
   * answered, the charge counts for the first one.
   */
  readonly modelIds: readonly string[];
  /** True if a model that the catalogue does not know may answer. It may be any model. */
  readonly anyModel: boolean;
  /** Time of the admission and of the charge, in milliseconds since 1970 UTC. */
  readonly at: number;
  /** Requested model; undefined if the catalogue does not know it. */
  readonly model: CatalogueModel | undefined;
  /** Largest possible number of prompt tokens, by the length of the prompt. */
  readonly promptTokens: number;
  /** Fields whose cost has no bound under the price of at least one named model. */
  readonly unboundedFields: readonly string[];
  /** False if the request could cost more than `hold`. */
  readonly bounded: boolean;
  /**
   * Maximum of hosted tool calls that the hold covers and that Farebox writes into the request under a hard budget;
   * null to write none.
   */
  readonly toolCalls: number | null;
  /** Prices in force at the admission. */
  readonly catalogue: Catalogue;
}

export type Pricing =
  | { readonly ok: true; readonly quote: Quote }
  /** `model`: the requested model, if it was priced and the catalogue knows its name. */
  | { readonly ok: false; readonly refusal: Refusal; readonly model?: string | undefined };

interface PricerDeps {
  readonly catalogue: () => Catalogue;
  readonly tokens: TokenCounter;
  /** Absent if no marks are kept, as for an estimate. */
  readonly longPrompts?: Pick<LongPrompts, "isMarked">;
  readonly unpriced: "record" | "refuse";
  /** Output tokens of a slice for each choice. A stream without a stated maximum holds one slice at first. */
  readonly sliceTokens: number;
  /**
   * Largest number of hosted tool calls for requests that state no maximum of calls. The hold covers that many calls.
   * Under a hard budget, Farebox writes the maximum into the request. With 0, such a request has no bound, so a hard
   * budget refuses it.
   */
  readonly toolCalls: number;
  /**
   * Smallest maximum written into a request whose truncated answer would be worthless; null if Farebox writes no
   * maximum at all.
   */
  readonly fitTokensMin: number | null;
}

/** Prices requests before they are sent. */
export class Pricer {
  readonly #deps: PricerDeps;

  constructor(deps: PricerDeps) {
    this.#deps = deps;
  }

  /** Returns the quote of a request that arrived at `at`. Bounds the prompt by its length, without tokenizing it. */
  quote(given: ModelRequest, at: number): Pricing {
    const catalogue = this.#deps.catalogue();
    const named = modelsNamed(given, at, catalogue);
    const [{ model }] = named;
    const request = cachesForUnpricedHour(given, named) ? withUnpricedHour(given) : given;
    const unpriced = named.filter((one) => one.model?.price == null);
    const refused = this.#deps.unpriced === "refuse" ? unpriced.find(({ isStated }) => isStated) : undefined;
    if (refused !== undefined)
      return {
        ok: false,
        refusal: { code: "model_not_priced", model: refused.name, hardBudget: false },
        model: knownName({ model, request: given }),
      };
    const { unboundedFields, toolCalls } = boundsOf(request, named, this.#deps);
    const modelIds = namesOneModel(given) ? [model?.id ?? request.model] : idsByCost(request, named, this.#deps);
    if (modelIds.length > mentionsMax.models) return tooManyNames;
    const quoted = {
      request,
      at,
      model,
      models: named,
      modelIds,
      // A request to an unknown path may name its model where Farebox does not read it.
      anyModel: request.isUnpriced === true || named.some(isUnknown),
      promptTokens: promptBoundOfAll(request, named),
      unboundedFields,
      toolCalls,
      catalogue,
    };
    if (model?.price == null) return { ok: true, quote: { ...quoted, ...unpricedHold, bounded: false } };
    const bounded = unboundedFields.length === 0 && unpriced.length === 0;
    return { ok: true, quote: { ...quoted, ...worstCaseForAll(request, named, this.#deps), bounded } };
  }

  /**
   * Counts the tokens of the prompt and adds a bound for its template and media. If the model's tokenizer is not
   * published, counts only the ASCII words (`promptBoundByWords`). Returns undefined if the prompt cannot be counted.
   * `key`: id of the key, whose prompts may be marked as longer than such a bound.
   */
  async countPrompt({ request, model, promptTokens }: Quote, body: BodyBytes, key = ""): Promise<number | undefined> {
    if (model === undefined || model.unit !== "token" || request.size.unboundedFields.length > 0) return undefined;
    const media = partTokens(request.size, model);
    if (media === null) return undefined;
    const text = await (model.tokenizerIsPublic
      ? this.#countText(request, model, promptTokens, body)
      : this.#boundText(request, model, body, key));
    return text === undefined ? undefined : Math.min(text + media, promptTokens);
  }

  async #countText(
    request: ModelRequest,
    model: CatalogueModel,
    promptTokens: number,
    body: BodyBytes,
  ): Promise<number | undefined> {
    const prompt = request.prompt.text(body.whole);
    const text = prompt.kind === "chat" ? withoutTools(prompt) : prompt;
    const counted = await countPromptText(this.#deps.tokens, text, model, promptTokens);
    if (!counted.ok) return undefined;
    const slack = prompt.kind === "chat" ? templateSlackTokens * prompt.chat.messages : 0;
    const template = slack + (request.size.instructionTokens ?? 0);
    return counted.tokens + template + scaleTokens(request.prompt.bytesOutside(body.whole), model.tokensPerByte);
  }

  async #boundText(
    request: ModelRequest,
    model: CatalogueModel,
    body: BodyBytes,
    key: string,
  ): Promise<number | undefined> {
    if ((await this.#deps.longPrompts?.isMarked(key, model.id)) === true) return undefined;
    const prompt = request.prompt.text(body.whole);
    const { text, breaks, bytes } = wordsIn(prompt.kind === "chat" ? textsOfChat(prompt.chat) : prompt.texts);
    const counted = await this.#deps.tokens.countText(text, model.encoding);
    if (!counted.ok) return undefined;
    return promptBoundByWords(request.size, model, { words: Math.max(counted.tokens - breaks, 0), wordBytes: bytes });
  }

  /**
   * Returns the output maximum for each choice to write into a text request that states none, or a larger one that may
   * be lowered. The maximum is as much as a quarter of `room` can pay for, but at least one slice. `room`: remaining
   * amount of the tightest budget. Returns null if Farebox may not write a maximum, or if the maximum would not limit the
   * output.
   */
  fit(quote: Quote, room: bigint): number | null {
    const { sliceTokens, fitTokensMin } = this.#deps;
    const { request, models } = quote;
    if (fitTokensMin === null || !isPlainText(request) || request.hasThinkingBudget === true || isPredicted(request))
      return null;
    const most = Math.min(outputMaxOfAll(quote), request.size.outputMax ?? Infinity);
    const isCutWorthless = request.isCutWorthless === true || models.some(({ model }) => model?.reasons === true);
    const useful = isCutWorthless ? Math.max(sliceTokens, fitTokensMin) : sliceTokens;
    const least = Math.max(useful, (request.thinkingTokens ?? 0) + 1);
    const quarter = affordableOf(quote, room / 4n, this.#deps);
    if (quarter === null) return null;
    const tokens = Math.max(least, quarter);
    return tokens < most ? tokens : null;
  }

  /**
   * Returns the largest output maximum for each choice that `room` can pay for. Counts the prompt if that helps.
   * Returns null if a maximum does not bound the cost. `counted`: tokens of the prompt, if they were counted before.
   */
  async affordable(quote: Quote, body: BodyBytes, room: bigint, counted?: number, key = ""): Promise<number | null> {
    const byBytes = affordableOf(quote, room, this.#deps);
    // A count applies to one tokenizer only, so several models use the bound by bytes.
    if (byBytes === null || quote.models.length > 1) return byBytes;
    if (counted === undefined && affordableOf(quote, room, this.#deps, 0) === byBytes) return byBytes;
    const prompt = counted ?? (await this.countPrompt(quote, body, key));
    return prompt === undefined ? byBytes : affordableOf(quote, room, this.#deps, prompt);
  }

  /**
   * Counts the prompt and returns the smaller amount to hold. Returns undefined if the prompt cannot be counted, or if
   * the output alone costs more than `room`.
   */
  async tighten(quote: Quote, body: BodyBytes, room: bigint, key = ""): Promise<CountedPlan | undefined> {
    const { request, model, models } = quote;
    // A count applies to one tokenizer only.
    if (model === undefined || models.length > 1) return undefined;
    const withoutPrompt = firstHold(worstCaseFor(request, model, 0, this.#deps));
    if (withoutPrompt === null || withoutPrompt > room) return undefined;
    const prompt = await this.countPrompt(quote, body, key);
    if (prompt === undefined) return undefined;
    const { hold, growth } = worstCaseFor(request, model, prompt, this.#deps);
    return { hold, growth, promptTokens: prompt };
  }
}

/** Returns true if a request names no model in addition to the requested one. */
function namesOneModel({ fields: { models, mentions } }: ModelRequest): boolean {
  return models.length === 0 && mentions.length === 0;
}

/** Returns the models that a request names, with their prices for it. The requested model is first. */
function modelsNamed(request: ModelRequest, at: number, catalogue: Catalogue): readonly [Named, ...Named[]] {
  const { model: name, fields } = request;
  const asked = { name, model: pricedFor(request, catalogue.find(name, at)), isStated: true };
  if (namesOneModel(request)) return [asked];
  const stated = fields.models.map((other) => ({ name: other, model: catalogue.find(other, at), isStated: true }));
  const mentioned = fields.mentions.flatMap((mention) => {
    const base = withoutVariant(mention);
    const found = catalogue.named(mention, at) ?? (base === undefined ? undefined : catalogue.named(base, at));
    return found === undefined ? [] : [{ name: mention, model: found, isStated: false }];
  });
  const others = uniqueNames([...stated, ...mentioned]).filter((other) => other.name !== name);
  return [asked, ...others.map((other) => ({ ...other, model: pricedFor(request, other.model) }))];
}

/** Returns the largest number of prompt tokens that any of the models may count. */
function promptBoundOfAll({ size }: ModelRequest, named: readonly Named[]): number {
  return Math.max(...named.map(({ model }) => (model === undefined ? size.textBytes : promptBound(size, model))));
}

/** Returns true if the catalogue does not know the name of a model. */
function isUnknown({ model }: Candidate): boolean {
  return model === undefined || model.id === ceilingPrice;
}

/** Settings that a hold depends on, in addition to the request and its model. */
interface HoldSettings {
  readonly sliceTokens: number;
  readonly toolCalls: number;
}

const unpricedHold: WorstCase = { hold: null, growth: null, beyond: null, costAt: null, outputTokens: null };

/** Number of bytes that a maximum adds to a request: `"max_completion_tokens":100000000,`. */
const memberBytes = 40;

/**
 * Returns the largest output maximum for each choice that `room` can pay for. `counted`: counted prompt tokens of a
 * request with one model. Without it, the prompt is bounded by its bytes.
 */
function affordableOf(quote: Quote, room: bigint, settings: HoldSettings, counted?: number): number | null {
  const { request, model, models, bounded } = quote;
  if (!bounded || request.isUnseen === true || request.size.outputMax === 0 || request.size.unboundedFields.length > 0)
    return null;
  const { size } = request;
  const injected = { ...request, size: { ...size, textBytes: size.textBytes + memberBytes } };
  const { costAt } =
    counted === undefined || model === undefined
      ? worstCaseForAll(injected, models, settings)
      : worstCaseFor(injected, model, counted + scaleTokens(memberBytes, model.tokensPerByte), settings);
  if (costAt === null) return null;
  return Math.floor(tokensCovered(room as PicoUsd, costAt, outputMaxOfAll(quote) * size.choices) / size.choices);
}

/** Returns the largest number of output tokens for one choice that every model of the request can write. */
export function outputMaxOfAll({ models }: Quote): number {
  return Math.min(...models.flatMap(({ model }) => model?.outputTokensMax ?? []));
}

/**
 * Returns the request's unbounded fields, and the maximum of hosted tool calls to write into it; null to write none.
 */
function boundsOf(
  request: ModelRequest,
  named: readonly Named[],
  { toolCalls }: HoldSettings,
): Pick<Quote, "unboundedFields" | "toolCalls"> {
  if (request.terms === undefined) return { unboundedFields: request.unboundedFields, toolCalls: null };
  const each = named.flatMap(({ model }) => (model?.price == null ? [] : [termsUnder(request, model, toolCalls)]));
  const fields = each.flatMap(({ unbounded }) => unbounded);
  const unstated = each.flatMap(({ tools }) => (tools === null || tools.isStated ? [] : [tools.calls]));
  return { unboundedFields: [...new Set([...request.unboundedFields, ...fields])], toolCalls: unstated[0] ?? null };
}

/**
 * Returns the fields that a model's price does not bound, and the bound of the hosted tools. `tools` is null if there
 * is no such bound.
 */
function termsUnder(
  { terms = plainTerms }: ModelRequest,
  { price, obeysMaxToolCalls }: CatalogueModel,
  toolCalls: number,
) {
  if (price === null) return { unbounded: [], tools: null };
  const variant = unboundedTerms(price.version, terms);
  const tools: ToolBound | readonly string[] | null =
    terms.hostedTools && toolBoundOf(terms.hostedTools, { price: price.version, obeysMaxToolCalls }, toolCalls);
  if (tools === null || "calls" in tools) return { unbounded: variant, tools };
  return { unbounded: [...variant, ...tools], tools: null };
}

interface Named extends Candidate {
  /** True if a field for models names the model; false if only an unknown field does. */
  readonly isStated: boolean;
}

function cachesForUnpricedHour({ classes }: ModelRequest, named: readonly Named[]): boolean {
  return (
    classes.prompt.includes("cache_write_1h") &&
    named.some(({ model }) => model?.price != null && lacksHourRate(model.price.version))
  );
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
      user: null,
    }),
  };
}

/** Returns the first model with each name. */
function uniqueNames(named: readonly Named[]): Named[] {
  const byName = new Map<string, Named>();
  for (const one of named) if (!byName.has(one.name)) byName.set(one.name, one);
  return [...byName.values()];
}

/**
 * Returns the model with its price for this request. Removes the price if the request is unpriced, or if the price
 * applies only to images and the request asks for none. Multiplies a price per request by the number of pieces.
 */
export function pricedFor(
  { pieces, isUnpriced }: ModelRequest,
  model: CatalogueModel | undefined,
): CatalogueModel | undefined {
  if (model?.price == null) return model;
  if (isUnpriced === true || (model.imagesOnly && pieces === undefined)) return { ...model, price: null };
  if (pieces === undefined || pieces === 1 || model.price.version.perRequest === null) return model;
  const version = multiplyByPieces(model.price.version, pieces);
  const canonical = canonicalPrice(version);
  return { ...model, price: { id: contentId(canonical), canonical, version } };
}

/**
 * Returns the name of the requested model; undefined if the catalogue does not know it. Returns the model's id for a
 * name with a provider, because clients may invent providers.
 */
export function knownName({
  model,
  request,
}: {
  readonly model: Pick<CatalogueModel, "id"> | undefined;
  readonly request: { readonly model: string };
}): string | undefined {
  if (model === undefined || model.id === ceilingPrice) return undefined;
  const { model: name } = request;
  return name === model.id || !fold(name).includes("/") ? name : model.id;
}

/**
 * Tokens added for each message of a counted prompt, because the published counting method omits parts of the template
 * of some models.
 */
const templateSlackTokens = 5;

/**
 * Removes tools and schemas from a prompt, because their bytes bound their tokens. Keeps one empty tool, to count the
 * template's text around tools.
 */
function withoutTools(prompt: Extract<PromptText, { kind: "chat" }>): PromptText {
  const { tools } = prompt.chat;
  return { ...prompt, chat: { ...prompt.chat, tools: tools.length > 0 ? [noTool] : [], schema: null } };
}

const noTool = { type: "function", function: { name: "" } };

/** Returns the amount that a hard budget must have left at the admission; null for a model without a price. */
export function firstHold({ hold, growth }: HoldPlan): PicoUsd | null {
  return growth === null ? hold : growth.costAt(growth.sliceTokens);
}

/**
 * Returns the worst case of the most expensive model. A hold for several models does not grow, because their tokenizers
 * differ.
 */
function worstCaseForAll(request: ModelRequest, named: readonly Candidate[], settings: HoldSettings): WorstCase {
  const each = named.flatMap(({ model }) =>
    model?.price == null ? [] : worstCaseFor(request, model, promptBound(request.size, model), settings),
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

/**
 * Returns the ids of models: first those that the request asks for, then those that it only mentions. Each group begins
 * with the most expensive model. A model without a price counts as the most expensive. Omits texts that cannot be names
 * of models.
 */
function idsByCost(request: ModelRequest, named: readonly Named[], settings: HoldSettings): readonly string[] {
  const costs = named.flatMap(({ name, model, isStated }) => {
    if (model === undefined) return modelFault(name) === undefined ? [{ id: name, hold: null, isStated }] : [];
    const { hold } = worstCaseFor(request, model, promptBound(request.size, model), settings);
    return [{ id: model.id, hold, isStated }];
  });
  const sorted = costs.sort((one, other) => {
    if (one.isStated !== other.isStated) return Number(other.isStated) - Number(one.isStated);
    if (one.hold === null || other.hold === null) return Number(one.hold !== null) - Number(other.hold !== null);
    return one.hold > other.hold ? -1 : Number(one.hold < other.hold);
  });
  return [...new Set(sorted.map(({ id }) => id))];
}

function worstCaseFor(
  request: ModelRequest,
  model: CatalogueModel,
  promptTokens: number,
  { sliceTokens, toolCalls }: HoldSettings,
): WorstCase {
  if (model.price === null) return unpricedHold;
  const { version } = model.price;
  const { size, classes } = request;
  // A stated maximum of 0 is no endpoint without output: an unknown field may state another.
  const writesText = size.outputMax !== 0 || request.maximumField !== undefined;
  const isHidden = size.unboundedFields.length > 0 && writesText;
  const outputTokensMax = outputBound(isHidden ? { ...size, outputMax: null } : size, model);
  const { tools } = termsUnder(request, model, toolCalls);
  const versions = variantsToHold(version, request.terms ?? plainTerms);
  const prompt = tools === null ? promptTokens : promptWithCalls(promptTokens, tools, model.contextTokens);
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
  // Farebox does not see all output that a model writes between calls of hosted tools.
  const hasTools = (request.terms ?? plainTerms).hostedTools !== null || request.unboundedFields.length > 0;
  const isSeen = !hasTools && request.stream && isPlainText(request);
  const grows = isSeen && isLive(request, model) && slices.sliceTokens < outputTokensMax;
  const growth = grows ? { ...slices, costAt } : null;
  const mostOfAll = outputBound({ ...size, outputMax: null }, model);
  const beyond = isSeen ? { ...slices, outputTokensMax: mostOfAll, costAt } : null;
  return { hold, growth, beyond, costAt, outputTokens: outputTokensMax };
}

/**
 * Returns true if the request states no maximum and Farebox sees all output while the model writes it. That excludes
 * models that hide reasoning, and models whose streams may arrive all at once.
 */
function isLive(request: ModelRequest, model: CatalogueModel): boolean {
  return (
    model.streams === "live" &&
    !model.reasons &&
    request.isHeldWhole !== true &&
    request.size.outputMax === null &&
    !isPredicted(request)
  );
}

/**
 * Returns true if the request predicts its answer. The gateway bills rejected predictions, but the answer does not show
 * them.
 */
function isPredicted({ size }: ModelRequest): boolean {
  return size.predictedBytes !== undefined;
}

/** Returns true if the answer contains only text, so that an output maximum bounds its cost. */
function isPlainText({ classes, isUnseen, size }: ModelRequest): boolean {
  const isText = classes.completion.every((name) => name === "output" || name === "reasoning");
  return isText && isUnseen !== true && size.unboundedFields.length === 0;
}
