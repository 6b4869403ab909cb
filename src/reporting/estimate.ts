import { outputBound, predictedBound, worstCase, type HoldBasis } from "../core/bounds.ts";
import { costOf, itemize, type CostItem } from "../core/cost.ts";
import { messageOf } from "../core/fault.ts";
import { formatRate, formatUsd, formatUsdOrNull, type PicoUsd } from "../core/money.ts";
import { inServiceTier, tierFor, type PriceVersion } from "../core/price.ts";
import { anyServiceTier, variantName } from "../core/rate-variants.ts";
import type { Catalogue, CatalogueModel } from "../ports/catalogue.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import type { ModelRequest } from "../wire/model-request.ts";
import { isUtf8 } from "node:buffer";
import { chatTextOf, readChatRequest, withModel } from "../wire/endpoints/chat-completions.ts";
import { isObject } from "../wire/json.ts";
import { countImages, type ChatText, type ImageCount } from "../core/prompt-text.ts";
import { noTokens, promptTotal, scaleTokens, type TokenClass, type TokenCounts } from "../core/usage.ts";
import type { EstimateJson } from "./shapes/commands.ts";

export interface EstimateParams {
  /** Id or alias of a model. */
  readonly model: string;
  readonly given: { readonly request: ModelRequest; readonly body: Buffer } | null;
  /** Token counts that the user states; null to take them from the request or the model's bounds. */
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  /** Parts of `inputTokens` that are read from the cache and written to it; 0 if `inputTokens` is null. */
  readonly cachedTokens: number;
  readonly cacheWriteTokens: number;
}

interface EstimatedHolds {
  readonly hold: PicoUsd | null;
  readonly countedHold: PicoUsd | null;
  /** Prompt tokens that each of the two holds covers; null if it covers none. */
  readonly heldPrompt: number | null;
  readonly countedPrompt: number | null;
  /** Fields whose cost has no bound under the price of at least one named model. */
  readonly unboundedFields: readonly string[];
  /** Basis of the output tokens in the hold; null if the request would be refused. */
  readonly basis: HoldBasis | null;
}

export interface EstimateTools {
  readonly catalogue: Catalogue;
  readonly tokens: TokenCounter;
  /** Returns the holds that the proxy would place: the first hold, and the tighter one after the prompt is counted. */
  readonly holdsFor: (request: ModelRequest, body: Buffer) => Promise<EstimatedHolds>;
  /** Instant whose prices apply, in milliseconds since 1970 UTC. */
  readonly at: number;
}

type Estimated =
  | { readonly ok: true; readonly estimate: EstimateJson }
  | { readonly ok: false; readonly problem: "unknown_model" | "no_price" };

/** Estimates the cost of a request, item by item, before it is sent. */
export async function estimate(tools: EstimateTools, params: EstimateParams): Promise<Estimated> {
  const model = tools.catalogue.find(params.model, tools.at);
  if (model === undefined) return { ok: false, problem: "unknown_model" };
  if (model.price === null) return { ok: false, problem: "no_price" };
  const request = params.given?.request ?? null;
  const version = askedRates(model.price.version, request);
  const prompt = await promptOf(tools, model, params);
  const output: EstimatePart =
    params.outputTokens === null
      ? outputPart(model, version, tokensOf(prompt), request)
      : { class: "output", tokens: params.outputTokens, known: "exact", why: "as given" };
  const parts = [...prompt, output];
  const tokens = tokensOf(parts);
  const cost = costOf(version, tokens);
  const items = itemize(version, tokens).map((item) => itemJson(item, parts));
  const { unbounded, ...holds } = await holdsOf(tools, model, version, params);
  const isFullyKnown =
    unbounded.length === 0 &&
    (request?.fields.doubts ?? []).length === 0 &&
    otherModels(tools, model, request).length === 0;
  return {
    ok: true,
    estimate: {
      model: model.id,
      price_version: model.price.id,
      items,
      cost_usd: formatUsd(cost.charged),
      list_cost_usd: formatUsd(cost.list),
      minimum_applied: cost.minimumApplied,
      exact: isFullyKnown && !hasCeilingPrice(tools, model) && items.every(({ known }) => known === "exact"),
      ...holds,
      unbounded_fields: unbounded,
      notes: notesOf(tools, model, { prompt, request, unbounded }),
    },
  };
}

