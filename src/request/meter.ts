import type { BodyBytes } from "../ports/exchange.ts";
import { outputBound, partTokens, predictedBound, type RequestSize } from "../core/bounds.ts";
import {
  completionTotal,
  mergeDoubts,
  noTokens,
  promptTotal,
  scaleTokens,
  unchanged,
  type Doubt,
  type Usage,
} from "../core/usage.ts";
import { lacksHourRate } from "../core/price.ts";
import { countImages, type PromptForm, type PromptText } from "../core/prompt-text.ts";
import {
  outcomeOfError,
  outcomeOfStatus,
  type CountedOutput,
  type Outcome,
  type StatedPart,
} from "../core/settlement.ts";
import type { Encoding } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { TokenCount, TokenCounter } from "../ports/token-counter.ts";
import type { Answered, AnswerOutput } from "../wire/model-answer.ts";
import { usageFor, type ChargedUsage, type ChargeTerms } from "./charged-usage.ts";
import type { Ending } from "./response.ts";

/** Request whose answer is metered. */
export interface Metered extends ChargeTerms {
  /** Body that the hold covers. */
  readonly body: BodyBytes;
  /** Tokens that the gateway wrote but Farebox did not read, because Farebox ended the stream. */
  readonly inFlightTokens: number;
}

/**
 * Properties assumed for models that the catalogue does not know: the most common tokenizer and the largest context.
 */
const assumedModel = {
  encoding: "o200k_base",
  promptForm: "chat",
  contextTokens: 10_000_000,
  imageRule: null,
  imagePartTokens: null,
} as const;

/**
 * Pauses before a busy counter is tried again, in milliseconds. They may be long, because no client waits for a
 * settlement.
 */
const retryMs = [50, 200, 1_000, 5_000, 20_000];

export interface MeterDeps {
  readonly tokens: TokenCounter;
  readonly clock: Clock;
}

/**
 * Returns the outcome of a request for its settlement. Uses the tokens that the gateway reported, or counts the texts
 * if it reported none. Runs after the client has its answer. Returns a promise only if it counts.
 */
export function meterResponse(deps: MeterDeps, ending: Ending, metered: Metered): Outcome | Promise<Outcome> {
  const unit = metered.model?.unit ?? "token";
  switch (ending.kind) {
    case "notSent":
      return ending;
    case "judged":
      return ending.outcome;
    case "unknown": {
      const { reason, unreadBytes = 0 } = ending;
      // A hold of the whole cost covers these tokens. A growing hold may not.
      const unknownTokens =
        metered.model === undefined
          ? 0
          : Math.min(tokensOf(unreadBytes, metered), outputBound(metered.request.size, metered.model));
      return { kind: "unknown", reason, ...(unknownTokens > 0 && { unknownTokens, doubts: ["unknown_output"] }) };
    }
    case "status":
      return outcomeOfStatus(ending.status, metered.model?.billsServerErrors ?? false);
    case "error":
      return outcomeOfError(ending.error, metered.model?.billsServerErrors ?? false);
    case "whole": {
      const usage = usageFor(metered, ending.usage ?? usageWithoutOutput(ending, metered));
      if (usage !== undefined) return reported(usage, metered);
      const { characters } = metered.request;
      if (unit === "character" && characters !== undefined) {
        return {
          kind: "counted",
          tokens: { ...noTokens, input: characters },
          errorFactor: unchanged,
          hiddenTokens: 0,
        };
      }
      if (unit === "second" && metered.request.soundSeconds !== undefined && !isFlat(metered))
        return countedSound(metered.request.soundSeconds(), ending, metered);
      if (isUncountable(metered)) return uncountableOutcome(ending, "no_usage", metered);
      // The model has a price per request, so nothing needs to be counted.
      if (metered.request.isUnseen === true)
        return { kind: "counted", tokens: noTokens, errorFactor: unchanged, hiddenTokens: 0 };
      return countedWhole(deps, ending, metered);
    }
    case "cut": {
      const usage = usageFor(metered, ending.usage);
      if (usage !== undefined) return reported(usage, metered);
      if (isUncountable(metered)) return uncountableOutcome(ending, ending.reason, metered);
      return countedCut(deps, ending, metered);
    }
  }
}

