import { worstCase, type HoldBasis } from "../core/bounds.ts";
import { costOf, itemise, type CostItem } from "../core/cost.ts";
import { formatRate, formatUsd, formatUsdOrNull, type PicoUsd } from "../core/money.ts";
import type { PriceVersion } from "../core/price.ts";
import type { Catalogue, CatalogueModel } from "../ports/catalogue.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { outputPart, promptParts, tokensOf, worse, type Known, type Part } from "./estimate-parts.ts";
import type { ModelRequest } from "../wire/model-request.ts";
import { isUtf8 } from "node:buffer";
import { readChatRequest, withModel } from "../wire/endpoints/chat-completions.ts";
import { isObject } from "../wire/json.ts";

export interface EstimateParams {
  /** Id or alias of a model. */
  readonly model: string;
  readonly given: { readonly request: ModelRequest; readonly body: Buffer } | null;
  /** Token counts that the user states; null to take them from the request or the model's bounds. */
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
}

export interface EstimatedHolds {
  readonly hold: PicoUsd | null;
  readonly counted: PicoUsd | null;
  /** Fields whose cost has no upper bound at the model's price. */
  readonly unboundedFields: readonly string[];
  /** Basis of the output tokens in the hold; null if the request would be refused. */
  readonly basis: HoldBasis | null;
}

export interface EstimateTools {
  readonly catalogue: Catalogue;
  readonly tokens: TokenCounter;
  /** Returns the holds that the proxy would place: the first hold, and the tighter one after the prompt is counted. */
  readonly holdsFor: (request: ModelRequest, body: Buffer) => Promise<EstimatedHolds>;
  /** Time of the prices, in milliseconds since 1970 UTC. */
  readonly at: number;
}

/** Answer of `estimate`. Each item states its certainty. */
export interface Estimate {
  readonly model: string;
  readonly price_version: string;
  readonly items: readonly EstimateItem[];
  readonly cost_usd: string;
  readonly list_cost_usd: string;
  readonly minimum_applied: boolean;
  /** True if every item is exact. */
  readonly exact: boolean;
  /** Amount that must be left in a budget. Without a request, it is the model's largest hold. */
  readonly hold_usd: string;
  /** The tighter hold, which is tried if the first does not fit; null if there is none. */
  readonly counted_hold_usd: string | null;
  /**
   * Output tokens that `hold_usd` covers, and the field or bound that set their number. Null if the request would be
   * refused.
   */
  readonly held_for: { readonly output_tokens: number | null; readonly by: string } | null;
  /** Fields whose cost no number of tokens bounds. A request with such fields is refused under a hard budget. */
  readonly unbounded_fields: readonly string[];
  readonly notes: readonly string[];
}

export interface EstimateItem {
  readonly class: CostItem["class"];
  readonly tokens: number;
  readonly usd_per_million: string | null;
  readonly cost_usd: string;
  readonly list_cost_usd: string;
  readonly known: Known;
  readonly why: string | null;
}

export type EstimateResult =
  | { readonly ok: true; readonly estimate: Estimate }
  | { readonly ok: false; readonly problem: "unknown_model" | "no_price" };

/** Estimates the cost of a request, item by item, before it is sent. */
export async function estimate(tools: EstimateTools, params: EstimateParams): Promise<EstimateResult> {
  const model = tools.catalogue.find(params.model, tools.at);
  if (model === undefined) return { ok: false, problem: "unknown_model" };
  if (model.price === null) return { ok: false, problem: "no_price" };
  const { version } = model.price;
  const prompt = await promptOf(tools, model, params);
  const request = params.given?.request ?? null;
  const output: Part =
    params.outputTokens === null
      ? outputPart(model, version, tokensOf(prompt), request)
      : { class: "output", tokens: params.outputTokens, known: "exact", why: "as given" };
  const parts = [...prompt, output];
  const tokens = tokensOf(parts);
  const cost = costOf(version, tokens);
  const items = itemise(version, tokens).map((item) => itemJson(item, parts));
  const { unbounded, ...holds } = await holdsOf(tools, model, version, params);
  const isPlain =
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
      exact: isPlain && !isCeiling(tools, model) && items.every(({ known }) => known === "exact"),
      ...holds,
      unbounded_fields: unbounded,
      notes: notesOf(tools, model, { prompt, request, unbounded }),
    },
  };
}