/** Returns the price with the rates of the service tier, speed and region that the request asks for. */
function askedRates(price: PriceVersion, request: ModelRequest | null): PriceVersion {
  if (request?.terms === undefined) return price;
  const { serviceTier, ...others } = request.terms;
  return inServiceTier(
    price,
    variantName({ ...others, serviceTier: serviceTier === anyServiceTier ? null : serviceTier }),
  );
}

async function promptOf(
  { tokens }: EstimateTools,
  model: CatalogueModel,
  params: EstimateParams,
): Promise<EstimatePart[]> {
  const { inputTokens, cachedTokens: cached_input, cacheWriteTokens: cache_write } = params;
  if (inputTokens !== null) {
    const given = { input: inputTokens - cached_input - cache_write, cached_input, cache_write };
    return (["input", "cached_input", "cache_write"] as const).map((name) => ({
      class: name,
      tokens: given[name],
      known: "exact",
      why: "as given",
    }));
  }
  if (params.given !== null) return promptParts(tokens, model, params.given);
  return [wholeContext(model, "no request was given")];
}

/** Returns the amounts that the proxy would hold. Without a request, returns the model's largest hold. */
async function holdsOf(tools: EstimateTools, model: CatalogueModel, version: PriceVersion, { given }: EstimateParams) {
  if (given === null) {
    const bound = { promptTokens: model.contextTokens, outputTokens: model.outputTokensMax };
    const most = worstCase(version, bound, {
      prompt: ["input", "cached_input", "cache_write"],
      completion: ["output", "reasoning"],
    });
    const heldFor = { output_tokens: model.outputTokensMax, by: "model" };
    const held = { tokens: model.contextTokens, by: "context" } as const;
    return {
      unbounded: [],
      hold_usd: formatUsd(most),
      counted_hold_usd: null,
      held_for: heldFor,
      held_prompt: held,
      counted_prompt: null,
    };
  }
  const { hold, countedHold, heldPrompt, countedPrompt, unboundedFields, basis } = await tools.holdsFor(
    given.request,
    given.body,
  );
  return {
    unbounded: unboundedFields,
    hold_usd: formatUsd(hold ?? (0n as PicoUsd)),
    counted_hold_usd: formatUsdOrNull(countedHold),
    held_for: basis && { output_tokens: basis.outputTokens, by: basis.by },
    held_prompt: heldPrompt === null ? null : { tokens: heldPrompt, by: promptBoundedBy(heldPrompt, model) },
    counted_prompt:
      countedPrompt === null
        ? null
        : { tokens: countedPrompt, by: model.tokenizerIsPublic ? ("tokenizer" as const) : ("words" as const) },
  };
}

/** Returns the bound that decided the number of prompt tokens in the first hold. */
function promptBoundedBy(tokens: number, { contextTokens }: CatalogueModel): "bytes" | "context" {
  return tokens >= contextTokens ? "context" : "bytes";
}

/**
 * Returns an item of the cost, with the certainty of the parts that it is computed from. A flat price has no parts, so
 * it is exact. A minimum depends on all parts.
 */
function itemJson(item: CostItem, parts: readonly EstimatePart[]): EstimateJson["items"][number] {
  const from = parts.filter((part) => part.class === item.class && part.tokens > 0);
  const why =
    item.class === "minimum" ? "the gateway's minimum charge" : from.flatMap((part) => part.why ?? []).join("; ");
  const known = item.class === "minimum" ? parts.map((part) => part.known) : from.map((part) => part.known);
  return {
    class: item.class,
    tokens: item.tokens,
    usd_per_million: item.rate === null ? null : formatRate(item.rate),
    cost_usd: formatUsd(item.cost),
    list_cost_usd: formatUsd(item.listCost),
    known: known.reduce(lessCertain, "exact"),
    why: why === "" ? null : why,
  };
}

/** Returns the models that a request names in addition to the model that it asks for. */
function otherModels({ catalogue, at }: EstimateTools, model: CatalogueModel, request: ModelRequest | null): string[] {
  if (request === null) return [];
  const { models, mentions } = request.fields;
  const named = new Set([...models, ...mentions.filter((name) => catalogue.named(name, at) !== undefined)]);
  return [...named].filter((name) => catalogue.find(name, at)?.id !== model.id);
}