/** Returns a usage without output of an answer that repeats its prompt; undefined for any other answer. */
function usageWithoutOutput({ soFar }: Answered, { request }: Metered): Usage | undefined {
  const usage = request.onlyRepeatsPrompt === true ? soFar?.usage : undefined;
  return usage?.unstated === undefined && completionTotal(usage?.tokens ?? noTokens) === 0 ? usage : undefined;
}

/** Returns the outcome of a recording by its seconds. If the bytes do not bound them, the hold is posted. */
async function countedSound(
  measured: Promise<number | undefined>,
  ending: EndingOf<"whole">,
  metered: Metered,
): Promise<Outcome> {
  const seconds = await measured;
  if (seconds === undefined) return uncountableOutcome(ending, "no_usage", metered);
  const tokens = { ...noTokens, audio_input: Math.min(seconds, metered.model?.contextTokens ?? seconds) };
  return { kind: "counted", tokens, errorFactor: unchanged, hiddenTokens: 0, doubts: boundedDoubts(metered) };
}

type EndingOf<Kind extends Ending["kind"]> = Extract<Ending, { readonly kind: Kind }>;

/** Returns the outcome of an answer that cannot be counted. `reason`: reason why its hold is posted. */
function uncountableOutcome({ soFar }: Answered, reason: string, metered: Metered): Outcome {
  const stated = usageFor(metered, soFar?.usage);
  return {
    kind: "unknown",
    reason,
    doubts: mergeDoubts(boundedDoubts(metered), stated?.doubts),
    ...(stated && { statedTokens: stated.tokens }),
  };
}

async function countedWhole(deps: MeterDeps, ending: EndingOf<"whole">, metered: Metered): Promise<Outcome> {
  const tokens = await countAll(deps, ending.texts, metered);
  const stated = await statedSoFar(deps, ending, metered);
  if (tokens === undefined || stated === null) return uncountableOutcome(ending, "not_counted", metered);
  const classes = { ...noTokens, input: tokens.prompt, output: tokens.output };
  const counted = uncountedOutput(ending, metered, tokens, stated);
  // The usage of a whole answer should cover it, unless it states only the prompt or only the output.
  const statesBothSides = stated !== undefined && ending.soFar?.usage.unstated === undefined;
  const contradicts = statesBothSides && (stated.isFinal || completionTotal(stated.part.tokens) === 0);
  const doubts = contradicts ? mergeDoubts(counted.doubts, ["usage_contradicts"]) : counted.doubts;
  return { kind: "counted", tokens: classes, ...counted, doubts };
}

async function countedCut(deps: MeterDeps, ending: EndingOf<"cut">, metered: Metered): Promise<Outcome> {
  const tokens = await countAll(deps, ending.texts, metered);
  const stated = await statedSoFar(deps, ending, metered);
  if (tokens === undefined || stated === null) return uncountableOutcome(ending, "not_counted", metered);
  return {
    kind: "cut",
    promptTokens: tokens.prompt,
    deliveredTokens: tokens.output,
    inFlightTokens: metered.inFlightTokens,
    ...uncountedOutput(ending, metered, tokens, stated, ending.isUnread === true),
    reason: ending.reason,
  };
}

interface StatedSoFar {
  readonly usage: Usage;
  readonly part: StatedPart;
  readonly isFinal: boolean;
}

/**
 * Returns the usage that covers only a part of the answer, and the tokens of the output after it. Returns undefined if
 * the answer states none, and null if the output cannot be counted.
 */
