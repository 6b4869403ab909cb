import { isObject } from "../wire/json.ts";
import type { Call } from "./call.ts";
import { type ChatRequest, type Fields } from "./chat-request.ts";
import { digest, randomFrom, type Random } from "./random.ts";
import { numberOf, type Scenario } from "./scenarios.ts";
import { countTokens, prose, tokenPieces, type Piece } from "./text.ts";

export interface Choice {
  readonly index: number;
  /** Text of the choice, or arguments of its tool call, or input of its custom tool. */
  readonly pieces: readonly Piece[];
  readonly tool: { readonly id: string; readonly name: string; readonly isCustom: boolean } | undefined;
  readonly finishReason: "stop" | "length" | "tool_calls";
}

/** Complete answer, before it is written as a stream or as one object. */
export interface Answer {
  readonly id: string;
  /** Unix time in seconds. */
  readonly created: number;
  /** Model named in the answer. */
  readonly model: string;
  readonly billedModel: string;
  readonly choices: readonly Choice[];
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly visibleTokens: number;
  readonly reasoningTokens: number;
  /** Usage in the answer; undefined if the answer has none. */
  readonly usage: Fields | undefined;
}

/** Generates an answer. Its text depends only on the seed and the bytes of the request. */
export function composeAnswer(call: Call, request: ChatRequest): Answer {
  const { shared, scenario } = call;
  const choices = Array.from({ length: request.choices }, (_, index) => composeChoice(call, request, index));
  const visibleTokens = choices.reduce((total, choice) => total + tokensOf(choice.pieces), 0);
  const reasoningTokens = numberOf(scenario, "reasoning") ?? numberOf(scenario, "reasoning-outside") ?? 0;
  const promptTokens = numberOf(scenario, "prompt") ?? request.promptTokens;
  const cachedTokens = Math.min(numberOf(scenario, "cached") ?? 0, promptTokens);
  const figures = { promptTokens, cachedTokens, visibleTokens, reasoningTokens };
  return {
    id: `chatcmpl-${digest(shared.options.seed, "completion", call.number).slice(0, 29)}`,
    created: Math.floor(shared.options.now() / 1000),
    model: scenario.served ?? request.model,
    billedModel: "bill-served" in scenario ? (scenario.served ?? request.model) : request.model,
    choices,
    ...figures,
    usage: usageOf(scenario, figures),
  };
}

export function textOf({ pieces }: Pick<Choice, "pieces">): string {
  return pieces.map(({ text }) => text).join("");
}

export function tokensOf(pieces: readonly Piece[]): number {
  return pieces.reduce((total, piece) => total + piece.tokens, 0);
}

function composeChoice(call: Call, request: ChatRequest, index: number): Choice {
  const { scenario, shared } = call;
  const seed = digest(shared.options.seed, call.seen.body, index);
  const random = randomFrom(seed);
  const limit = request.maxTokens ?? Number.POSITIVE_INFINITY;
  const beyond = numberOf(scenario, "over-limit");
  const most = beyond === undefined ? limit : Math.min(limit, 1_000_000) + beyond;
  if (request.tool !== undefined) {
    const { name, parameters } = request.tool;
    const text =
      parameters === null
        ? prosePieces(scenario, random, naturalLength(scenario, random))
        : tokenPieces(JSON.stringify(argumentsFor(parameters, random)));
    return {
      index,
      pieces: upTo(text, most),
      tool: { id: `call_${seed.slice(0, 24)}`, name, isCustom: parameters === null },
      finishReason: "tool_calls",
    };
  }
  const natural = beyond !== undefined && limit < 1_000_000 ? most : naturalLength(scenario, random);
  const length = Math.min(natural, most);
  const pieces = request.json ? jsonPieces(random, natural) : prosePieces(scenario, random, natural);
  const text = "echo-key" in scenario ? [...echo(call), ...pieces] : pieces;
  return { index, pieces: upTo(text, length), tool: undefined, finishReason: limit < natural ? "length" : "stop" };
}