function hasCeilingPrice({ catalogue, at }: EstimateTools, model: CatalogueModel): boolean {
  return !catalogue.list(at).some(({ id }) => id === model.id);
}

interface NotesParams {
  readonly prompt: readonly EstimatePart[];
  readonly request: ModelRequest | null;
  readonly unbounded: readonly string[];
}

function notesOf(tools: EstimateTools, model: CatalogueModel, { prompt, request, unbounded }: NotesParams): string[] {
  const notes: string[] = [];
  const others = otherModels(tools, model, request);
  const unknown = request?.fields.unknown ?? [];
  if (others.length > 0)
    notes.push(
      `the request also names ${others.join(", ")}: its key must be allowed to use each model, and the hold covers the most expensive one`,
    );
  if (unknown.length > 0)
    notes.push(
      `Farebox does not know ${unknown.join(", ")}, which may change the price: the charge gets the doubt unknown_field`,
    );
  if (hasCeilingPrice(tools, model))
    notes.push("no price file names this model, so the ceiling price of unknown models applies");
  if (unbounded.length > 0)
    notes.push(`${unbounded.join(", ")} may have costs besides tokens, which are not in this sum`);
  const length = prompt.reduce((sum, { tokens }) => sum + tokens, 0);
  if (length > model.contextTokens)
    notes.push(`the prompt is longer than the model's context of ${model.contextTokens} tokens`);
  return notes;
}

type EstimateRequest =
  | { readonly ok: true; readonly request: ModelRequest; readonly body: Buffer }
  /** Completes a sentence that begins with the file's name. */
  | { readonly ok: false; readonly problem: string };

/** Reads a chat request as the proxy does. `model` replaces the model that the request names. */
export function readEstimateRequest(bytes: Buffer, model: string | undefined): EstimateRequest {
  const problem = jsonProblem(bytes);
  if (problem !== undefined) return { ok: false, problem };
  const body = model === undefined ? bytes : withModel(bytes, model);
  const read = readChatRequest(body);
  if (read.ok) return { ok: true, request: read.request, body };
  return {
    ok: false,
    problem: `is not a chat request: ${"message" in read.refusal ? read.refusal.message : read.refusal.code}`,
  };
}

/**
 * Returns the problem of an invalid JSON text, with its position; undefined if the text is a valid object. Checks the
 * whole text, although the proxy skips long strings.
 */
function jsonProblem(bytes: Buffer): string | undefined {
  if (!isUtf8(bytes)) return "is not UTF-8 text";
  try {
    return isObject(JSON.parse(bytes.toString("utf8"))) ? undefined : "must be a JSON object with model and messages";
  } catch (error) {
    return `is not valid JSON: ${messageOf(error)}`;
  }
}

/**
 * Certainty of a number of tokens: the number that will be billed, a count that may be inaccurate, or an upper bound.
 */
type Certainty = EstimateJson["items"][number]["known"];

/** Part of an estimate: tokens of one class. `why`: reason for their number; null if it needs none. */
interface EstimatePart {
  readonly class: TokenClass;
  readonly tokens: number;
  readonly known: Certainty;
  readonly why: string | null;
}

/** Returns a part for tokens of unknown number: it assumes the model's whole context. */
function wholeContext({ contextTokens }: CatalogueModel, why: string, name: TokenClass = "input"): EstimatePart {
  return { class: name, tokens: contextTokens, known: "bound", why: `${why}, so the whole context is assumed` };
}

/**
 * Returns the parts of a prompt. Assumes the upper bound for a part that cannot be counted, because an estimate must
 * not be too low.
 */
async function promptParts(
  tokens: TokenCounter,
  model: CatalogueModel,
  { request, body }: { readonly request: ModelRequest; readonly body: Buffer },
): Promise<EstimatePart[]> {
  const { size } = request;
  if (size.unboundedFields.length > 0)
    return [wholeContext(model, `${size.unboundedFields.join(", ")} may add tokens that the request does not show`)];
  const chat = chatTextOf(body);
  const images = countImages(chat.images, size.imageParts, model);
  const parts = [
    await textPart(tokens, model, chat),
    ...sizedImages(images),
    ...mediaPart(model, "image_input", images.unsized, model.imagePartTokens, "image"),
    ...mediaPart(model, "audio_input", size.audioParts, model.audioPartTokens, "audio part"),
    ...mediaPart(model, "input", size.fileParts, model.filePartTokens, "file"),
  ];
  return withinContext(parts, model.contextTokens);
}

