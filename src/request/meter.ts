import { outputBound, partTokens, predictedBound, type RequestSize } from "../core/bounds.ts";
import { mergeDoubts, noTokens, scaleTokens, unchanged, usageIn, type Doubt, type Usage } from "../core/usage.ts";
import { lacksHourRate } from "../core/price.ts";
import { countImages, type PromptForm, type PromptText } from "../core/prompt-text.ts";
import { outcomeOfStatus, type CountedOutput, type Outcome } from "../core/settlement.ts";
import type { CatalogueModel, Encoding } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { TokenCount, TokenCounter } from "../ports/token-counter.ts";
import type { ModelRequest } from "../wire/model-request.ts";
import type { Answered, Ending } from "./response.ts";

export interface Metered {
  readonly model: CatalogueModel | undefined;
  /** Body of the request as it was sent. */
  readonly body: Buffer;
  readonly request: ModelRequest;
  /** Tokens that the gateway wrote but Farebox did not read, because Farebox ended the stream. */
  readonly inFlightTokens: number;
}

/** Properties assumed for models that the catalogue does not know: the most common tokenizer and the largest context. */
const common = {
  encoding: "o200k_base",
  promptForm: "chat",
  contextTokens: 10_000_000,
  imageRule: null,
  imagePartTokens: null,
} as const;

/** Pauses before a busy counter is tried again, in milliseconds. They may be long, because no client waits for a settlement. */
const retryMs = [50, 200, 1_000, 5_000, 20_000];

interface MeterDeps {
  readonly tokens: TokenCounter;
  readonly clock: Clock;
}

/**
 * Determines the tokens of a request for its settlement: by the gateway's own usage, otherwise by a count of the output. Runs
 * after the client has its answer.
 */
export async function meterResponse(deps: MeterDeps, ending: Ending, of: Metered): Promise<Outcome> {
  const unit = of.model?.unit ?? "token";
  switch (ending.kind) {
    case "notSent":
      return ending;
    case "judged":
      return ending.outcome;
    case "unknown": {
      const { reason, unreadBytes = 0 } = ending;
      // A hold of the whole cost covers these tokens. A growing hold may not.
      const unknownTokens =
        of.model === undefined ? 0 : Math.min(tokensOf(unreadBytes, of), outputBound(of.request.size, of.model));
      return { kind: "unknown", reason, ...(unknownTokens > 0 && { unknownTokens, doubts: ["unknown_output"] }) };
    }
    case "status":
      return outcomeOfStatus(ending.status, of.model?.billsServerErrors ?? false);
    case "whole": {
      const usage = usageIn(unit, ending.usage, of.request.classes.prompt);
      if (usage !== undefined) return reported(usage, of);
      const { characters } = of.request;
      if (unit === "character" && characters !== undefined) {
        return {
          kind: "counted",
          tokens: { ...noTokens, input: characters },
          errorFactor: unchanged,
          hiddenTokens: 0,
        };
      }
      if (isUncountable(of)) return { kind: "unknown", reason: "no_usage", doubts: boundedDoubts(of) };
      // The model has a price per request, so nothing needs to be counted.
      if (of.request.isUnseen === true)
        return { kind: "counted", tokens: noTokens, errorFactor: unchanged, hiddenTokens: 0 };
      const tokens = await countAll(deps, ending.texts, of);
      if (tokens === undefined) return { kind: "unknown", reason: "not_counted", doubts: boundedDoubts(of) };
      const classes = { ...noTokens, input: tokens.prompt, output: tokens.output };
      return { kind: "counted", tokens: classes, ...besideText(ending, of, tokens) };
    }
    case "cut": {
      const usage = usageIn(unit, ending.usage, of.request.classes.prompt);
      if (usage !== undefined) return reported(usage, of);
      if (isUncountable(of)) return { kind: "unknown", reason: ending.reason, doubts: boundedDoubts(of) };
      const tokens = await countAll(deps, ending.texts, of);
      if (tokens === undefined) return { kind: "unknown", reason: "not_counted", doubts: boundedDoubts(of) };
      return {
        kind: "cut",
        promptTokens: tokens.prompt,
        deliveredTokens: tokens.output,
        inFlightTokens: of.inFlightTokens,
        ...besideText(ending, of, tokens),
        reason: ending.reason,
      };
    }
  }
}

/** Counts tokens, and tries again while the counter is busy. Returns undefined if it stays busy. */
async function counted({ clock }: MeterDeps, count: () => Promise<TokenCount>): Promise<number | undefined> {
  for (const pause of [0, ...retryMs]) {
    if (pause > 0) await new Promise<void>((resolve) => clock.after(pause, resolve));
    const result = await count();
    if (result.ok) return result.tokens;
  }
  return undefined;
}

