import type { Usage } from "../core/usage.ts";
import { answerTerms, citesPages, withCitations, type AnswerTerms, type ToolCalls } from "./model-answer.ts";
import { isObject, listOr, objectOr, parseJson, type JsonObject } from "./json.ts";
import { chatAnswer, chunkChoice, message } from "./output-members.ts";
import { CollectedOutput, walkMembers, walkOutput, type OutputSink, type Written } from "./output-walk.ts";
import {
  DeltaSink,
  EnvelopeSink,
  StreamOutput,
  StreamTranscript,
  type EventReader,
  type OutputListener,
  type StreamAnswer,
  type StreamForm,
} from "./stream-output.ts";
import { readUsageOf } from "./usage.ts";

/** Form of a chat stream: chunks of choices with deltas or plain texts. A finish reason or `[DONE]` completes it. */
const chatForm: StreamForm = {
  lastEvents: lastUsage,
  reading: (listener) => new ChatEventReader(listener),
};

/** Returns a transcript for a stream of chat completions, or of the older completions. */
export function chatTranscript(listener?: OutputListener, unreadBytes?: number): StreamTranscript {
  return new StreamTranscript(chatForm, listener, unreadBytes);
}

/** Searches backwards for the last usage. Returns undefined if output follows it, which the usage does not cover. */
function lastUsage(events: readonly string[]): StreamAnswer | undefined {
  let finished = false;
  // Terms of the last event, if it follows the usage. The caller searches the bytes for terms in earlier events.
  let later: AnswerTerms | undefined;
  for (const data of events.toReversed()) {
    if (isDone(data)) {
      finished = true;
      continue;
    }
    const event = parseJson(data);
    if (!isObject(event)) return undefined;
    finished ||= finishes(event);
    const usage = readUsageOf(event);
    if (usage === undefined) {
      if (writes(event)) return undefined;
      later ??= answerTerms(event);
      continue;
    }
    const { servedModel, serviceTier, toolCalls } = answerTerms(event);
    if (servedModel === null || (!finished && !isUsageAlone(event))) return undefined;
    return { usage, servedModel, serviceTier: later?.serviceTier ?? serviceTier, toolCalls, texts: [], finished: true };
  }
  return undefined;
}

function writes(event: JsonObject): boolean {
  const written = new CollectedOutput();
  walkOutput(event["choices"], chunkChoice, "", written);
  walkMembers(event, chatAnswer, "", written);
  const { texts, uncountable } = written.found;
  return (
    texts.length > 0 ||
    uncountable !== undefined ||
    listOr(event["choices"]).some((choice) => objectOr(choice)["message"] != null)
  );
}

/** Returns true for the end of a stream, as OpenAI's clients recognize it. No JSON begins like this. */
function isDone(data: string): boolean {
  return data.startsWith("[DONE]");
}

/** Reads the output by choice, the usage and the finish reasons of every event. */
class ChatEventReader implements EventReader {
  readonly output: StreamOutput;
  readonly #delta: DeltaSink;
  readonly #envelope: OutputSink;
  #usage: Usage | undefined;
  #usageIsFinal = false;
  /** Amount of output before the usage. The usage does not cover later output. */
  #usageAmount = 0;
  #servedModel: string | null = null;
  #serviceTier: unknown;
  #toolCalls: ToolCalls | undefined;
  #citesPages = false;
  #finished = false;

  constructor(listener: OutputListener | undefined) {
    this.output = new StreamOutput(listener);
    this.#delta = new DeltaSink(this.output);
    this.#envelope = new EnvelopeSink(this.output);
  }

  answer(): Omit<StreamAnswer, keyof Written> {
    const covered = this.#usageAmount === this.output.amount ? this.#usage : undefined;
    const finished = this.#finished || (covered !== undefined && this.#usageIsFinal);
    const terms = withCitations(
      { servedModel: this.#servedModel, serviceTier: this.#serviceTier, toolCalls: this.#toolCalls },
      this.#citesPages,
    );
    return { usage: finished ? covered : undefined, ...terms, finished };
  }

  event(data: string): boolean {
    if (isDone(data)) {
      this.#finished = true;
      return true;
    }
    const event = parseJson(data);
    if (!isObject(event)) {
      walkOutput(event, undefined, "", this.#envelope);
      return event !== undefined;
    }
    this.#takeTerms(event);
    if (finishes(event)) this.#finished = true;
    const usage = readUsageOf(event);
    this.#write(event);
    if (usage === undefined) return true;
    this.#usage = usage;
    this.#usageAmount = this.output.amount;
    this.#usageIsFinal = isUsageAlone(event);
    return true;
  }

  /** Keeps the last stated value of each term, because a gateway may learn late which model answers. */
  #takeTerms(event: JsonObject): void {
    const { servedModel, serviceTier, toolCalls } = answerTerms(event);
    this.#servedModel = servedModel ?? this.#servedModel;
    this.#serviceTier = serviceTier ?? this.#serviceTier;
    this.#toolCalls = toolCalls ?? this.#toolCalls;
    this.#citesPages ||= listOr(event["choices"]).some((choice) => citesPages(choice, "delta"));
  }

  #write(event: JsonObject): void {
    const { choices } = event;
    if (!Array.isArray(choices)) walkOutput(choices, undefined, "choices", this.#envelope);
    else for (const choice of choices) this.#writeChoice(choice);
    walkMembers(event, chatAnswer, "", this.#envelope);
  }

  #writeChoice(choice: unknown): void {
    const { index, message: whole } = objectOr(choice);
    const key = typeof index === "number" ? index : 0;
    walkOutput(choice, chunkChoice, "", this.#delta.at(key, key));
    if (whole !== undefined && whole !== null) this.#repeatMessage(whole, key);
  }

  /** Adds the new part of a message. Some gateways repeat the whole text of a choice in each chunk, or in the last chunk. */
  #repeatMessage(whole: unknown, key: number): void {
    const { output } = this;
    let text = "";
    walkOutput(whole, message, `${key}`, {
      text: (piece) => void (text += piece),
      unknown: (bytes, at) => output.repeated("unknown", bytes, at),
      sealed: (bytes, at) => output.repeated("sealed", bytes, at),
      media: () => output.media(),
    });
    if (text !== "") output.wholeText(text, key, key, true);
  }
}

function finishes(event: JsonObject): boolean {
  return listOr(event["choices"]).some((choice) => {
    const reason = objectOr(choice)["finish_reason"];
    return reason !== undefined && reason !== null;
  });
}

/**
 * Returns true if an event has no part of the answer. Gemini's chunks state the usage so far next to their candidates.
 */
function isUsageAlone(event: JsonObject): boolean {
  return listOr(event["choices"]).length === 0 && listOr(event["candidates"]).length === 0;
}

/** Returns true for the extra chunk of `include_usage`, which has a usage and an empty list of choices. */
export function isUsageChunk(data: string): boolean {
  if (!data.includes('"usage"')) return false;
  const event = parseJson(data);
  return (
    isObject(event) && isObject(event["usage"]) && Array.isArray(event["choices"]) && event["choices"].length === 0
  );
}
