import type { Usage } from "../core/usage.ts";
import {
  answerTerms,
  citesPages,
  latestTerms,
  withCitations,
  type AnswerTerms,
  CollectedOutput,
  type Written,
  walkMembers,
  walkOutput,
  type OutputSink,
} from "./model-answer.ts";
import { isObject, listOr, objectOr, parseJson, type JsonObject } from "./json.ts";
import { chatAnswer, chunkChoice, message } from "./output-members.ts";
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

/**
 * Reads chat streams, whose chunks contain choices with deltas or plain texts. A finish reason or `[DONE]` completes a
 * stream.
 */
const chatForm: StreamForm = {
  lastEvents: lastUsage,
  reading: (listener) => new ChatEventReader(listener),
};

/** Returns a transcript for a stream of chat completions, or of the older completions. */
export function chatTranscript(listener?: OutputListener): StreamTranscript {
  return new StreamTranscript(chatForm, listener);
}

/**
 * Returns the content that the last events state, with the last usage among them. Returns undefined if they do not
 * state everything, for example if output follows the usage, which does not cover such output.
 */
function lastUsage(events: readonly string[]): StreamAnswer | undefined {
  let finished = false;
  // Terms in the events after the usage. The caller searches the bytes for terms in earlier events.
  let later: AnswerTerms = { servedModel: null };
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
      if (hasOutput(event)) return undefined;
      later = latestTerms(answerTerms(event), later);
      continue;
    }
    const terms = answerTerms(event);
    if (terms.servedModel === null || (!finished && !isUsageAlone(event))) return undefined;
    return { usage, ...latestTerms(terms, later), texts: [], finished: true };
  }
  return undefined;
}

function hasOutput(event: JsonObject): boolean {
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

/** Returns true for `[DONE]`, the event that ends a stream. OpenAI's clients check only the beginning of its data. */
function isDone(data: string): boolean {
  return data.startsWith("[DONE]");
}

/** Reads the output, usage and finish reasons of every event. Keeps the output separate by choice. */
class ChatEventReader implements EventReader {
  readonly output: StreamOutput;
  readonly #delta: DeltaSink;
  readonly #envelope: OutputSink;
  #usage: Usage | undefined;
  #usageIsFinal = false;
  /** Value of `output.amount` when the usage arrived. The usage does not cover later output. */
  #usageAmount = 0;
  #terms: AnswerTerms = { servedModel: null };
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
    return { usage: finished ? covered : undefined, ...withCitations(this.#terms, this.#citesPages), finished };
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
    this.#terms = latestTerms(this.#terms, answerTerms(event));
    this.#citesPages ||= listOr(event["choices"]).some((choice) => citesPages(choice, "delta"));
    if (finishes(event)) this.#finished = true;
    const usage = readUsageOf(event);
    this.#write(event);
    if (usage === undefined) return true;
    this.#usage = usage;
    this.#usageAmount = this.output.amount;
    this.#usageIsFinal = isUsageAlone(event);
    return true;
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

  /**
   * Adds the text of a message that earlier chunks do not contain. Some gateways repeat the whole text of a choice in
   * each chunk, or in the last chunk.
   */
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
    // Some gateways state an empty reason in each chunk before the last.
    const reason = objectOr(choice)["finish_reason"];
    return reason !== undefined && reason !== null && reason !== "";
  });
}

/** Returns true if an event contains no output. A usage next to output, as in Gemini's chunks, may not be final. */
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