async function countAll(deps: MeterDeps, texts: readonly string[], { model, body, request }: Metered) {
  const { encoding, promptForm, contextTokens } = model ?? common;
  const text = request.prompt.text(body);
  const { imageParts } = request.size;
  const images = countImages(text.kind === "chat" ? text.chat.images : [], imageParts, model ?? common);
  // Sounds, files and images of unknown size have no text, so the catalogue's bounds are used. Without bounds there is no
  // count.
  const bounded = model === undefined ? 0 : partTokens({ ...request.size, imageParts: images.unsized }, model);
  if (bounded === null) return undefined;
  const prompt = await counted(deps, () => countPromptText(deps.tokens, text, { encoding, promptForm }, contextTokens));
  let output: number | undefined = 0;
  for (const text of texts) {
    const tokens = await counted(deps, () => deps.tokens.countText(text, encoding));
    output = tokens === undefined || output === undefined ? undefined : output + tokens;
  }
  if (prompt === undefined || output === undefined) return undefined;
  const media = images.tokens + bounded;
  const restsOnBound = bounded > 0 || (model === undefined && hasParts(request.size));
  return { prompt: prompt + media, media, output, restsOnBound };
}

function reported({ tokens, clamped, doubts }: Usage, { model }: Metered): Outcome {
  const isUnpriced = tokens.cache_write_1h > 0 && model?.price != null && lacksHourRate(model.price.version);
  const all = isUnpriced ? mergeDoubts(doubts, ["usage_unknown_class"]) : doubts;
  return { kind: "reported", tokens, clamped, ...(all !== undefined && { doubts: all }) };
}

/** Returns the parts of an answer that are not counted text, and reasons why the count may differ from the bill. */
function besideText(
  { uncountable, ranMs }: Answered & { readonly ranMs: number },
  of: Metered,
  { media, restsOnBound }: { readonly media: number; readonly restsOnBound: boolean },
): CountedOutput & { readonly doubts: readonly Doubt[] } {
  // A price per request does not depend on the output.
  const { unknownBytes = 0, sealedBytes = 0, hasMedia = false } = isFlat(of) ? {} : (uncountable ?? {});
  // Hidden tokens already include the encrypted bytes of a model that reasons unseen.
  // Sealed bytes are base64. Decoded, they are at least as many as the bytes of the text.
  const written = tokensOf(
    of.model?.reasons === true ? unknownBytes : unknownBytes + Math.ceil((sealedBytes * 3) / 4),
    of,
  );
  // Rejected tokens of a predicted answer are billed but not in the answer.
  const unknownTokens =
    written + (of.model === undefined || isFlat(of) ? 0 : predictedBound(of.request.size, of.model));
  const hidden = hiddenTokens(of, ranMs);
  const max = outputTokensMax(of);
  const doubts: Doubt[] = [];
  if (unknownTokens > 0) doubts.push("unknown_output");
  if (hidden > 0 && !isFlat(of)) doubts.push("time_based");
  if (hasMedia || (restsOnBound && !isFlat(of))) doubts.push("image_bound");
  return {
    errorFactor: of.model?.errorFactor ?? unchanged,
    hiddenTokens: hidden,
    ...(media > 0 && { mediaTokens: media }),
    ...(unknownTokens > 0 && { unknownTokens }),
    ...(max !== undefined && { outputTokensMax: max }),
    ...(hasMedia && { hasMedia }),
    doubts,
  };
}

/** Returns the doubt of a hold that uses the catalogue's bound for images, audio or files. */
function boundedDoubts(of: Metered): readonly Doubt[] {
  const { size, isUnseen, isUnpriced } = of.request;
  const isBounded = hasParts(size) || (isUnseen === true && isUnpriced !== true);
  return isBounded && !isFlat(of) ? ["image_bound"] : [];
}

function hasParts({ imageParts, audioParts, fileParts }: RequestSize): boolean {
  return imageParts + audioParts + fileParts > 0;
}

function isFlat({ model }: Metered): boolean {
  return model?.price?.version.perRequest != null;
}

/** Returns the largest number of tokens that bytes of unknown meaning can be. */
function tokensOf(bytes: number, { model }: Metered): number {
  return scaleTokens(bytes, model?.tokensPerByte ?? unchanged);
}

/** Returns the largest number of output tokens of all choices together; undefined for an unknown model. */
function outputTokensMax({ model, request }: Metered): number | undefined {
  return model === undefined ? undefined : model.outputTokensMax * request.size.choices;
}

/** Returns true if the cost cannot be counted from text. A price per request needs no text. */
function isUncountable(of: Metered): boolean {
  const { model, request } = of;
  const unit = model?.unit ?? "token";
  return (request.isUnseen === true || unit !== "token") && !isFlat(of);
}

/** Returns the tokens that a reasoning model may have produced unseen while it ran, by its stated speed. */
function hiddenTokens({ model, request }: Metered, ranMs: number): number {
  if (model === undefined || !model.reasons) return 0;
  return Math.ceil((model.tokensPerSecond * request.size.choices * ranMs) / 1000);
}

/** Counts the tokens of a prompt, up to `atMost`. Counts a chat with its template, and other texts separately. */
export async function countPromptText(
  counter: TokenCounter,
  prompt: PromptText,
  { encoding, promptForm }: { readonly encoding: Encoding; readonly promptForm: PromptForm },
  atMost: number,
): Promise<TokenCount> {
  if (prompt.kind === "chat") return counter.countChat(prompt.chat, encoding, atMost, promptForm);
  const counted = await counter.countTexts(prompt.texts, encoding, Math.max(0, atMost - prompt.tokens));
  return counted.ok ? { ok: true, tokens: Math.min(counted.tokens + prompt.tokens, atMost) } : counted;
}
