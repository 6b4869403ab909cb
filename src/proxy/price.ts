import { outputBound, partTokens, promptBound, worstCase } from "../core/bounds.ts";
import type { PicoUsd } from "../core/money.ts";
import type { PromptText } from "../core/prompt-text.ts";
import { canonicalPrice, timesPieces } from "../core/price.ts";
import type { Refusal } from "../core/refusals.ts";
import type { Slices } from "../core/slices.ts";
import { scaleTokens } from "../core/tokens.ts";
import type { Catalogue, CatalogueModel } from "../ports/catalogue.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { contentId } from "../wire/content-id.ts";
import type { ModelRequest } from "../wire/model-request.ts";
import { countPromptText } from "./count-prompt.ts";

/** How the hold of a stream grows that states no maximum. */
export interface Growth extends Slices {
  /** The hold for so many output tokens, by the price in force at the admission. */
  readonly costAt: (outputTokens: number) => PicoUsd;
}

/** What is to be held for a request. */
export interface Reservation {
  /** All that it can cost; null for a model without a price. */
  readonly hold: PicoUsd | null;
  /** Under a hard budget only the first slice is held, and grows. Null where the whole is held from the start. */
  readonly growth: Growth | null;
}

/** What a request can cost at most, by the price in force when it came. */
export interface Quote extends Reservation {
  readonly request: ModelRequest;
  /** When it was priced: the admission's time, and so the charge's. Milliseconds since 1970 UTC. */
  readonly at: number;
  /** Undefined for a model that the catalogue does not know. */
  readonly model: CatalogueModel | undefined;
  /** The most prompt tokens, without tokenising. */
  readonly promptTokens: number;
  /** False where it could cost more than `hold`. */
  readonly bounded: boolean;
}

export type Pricing = { readonly ok: true; readonly quote: Quote } | { readonly ok: false; readonly refusal: Refusal };

export interface Pricer {
  /** The worst case from the length of the body, without tokenising it. */
  quote(request: ModelRequest, at: number): Pricing;
  /** The prompt counted, with what may surround it; undefined where it cannot be counted. */
  countPrompt(quote: Quote, body: Buffer): Promise<number | undefined>;
  /** A tighter worst case from a count of the prompt; undefined where none can be given, or none that fits into `room`. */
  tighten(quote: Quote, body: Buffer, room: bigint): Promise<Reservation | undefined>;
}

/** The step that prices a request before it is sent. */
export function createPricer(parts: {
  readonly catalogue: () => Catalogue;
  readonly tokens: TokenCounter;
  readonly unpriced: "record" | "refuse";
  /** Output tokens that a stream without a stated maximum holds at first and grows by, for each choice. */
  readonly sliceTokens: number;
}): Pricer {
  const { sliceTokens } = parts;
  const countPrompt: Pricer["countPrompt"] = async ({ request, model, promptTokens }, body) => {
    if (model === undefined || model.unit !== "token" || !model.tokenizerIsPublic || request.size.unboundedFields.length > 0) return undefined;
    const media = partTokens(request.size, model);
    if (media === null) return undefined;
    const prompt = request.prompt.text(body);
    const counted = await countPromptText(parts.tokens, prompt.kind === "chat" ? withoutTools(prompt) : prompt, model.encoding, promptTokens);
    if (!counted.ok) return undefined;
    const template = prompt.kind === "chat" ? templateSlackTokens * prompt.chat.messages : 0;
    const beside = scaleTokens(request.prompt.bytesBeside(body), model.tokensPerByte);
    return Math.min(counted.tokens + template + beside + media, promptTokens);
  };

  return {
    quote(request, at) {
      const model = pricedFor(request, parts.catalogue().find(request.model, at));
      if (model?.price == null) {
        if (parts.unpriced === "refuse") {
          return { ok: false, refusal: { code: "model_not_priced", model: request.model, underBudget: false } };
        }
        const promptTokens = model === undefined ? request.size.textBytes : promptBound(request.size, model);
        return { ok: true, quote: { request, at, model, hold: null, growth: null, promptTokens, bounded: false } };
      }
      const promptTokens = promptBound(request.size, model);
      const reservation = reservationFor(request, model, promptTokens, sliceTokens);
      return { ok: true, quote: { request, at, model, ...reservation, promptTokens, bounded: request.unboundedFields.length === 0 } };
    },

    countPrompt,

    async tighten(quote, body, room) {
      const { request, model } = quote;
      if (model === undefined) return undefined;
      const withoutPrompt = firstHold(reservationFor(request, model, 0, sliceTokens));
      if (withoutPrompt === null || withoutPrompt > room) return undefined;
      const prompt = await countPrompt(quote, body);
      return prompt === undefined ? undefined : reservationFor(request, model, prompt, sliceTokens);
    },
  };
}

/** The model with what its price is for this request: none where it is for images alone, and one for all pieces. */
function pricedFor({ pieces, isUnpriced }: ModelRequest, model: CatalogueModel | undefined): CatalogueModel | undefined {
  if (model?.price == null) return model;
  if (isUnpriced === true || (model.imagesOnly && pieces === undefined)) return { ...model, price: null };
  if (pieces === undefined || pieces === 1 || model.price.version.perRequest === null) return model;
  const version = timesPieces(model.price.version, pieces);
  const canonical = canonicalPrice(version);
  return { ...model, price: { id: contentId(canonical), canonical, version } };
}

/** Template tokens that the published count of a message does not cover on every model. */
const templateSlackTokens = 5;

/** Tools stand beside the messages, where their bytes bound them. */
function withoutTools(prompt: Extract<PromptText, { kind: "chat" }>): PromptText {
  return { ...prompt, chat: { ...prompt.chat, tools: [] } };
}

/** What a hard budget must have room for at the admission. */
export function firstHold({ hold, growth }: Reservation): PicoUsd | null {
  return growth === null ? hold : growth.costAt(growth.sliceTokens);
}

function reservationFor(request: ModelRequest, model: CatalogueModel, promptTokens: number, sliceTokens: number): Reservation {
  if (model.price === null) return { hold: null, growth: null };
  const { version } = model.price;
  const { size, classes } = request;
  const isHidden = size.unboundedFields.length > 0 && size.outputLimit !== 0;
  const outputTokensMax = outputBound(isHidden ? { ...size, outputLimit: null } : size, model);
  const costAt = (outputTokens: number) => worstCase(version, { promptTokens, outputTokens }, classes);
  const slices = { sliceTokens: sliceTokens * size.choices, outputTokensMax };
  const grows = canBeWatched(request, model) && version.perRequest === null && slices.sliceTokens < outputTokensMax;
  return { hold: costAt(outputTokensMax), growth: grows ? { ...slices, costAt } : null };
}

/** Whether the output states no maximum and can be seen as it is written: a stream of text, from a model that hides none. */
function canBeWatched({ stream, size, classes, isUnseen }: ModelRequest, model: CatalogueModel): boolean {
  const isText = classes.completion.every((name) => name === "output" || name === "reasoning");
  return stream && isText && isUnseen !== true && !model.reasons && size.outputLimit === null && size.unboundedFields.length === 0;
}
