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
  /** An id or an alias. */
  readonly model: string;
  readonly given: { readonly request: ModelRequest; readonly body: Buffer } | null;
  /** Counts that the user knows better; null where the request or the model's bounds say them. */
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
}

export interface EstimatedHolds {
  readonly hold: PicoUsd | null;
  readonly counted: PicoUsd | null;
  /** Fields whose cost nothing bounds at the model's price. */
  readonly unboundedFields: readonly string[];
  /** Basis of the hold's output; null where the request would be refused. */
  readonly basis: HoldBasis | null;
}

export interface EstimateTools {
  readonly catalogue: Catalogue;
  readonly tokens: TokenCounter;
  /** Holds that the proxy would place: the first one, and the one after counting the prompt. */
  readonly holdsFor: (request: ModelRequest, body: Buffer) => Promise<EstimatedHolds>;
  /** Instant of the prices, milliseconds since 1970 UTC. */
  readonly at: number;
}

/** Answer of `estimate`, with the certainty of each item. */
export interface Estimate {
  readonly model: string;
  readonly price_version: string;
  readonly items: readonly EstimateItem[];
  readonly cost_usd: string;
  readonly list_cost_usd: string;
  readonly minimum_applied: boolean;
  /** True if every item is exact. */
  readonly exact: boolean;
  /** Room that a budget needs; without a request, the largest hold of this model. */
  readonly hold_usd: string;
  /** The tighter hold that is tried where the first does not fit; null where none can be given. */
  readonly counted_hold_usd: string | null;
  /** The output tokens that `hold_usd` covers, and the field or bound that decided; null where the request would be refused. */
  readonly held_for: { readonly output_tokens: number | null; readonly by: string } | null;
  /** Fields that may cost more than any number of tokens; under a hard budget they are refused. */
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

/** A line of the cost with the parts that it came from. A flat price and a minimum are exact where the tokens do not matter. */
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

/** Models that a request names in addition to the one that it asks for. */
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
  /** The rest of a sentence that begins with the file's name. */
  | { readonly ok: false; readonly problem: string };

/** Reads a chat request as the proxy would; `model` takes the place of the one that it names. */
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

/** The proxy need not look into long strings; here the whole text is checked, and a fault has its place. */
function jsonProblem(bytes: Buffer): string | undefined {
  if (!isUtf8(bytes)) return "is not a text in UTF-8";
  try {
    return isObject(JSON.parse(bytes.toString("utf8"))) ? undefined : "must be a JSON object with model and messages";
  } catch (error) {
    return `is not valid JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}