/** Limits images, audio and files to the space that the text leaves in the context. */
function withinContext([text, ...media]: readonly EstimatePart[], contextTokens: number): EstimatePart[] {
  if (text === undefined) return [];
  let remaining = Math.max(contextTokens - text.tokens, 0);
  return [
    text,
    ...media.map((part) => {
      const tokens = Math.min(part.tokens, remaining);
      remaining -= tokens;
      return { ...part, tokens };
    }),
  ];
}

async function textPart(tokens: TokenCounter, model: CatalogueModel, chat: ChatText): Promise<EstimatePart> {
  const counted = await tokens.countChat(chat, model.encoding, undefined, model.promptForm);
  if (!counted.ok) return wholeContext(model, "too long to count");
  const why: string[] = [];
  const rates = model.price?.version.tiers[0].charged;
  if (
    rates !== undefined &&
    (["cached_input", "cache_write", "cache_write_1h"] as const).some((name) => rates[name] !== rates.input)
  ) {
    why.push("cached tokens have a different price");
  }
  if (!model.tokenizerIsPublic)
    why.push(
      `counted with ${model.encoding} instead of the model's own tokenizer, and multiplied by ${model.errorFactor / 1000}`,
    );
  if (chat.tools.length > 0) why.push("tools are counted in their published text form");
  if (chat.schema !== null) why.push("the answer's schema is counted as its text");
  const count = scaleTokens(counted.tokens, model.errorFactor);
  return {
    class: "input",
    tokens: count,
    known: why.length > 0 ? "estimate" : "exact",
    why: why.length > 0 ? why.join("; ") : null,
  };
}

function sizedImages({ sized, tokens }: ImageCount): EstimatePart[] {
  if (sized === 0) return [];
  const why = `${sized} image${sized === 1 ? "" : "s"} counted by size`;
  return [{ class: "image_input", tokens, known: "estimate", why }];
}

function mediaPart(
  model: CatalogueModel,
  name: TokenClass,
  count: number,
  each: number | null,
  noun: string,
): EstimatePart[] {
  if (count === 0) return [];
  const counted = `${count} ${noun}${count === 1 ? "" : "s"}`;
  if (each === null) return [wholeContext(model, `${counted} without an upper bound`, name)];
  const why = `${counted} of at most ${each} tokens${count === 1 ? "" : " each"}`;
  return [{ class: name, tokens: count * each, known: "bound", why }];
}

/** Returns the largest possible output, in the most expensive token class that the answer can have. */
function outputPart(
  model: CatalogueModel,
  price: PriceVersion,
  prompt: TokenCounts,
  request: ModelRequest | null,
): EstimatePart {
  const { charged } = tierFor(price, promptTotal(prompt));
  const possible = request?.classes.completion ?? (["output", "reasoning"] as const);
  const mostExpensive = possible.reduce<TokenClass>(
    (top, name) => (charged[name] > charged[top] ? name : top),
    "output",
  );
  const part = { class: mostExpensive, known: "bound" } as const;
  if (request === null) return { ...part, tokens: model.outputTokensMax, why: "the model's largest output" };
  const { size } = request;
  const hasUnboundedFields = size.unboundedFields.length > 0;
  const predicted = predictedBound(size, model);
  const tokens = outputBound(hasUnboundedFields ? { ...size, outputMax: null } : size, model) + predicted;
  const choices = size.choices === 1 ? "" : ` for each of ${size.choices} choices`;
  const why =
    hasUnboundedFields || !Number.isFinite(size.outputMax ?? Infinity)
      ? `the model's largest output${choices}`
      : `the largest output that the request allows${choices}`;
  return { ...part, tokens, why: predicted === 0 ? why : `${why}, and ${predicted} tokens of the prediction` };
}

const fromMostCertain: readonly Certainty[] = ["exact", "estimate", "bound"];

/** Returns the less certain of two certainties. */
function lessCertain(a: Certainty, b: Certainty): Certainty {
  return fromMostCertain.indexOf(a) > fromMostCertain.indexOf(b) ? a : b;
}

function tokensOf(parts: readonly EstimatePart[]): TokenCounts {
  const sums: Record<TokenClass, number> = { ...noTokens };
  for (const { class: name, tokens } of parts) sums[name] += tokens;
  return sums;
}
