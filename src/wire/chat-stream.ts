import type { Usage } from "../core/usage.ts";
import { collectChoice } from "./chat-answer.ts";
import { isObject, listOr, objectOr, parseJson, type JsonObject } from "./json.ts";
import { servedModelOf } from "./model-answer.ts";
import { StreamTexts, StreamTranscript, type EventReading, type StreamAnswer, type StreamForm, type TextListener } from "./stream-transcript.ts";
import { readUsageOf } from "./usage.ts";

/** Chunks of choices with deltas or bare texts, whole with a finish reason or `[DONE]`. */
const chatForm: StreamForm = {
  lastEvents: lastUsage,
  reading: (onText) => new ChatReading(onText),
};

/** Remembers a stream of chat completions, or of the older completions. */
export function chatTranscript(onText?: TextListener): StreamTranscript {
  return new StreamTranscript(chatForm, onText);
}

/** Backwards to the last usage. A text on the way was written after it, so that the usage does not cover it. */
function lastUsage(events: readonly string[]): StreamAnswer | undefined {
  let finished = false;
  for (const data of events.toReversed()) {
    if (isDone(data)) {
      finished = true;
      continue;
    }
    const event = parseJson(data);
    if (!isObject(event)) continue;
    finished ||= finishes(event);
    const usage = readUsageOf(event);
    if (usage === undefined) {
      if (hasText(event)) return undefined;
      continue;
    }
    const servedModel = servedModelOf(event);
    if (servedModel === null || (!finished && !isUsageAlone(event))) return undefined;
    return { usage, servedModel, texts: [], finished: true };
  }
  return undefined;
}

function hasText(event: JsonObject): boolean {
  const texts: string[] = [];
  for (const choice of listOr(event["choices"])) collectChoice(choice, "delta", texts);
  return texts.length > 0;
}

/** As OpenAI's clients tell it: no JSON begins like this. */
function isDone(data: string): boolean {
  return data.startsWith("[DONE]");
}

/** Reads every event: texts by choice, usage, finish reasons. */
class ChatReading implements EventReading {
  readonly texts: StreamTexts;
  #usage: Usage | undefined;
  #usageIsFinal = false;
  #servedModel: string | null = null;
  #finished = false;

  constructor(onText: TextListener | undefined) {
    this.texts = new StreamTexts(onText);
  }

  answer(): Omit<StreamAnswer, "texts"> {
    return {
      usage: this.#finished || this.#usageIsFinal ? this.#usage : undefined,
      servedModel: this.#servedModel,
      finished: this.#finished || this.#usageIsFinal,
    };
  }

  event(data: string): void {
    if (isDone(data)) {
      this.#finished = true;
      return;
    }
    const event = parseJson(data);
    if (!isObject(event)) return;
    this.#servedModel ??= servedModelOf(event);
    if (finishes(event)) this.#finished = true;
    const usage = readUsageOf(event);
    const wrote = this.#addTexts(event);
    if (usage !== undefined) {
      this.#usage = usage;
      this.#usageIsFinal = isUsageAlone(event);
    } else if (wrote) {
      // An early usage, as some conversions send one: it does not cover what came after it.
      this.#usage = undefined;
      this.#usageIsFinal = false;
    }
  }

  /** Whether the event carries any text. */
  #addTexts(event: JsonObject): boolean {
    let wrote = false;
    for (const choice of listOr(event["choices"])) {
      const { index } = objectOr(choice);
      const key = typeof index === "number" ? index : 0;
      const pieces: string[] = [];
      collectChoice(choice, "delta", pieces);
      wrote ||= pieces.length > 0;
      this.texts.add(pieces, key, key);
    }
    return wrote;
  }
}

function finishes(event: JsonObject): boolean {
  return listOr(event["choices"]).some((choice) => {
    const reason = objectOr(choice)["finish_reason"];
    return reason !== undefined && reason !== null;
  });
}

/** Whether an event carries no part of the answer. Gemini's own chunks state the usage so far next to their candidates. */
function isUsageAlone(event: JsonObject): boolean {
  return listOr(event["choices"]).length === 0 && listOr(event["candidates"]).length === 0;
}

/** Whether an event is the extra usage chunk that `include_usage` adds: a usage and exactly no choices. */
export function isUsageChunk(data: string): boolean {
  if (!data.includes('"usage"')) return false;
  const event = parseJson(data);
  return isObject(event) && isObject(event["usage"]) && Array.isArray(event["choices"]) && event["choices"].length === 0;
}
