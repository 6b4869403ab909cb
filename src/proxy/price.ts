import { outputBound, partTokens, promptBound, worstCase } from "../core/bounds.ts";
import type { PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import { scaleTokens } from "../core/tokens.ts";
import type { Catalogue, CatalogueModel } from "../ports/catalogue.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { bytesBesideMessages, chatTextOf, type ChatRequest } from "../wire/chat-request.ts";

/** What a request can cost at most, by the price in force when it came. */
export interface Quote {
  readonly request: ChatRequest;
  /** When it was priced: the admission's time, and so the charge's. Milliseconds since 1970 UTC. */
  readonly at: number;
  /** Undefined for a model that the catalogue does not know. */
  readonly model: CatalogueModel | undefined;
  /** Null for a model without a price. */
  readonly hold: PicoUsd | null;
  /** The most prompt tokens, without tokenising. */
  readonly promptTokens: number;
  /** False where it could cost more than `hold`. */
  readonly bounded: boolean;
}

export type Pricing = { readonly ok: true; readonly quote: Quote } | { readonly ok: false; readonly refusal: Refusal };

export interface Pricer {
  /** The worst case from the length of the body, without tokenising it. */
  quote(request: ChatRequest, at: number): Pricing;
  /** The prompt counted, with what may surround it; undefined where it cannot be counted. */
  countPrompt(quote: Quote, body: Buffer): Promise<number | undefined>;
  /** A tighter worst case from a count of the prompt; undefined where none can be given, or none that fits into `room`. */
  tighten(quote: Quote, body: Buffer, room: bigint): Promise<PicoUsd | undefined>;
}

/** The step that prices a request before it is sent. */
export function createPricer(parts: {
  readonly catalogue: () => Catalogue;
  readonly tokens: TokenCounter;
  readonly unpriced: "record" | "refuse";
}): Pricer {
  const countPrompt: Pricer["countPrompt"] = async ({ request, model, promptTokens }, body) => {
    if (model === undefined || !model.tokenizerIsPublic || request.size.unboundedFields.length > 0) return undefined;
    const media = partTokens(request.size, model);
    if (media === null) return undefined;
    const chat = chatTextOf(body);
    const counted = await parts.tokens.countChat({ ...chat, tools: [] }, model.encoding);
    if (!counted.ok) return undefined;
    const beside = scaleTokens(bytesBesideMessages(body), model.tokensPerByte);
    return Math.min(counted.tokens + templateSlackTokens * chat.messages + beside + media, promptTokens);
  };

  return {
    quote(request, at) {
      const model = parts.catalogue().find(request.model, at);
      if (model?.price == null) {
        if (parts.unpriced === "refuse") {
          return { ok: false, refusal: { code: "model_not_priced", model: request.model, underBudget: false } };
        }
        const promptTokens = model === undefined ? request.size.textBytes : promptBound(request.size, model);
        return { ok: true, quote: { request, at, model, hold: null, promptTokens, bounded: false } };
      }
      const promptTokens = promptBound(request.size, model);
      const hold = holdFor(request, model, promptTokens);
      return { ok: true, quote: { request, at, model, hold, promptTokens, bounded: request.unboundedFields.length === 0 } };
    },

    countPrompt,

    async tighten(quote, body, room) {
      const { request, model } = quote;
      if (model === undefined) return undefined;
      const withoutPrompt = holdFor(request, model, 0);
      if (withoutPrompt === null || withoutPrompt > room) return undefined;
      const prompt = await countPrompt(quote, body);
      return prompt === undefined ? undefined : (holdFor(request, model, prompt) ?? undefined);
    },
  };
}

/** Template tokens that the published count of a message does not cover on every model. */
const templateSlackTokens = 5;

function holdFor(request: ChatRequest, model: CatalogueModel, promptTokens: number): PicoUsd | null {
  if (model.price === null) return null;
  const hidden = request.size.unboundedFields.length > 0;
  const size = hidden ? { ...request.size, outputLimit: null } : request.size;
  return worstCase(model.price.version, { promptTokens, outputTokens: outputBound(size, model) }, request.classes);
}
