import { outputBound, predictedBound } from "../core/bounds.ts";
import { countImages, type ChatText, type ImageCount } from "../core/prompt-text.ts";
import { tierFor, type PriceVersion } from "../core/price.ts";
import { noTokens, promptTotal, scaleTokens, type TokenClass, type TokenCounts } from "../core/usage.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { chatTextOf } from "../wire/endpoints/chat-completions.ts";
import type { ModelRequest } from "../wire/model-request.ts";

/** Certainty of a number of tokens: the number that will be billed, a count that may be inaccurate, or an upper bound. */
export type Known = "exact" | "estimate" | "bound";

/** Tokens of one class. `why` is the reason if their number is not exact. */
export interface Part {
  readonly class: TokenClass;
  readonly tokens: number;
  readonly known: Known;
  readonly why: string | null;
}

/** Returns the parts of a prompt. A part that cannot be counted has its upper bound, so that the estimate is not too low. */
export async function promptParts(
  tokens: TokenCounter,
  model: CatalogueModel,
  { request, body }: { readonly request: ModelRequest; readonly body: Buffer },
): Promise<Part[]> {
  const { size } = request;
  if (size.unboundedFields.length > 0) {
    const why = `${size.unboundedFields.join(", ")} may add tokens that the request does not show: the whole context`;
    return [{ class: "input", tokens: model.contextTokens, known: "bound", why }];
  }
  const chat = chatTextOf(body);
  const images = countImages(chat.images, size.imageParts, model);
  const parts = [
    await textPart(tokens, model, chat),
    ...sizedImages(images),
    ...mediaPart(model, "image_input", images.unsized, model.imagePartTokens, "image"),
    ...mediaPart(model, "audio_input", size.audioParts, model.audioPartTokens, "sound"),
    ...mediaPart(model, "input", size.fileParts, model.filePartTokens, "file"),
  ];
  return withinContext(parts, model.contextTokens);
}

/** Limits the parts after the text to the rest of the context. */
function withinContext([text, ...media]: readonly Part[], contextTokens: number): Part[] {
  if (text === undefined) return [];
  let room = Math.max(contextTokens - text.tokens, 0);
  return [
    text,
    ...media.map((part) => {
      const tokens = Math.min(part.tokens, room);
      room -= tokens;
      return { ...part, tokens };
    }),
  ];
}

async function textPart(tokens: TokenCounter, model: CatalogueModel, chat: ChatText): Promise<Part> {
  const counted = await tokens.countChat(chat, model.encoding, undefined, model.promptForm);
  if (!counted.ok) {
    return {
      class: "input",
      tokens: model.contextTokens,
      known: "bound",
      why: "too long to be counted: the whole context",
    };
  }
  const why: string[] = [];
  const rates = model.price?.version.tiers[0].charged;
  if (
    rates !== undefined &&
    (["cached_input", "cache_write", "cache_write_1h"] as const).some((name) => rates[name] !== rates.input)
  ) {
    why.push("tokens that a cache reads or writes have other prices");
  }
  if (!model.tokenizerIsPublic)
    why.push(
      `counted with ${model.encoding}, not the model's own tokenizer, and widened by ${model.errorFactor / 1000}`,
    );
  if (chat.tools.length > 0) why.push("tools are counted by the published form");
  if (chat.schema !== null) why.push("the answer's schema is counted as its text");
  const count = scaleTokens(counted.tokens, model.errorFactor);
  return {
    class: "input",
    tokens: count,
    known: why.length > 0 ? "estimate" : "exact",
    why: why.length > 0 ? why.join("; ") : null,
  };
}

function sizedImages({ sized, tokens }: ImageCount): Part[] {
  if (sized === 0) return [];
  const why = `${sized} image${sized === 1 ? "" : "s"} counted by size`;
  return [{ class: "image_input", tokens, known: "estimate", why }];
}

function mediaPart(model: CatalogueModel, name: TokenClass, count: number, each: number | null, thing: string): Part[] {
  if (count === 0) return [];
  const things = `${count} ${thing}${count === 1 ? "" : "s"}`;
  if (each === null)
    return [
      {
        class: name,
        tokens: model.contextTokens,
        known: "bound",
        why: `${things}, which nothing bounds: the whole context`,
      },
    ];
  return [
    {
      class: name,
      tokens: count * each,
      known: "bound",
      why: `${things} of at most ${each} tokens${count === 1 ? "" : " each"}`,
    },
  ];
}

/** Returns the largest possible output, in the most expensive token class that the answer can have. */
export function outputPart(
  model: CatalogueModel,
  price: PriceVersion,
  prompt: TokenCounts,
  request: ModelRequest | null,
): Part {
  const { charged } = tierFor(price, promptTotal(prompt));
  const possible = request?.classes.completion ?? (["output", "reasoning"] as const);
  const mostExpensive = possible.reduce<TokenClass>(
    (top, name) => (charged[name] > charged[top] ? name : top),
    "output",
  );
  if (request === null)
    return {
      class: mostExpensive,
      tokens: model.outputTokensMax,
      known: "bound",
      why: "the most that the model writes",
    };
  const { size } = request;
  const hidden = size.unboundedFields.length > 0;
  const predicted = predictedBound(size, model);
  const tokens = outputBound(hidden ? { ...size, outputLimit: null } : size, model) + predicted;
  const choices = size.choices === 1 ? "" : `, ${size.choices} times`;
  const why =
    hidden || !Number.isFinite(size.outputLimit ?? Infinity)
      ? `the most that the model writes${choices}`
      : `the most that the request allows${choices}`;
  return {
    class: mostExpensive,
    tokens,
    known: "bound",
    why: predicted === 0 ? why : `${why}, and ${predicted} that the prediction may cost`,
  };
}

const order: readonly Known[] = ["exact", "estimate", "bound"];

/** Returns the less certain of two certainties. */
export function worse(a: Known, b: Known): Known {
  return order.indexOf(a) > order.indexOf(b) ? a : b;
}

export function tokensOf(parts: readonly Part[]): TokenCounts {
  const sums: Record<TokenClass, number> = { ...noTokens };
  for (const { class: name, tokens } of parts) sums[name] += tokens;
  return sums;
}