function naturalLength(scenario: Scenario, random: Random): number {
  return (
    numberOf(scenario, "tokens") ?? ("big" in scenario ? Number.POSITIVE_INFINITY : 20 + Math.floor(random() * 100))
  );
}

function prosePieces(scenario: Scenario, random: Random, length: number): Piece[] {
  const bytes = "tokens" in scenario ? undefined : numberOf(scenario, "big");
  const words = prose(random);
  if (bytes === undefined) return withFullStop(words.take(length - 1).toArray());
  const pieces: Piece[] = [];
  for (let written = 0; written < bytes; written += Buffer.byteLength(pieces.at(-1)?.text ?? "")) {
    pieces.push(words.next().value);
  }
  return pieces;
}

/** Adds a last token: a full stop, or a word if the tokenizer would join the stop to the text before it. */
function withFullStop(pieces: Piece[]): Piece[] {
  const afterWord = /\p{L}$/u.test(pieces.at(-1)?.text ?? "");
  return [...pieces, { text: afterWord ? "." : " indeed", tokens: 1 }];
}

/** Builds `{"answer":"…"}` with `length` tokens, at least 5 and at most 10,000. */
function jsonPieces(random: Random, length: number): Piece[] {
  const frame = ['{"', "answer", '":"'].map((text) => ({ text, tokens: 1 }));
  const words = prose(random)
    .filter(({ text }) => !text.startsWith(".") && /^[ \w]/.test(text))
    .take(Math.max(Math.min(length, 10_000) - 4, 1));
  return [...frame, ...words, { text: '"}', tokens: 1 }];
}

function echo(call: Call): Piece[] {
  const credential = call.head.headers.authorization ?? String(call.head.headers["x-api-key"] ?? "");
  const text = `You called with ${credential}.\n\n`;
  return [{ text, tokens: countTokens(text) }];
}

/** Returns the first pieces, with at most `tokens` tokens in total. */
function upTo(pieces: readonly Piece[], tokens: number): Piece[] {
  const kept: Piece[] = [];
  let left = tokens;
  for (const piece of pieces) {
    if (piece.tokens > left) break;
    left -= piece.tokens;
    kept.push(piece);
  }
  return kept;
}

/** Generates arguments that roughly match the function's schema. */
function argumentsFor(schema: Fields, random: Random): Fields {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  return Object.fromEntries(
    Object.entries(properties).map(([name, property]) => [
      name,
      isObject(property) ? valueFor(property, random) : "value",
    ]),
  );
}

function valueFor(property: Fields, random: Random): unknown {
  const { enum: allowed, type } = property;
  if (Array.isArray(allowed)) return allowed[Math.floor(random() * allowed.length)];
  if (type === "number" || type === "integer") return Math.floor(random() * 100);
  if (type === "boolean") return random() < 0.5;
  if (type === "array") return [];
  if (type === "object") return argumentsFor(property, random);
  return "harbour";
}

function usageOf(
  scenario: Scenario,
  figures: Pick<Answer, "promptTokens" | "cachedTokens" | "visibleTokens" | "reasoningTokens">,
): Fields | undefined {
  const { promptTokens, cachedTokens, visibleTokens, reasoningTokens } = figures;
  return reportedUsage(scenario, {
    prompt_tokens: promptTokens,
    completion_tokens: "reasoning-outside" in scenario ? visibleTokens : visibleTokens + reasoningTokens,
    total_tokens: promptTokens + visibleTokens + reasoningTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: "reasoning-outside" in scenario ? 0 : reasoningTokens,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  });
}

/** Returns the usage that an answer reports under a scenario; undefined if it reports none. */
export function reportedUsage(scenario: Scenario, usage: Fields): Fields | undefined {
  if ("no-usage" in scenario) return undefined;
  if ("empty-usage" in scenario) return {};
  return scenario.usage === undefined ? usage : JSON.parse(scenario.usage);
}