async function statedSoFar(
  deps: MeterDeps,
  { soFar }: Answered,
  metered: Metered,
): Promise<StatedSoFar | null | undefined> {
  const usage = usageFor(metered, soFar?.usage);
  if (soFar === undefined || usage === undefined) return undefined;
  const { texts, uncountable } = soFar.later;
  const later = await countTexts(deps, texts, metered);
  if (later === undefined) return null;
  const part = { tokens: usage.tokens, laterTokens: later, laterUnknownTokens: unreadableTokens(uncountable, metered) };
  return { usage, part, isFinal: soFar.isFinal };
}

/** Counts tokens, and tries again while the counter is busy. Returns undefined if it stays busy. */
async function countWithRetries({ clock }: MeterDeps, count: () => Promise<TokenCount>): Promise<number | undefined> {
  for (const pause of [0, ...retryMs]) {
    if (pause > 0) await new Promise<void>((resolve) => clock.after(pause, resolve));
    const result = await count();
    if (result.ok) return result.tokens;
  }
  return undefined;
}

async function countAll(deps: MeterDeps, texts: readonly string[], { model, body, request }: Metered) {
  const { encoding, promptForm, contextTokens } = model ?? assumedModel;
  const text = request.prompt.text(body.whole);
  const { imageParts } = request.size;
  const images = countImages(text.kind === "chat" ? text.chat.images : [], imageParts, model ?? assumedModel);
  // Sounds, files and images of unknown size have no text, so the catalogue's bounds are used. Without bounds there is
  // no count.
  const bounded = model === undefined ? 0 : partTokens({ ...request.size, imageParts: images.unsized }, model);
  if (bounded === null) return undefined;
  const prompt = await countWithRetries(deps, () =>
    countPromptText(deps.tokens, text, { encoding, promptForm }, contextTokens),
  );
  const output = await countTexts(deps, texts, { model });
  if (prompt === undefined || output === undefined) return undefined;
  const media = images.tokens + bounded;
  const usesBound = bounded > 0 || (model === undefined && hasParts(request.size));
  return { prompt: prompt + media, media, output, usesBound };
}

/** Counts the tokens of texts. Returns undefined if the counter stays busy. */
async function countTexts(
  deps: MeterDeps,
  texts: readonly string[],
  { model }: Pick<Metered, "model">,
): Promise<number | undefined> {
  let sum = 0;
  for (const text of texts) {
    const tokens = await countWithRetries(deps, () => deps.tokens.countText(text, (model ?? assumedModel).encoding));
    if (tokens === undefined) return undefined;
    sum += tokens;
  }
  return sum;
}

function reported({ tokens, clamped, doubts, billedRuns }: ChargedUsage, { model }: Metered): Outcome {
  const isUnpriced = tokens.cache_write_1h > 0 && model?.price != null && lacksHourRate(model.price.version);
  const all = isUnpriced ? mergeDoubts(doubts, ["usage_unknown_class"]) : doubts;
  return {
    kind: "reported",
    tokens,
    clamped,
    ...(all !== undefined && { doubts: all }),
    ...(billedRuns && { runs: billedRuns }),
  };
}