async function promptOf({ tokens }: EstimateTools, model: CatalogueModel, params: EstimateParams): Promise<Part[]> {
  if (params.inputTokens !== null)
    return [{ class: "input", tokens: params.inputTokens, known: "exact", why: "as given" }];
  if (params.given !== null) return promptParts(tokens, model, params.given);
  return [
    { class: "input", tokens: model.contextTokens, known: "bound", why: "no request was given: the whole context" },
  ];
}

async function holdsOf(tools: EstimateTools, model: CatalogueModel, version: PriceVersion, { given }: EstimateParams) {
  if (given === null) {
    const bound = { promptTokens: model.contextTokens, outputTokens: model.outputTokensMax };
    const most = worstCase(version, bound, {
      prompt: ["input", "cached_input", "cache_write"],
      completion: ["output", "reasoning"],
    });
    const heldFor = { output_tokens: model.outputTokensMax, by: "model" };
    return { unbounded: [], hold_usd: formatUsd(most), counted_hold_usd: null, held_for: heldFor };
  }
  const { hold, counted, unboundedFields: unbounded, basis } = await tools.holdsFor(given.request, given.body);
  return {
    unbounded,
    hold_usd: formatUsd(hold ?? (0n as PicoUsd)),
    counted_hold_usd: formatUsdOrNull(counted),
    held_for: basis && { output_tokens: basis.outputTokens, by: basis.by },
  };
}

/**
 * Returns an item of the cost, with the certainty of the parts that it comes from. A flat price comes from no part, so it is
 * exact. A minimum depends on all parts.
 */
function itemJson(item: CostItem, parts: readonly Part[]): EstimateItem {
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
    known: known.reduce(worse, "exact"),
    why: why === "" ? null : why,
  };
}

/** Returns the names of models in a request other than the model that it asks for. */
function otherModels({ catalogue, at }: EstimateTools, model: CatalogueModel, request: ModelRequest | null): string[] {
  if (request === null) return [];
  const { models, mentions } = request.fields;
  const named = new Set([...models, ...mentions.filter((name) => catalogue.named(name, at) !== undefined)]);
  return [...named].filter((name) => catalogue.find(name, at)?.id !== model.id);
}

function isCeiling({ catalogue, at }: EstimateTools, model: CatalogueModel): boolean {
  return !catalogue.list(at).some(({ id }) => id === model.id);
}

interface NotesParams {
  readonly prompt: readonly Part[];
  readonly request: ModelRequest | null;
  readonly unbounded: readonly string[];
}

function notesOf(tools: EstimateTools, model: CatalogueModel, { prompt, request, unbounded }: NotesParams): string[] {
  const notes: string[] = [];
  const others = otherModels(tools, model, request);
  const unknown = request?.fields.unknown ?? [];
  if (others.length > 0)
    notes.push(
      `the request names ${others.join(", ")} too: each must be allowed, and the hold is that of the most expensive one`,
    );
  if (unknown.length > 0)
    notes.push(
      `Farebox does not know ${unknown.join(", ")}, which may change the price: its charge is marked unknown_field`,
    );
  if (isCeiling(tools, model))
    notes.push("no price file names this model: it is priced by the default, which is a ceiling");
  if (unbounded.length > 0) notes.push(`${unbounded.join(", ")} may cost more than tokens, which is not in this sum`);
  const length = prompt.reduce((sum, { tokens }) => sum + tokens, 0);
  if (length > model.contextTokens)
    notes.push(`the prompt is longer than the model's context of ${model.contextTokens} tokens`);
  return notes;
}

export type EstimateRequest =
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
 * Returns the problem of an invalid JSON text, with its position. Checks the whole text, while the proxy skips long strings.
 */
function jsonProblem(bytes: Buffer): string | undefined {
  if (!isUtf8(bytes)) return "is not a text in UTF-8";
  try {
    return isObject(JSON.parse(bytes.toString("utf8"))) ? undefined : "must be a JSON object with model and messages";
  } catch (error) {
    return `is not valid JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}