/** Returns the output that is not counted as text, and the reasons why the count may differ from the bill. */
function uncountedOutput(
  { uncountable, ranMs }: Answered & { readonly ranMs: number },
  metered: Metered,
  { media, output, usesBound }: { readonly media: number; readonly output: number; readonly usesBound: boolean },
  stated: StatedSoFar | undefined,
  isUnread = false,
): CountedOutput & { readonly doubts: readonly Doubt[] } {
  // A price per request does not depend on the output.
  const hasMedia = !isFlat(metered) && uncountable?.hasMedia === true;
  const unreadable = unreadableTokens(uncountable, metered);
  // Rejected tokens of a prediction are billed but do not appear in the answer.
  const predicted =
    metered.model === undefined || isFlat(metered) ? 0 : predictedBound(metered.request.size, metered.model);
  const unknownTokens = Math.max(unreadable + predicted, isUnread ? unreadTokens(metered) - output : 0);
  // A final usage includes what the model wrote unseen.
  const hidden = stated?.isFinal === true ? 0 : hiddenTokens(metered, ranMs);
  const statesPrompt = stated !== undefined && promptTotal(stated.usage.tokens) > 0;
  const max = outputTokensMax(metered);
  const doubts: Doubt[] = [];
  if (unknownTokens > 0) doubts.push("unknown_output");
  if (hidden > 0 && !isFlat(metered)) doubts.push("time_based");
  // After each call, the model reads the prompt again, with the results.
  if (stated?.isFinal !== true && !isFlat(metered) && callsTools(metered)) doubts.push("hosted_tool");
  if (hasMedia || (usesBound && !statesPrompt && !isFlat(metered))) doubts.push("image_bound");
  return {
    errorFactor: metered.model?.errorFactor ?? unchanged,
    hiddenTokens: hidden,
    ...(media > 0 && { mediaTokens: media }),
    ...(unknownTokens > 0 && { unknownTokens }),
    ...(max !== undefined && { outputTokensMax: max }),
    ...(hasMedia && { hasMedia }),
    ...(stated && { stated: stated.part }),
    doubts: mergeDoubts(doubts, stated?.usage.doubts),
  };
}

/**
 * Returns the doubt about a posted hold that depends on the catalogue's bound for images, audio or files; none for
 * other holds.
 */
function boundedDoubts(metered: Metered): readonly Doubt[] {
  const { size, isUnseen, isUnpriced } = metered.request;
  const isBounded = hasParts(size) || (isUnseen === true && isUnpriced !== true);
  return isBounded && !isFlat(metered) ? ["image_bound"] : [];
}

function hasParts({ imageParts, audioParts, fileParts }: RequestSize): boolean {
  return imageParts + audioParts + fileParts > 0;
}

function callsTools({ billed }: Metered): boolean {
  return billed.some(({ billing }) => Object.values(billing?.calls ?? {}).some((calls) => calls > 0));
}

function isFlat({ model }: Metered): boolean {
  return model?.price?.version.perRequest != null;
}

/** Returns the largest number of tokens that bytes of unknown meaning can have. */
function tokensOf(bytes: number, { model }: Metered): number {
  return scaleTokens(bytes, model?.tokensPerByte ?? unchanged);
}

/** Returns the largest number of output tokens of all choices together; undefined for an unknown model. */
function outputTokensMax({ model, request }: Metered): number | undefined {
  return model === undefined ? undefined : model.outputTokensMax * request.size.choices;
}

/** Returns the largest number of tokens in output that no tokenizer counts. */
function unreadableTokens(uncountable: AnswerOutput["uncountable"], metered: Metered): number {
  if (uncountable === undefined || isFlat(metered)) return 0;
  const { unknownBytes, sealedBytes } = uncountable;
  // A reasoning model's hidden tokens already include its sealed (encrypted) output. Other models' sealed output is
  // base64, and its decoded size is at least that of the text.
  return tokensOf(
    metered.model?.reasons === true ? unknownBytes : unknownBytes + Math.ceil((sealedBytes * 3) / 4),
    metered,
  );
}

/** Returns the largest number of output tokens that a request allows, of which some were not read. */
function unreadTokens(metered: Metered): number {
  return metered.model === undefined || isFlat(metered) ? 0 : outputBound(metered.request.size, metered.model);
}

/** Returns true if the cost cannot be counted from text. A price per request needs no text. */
function isUncountable(metered: Metered): boolean {
  const { model, request } = metered;
  const unit = model?.unit ?? "token";
  return (request.isUnseen === true || unit !== "token") && !isFlat(metered);
}

/**
 * Estimates the tokens that a reasoning model may have produced unseen, from its running time and its speed in the
 * catalogue. Returns 0 for other models.
 */
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
