import {
  answerTerms,
  citesPages,
  latestTerms,
  withCitations,
  type AnswerTerms,
  type AnswerOutput,
  walkMembers,
  walkOutput,
  type OutputSink,
} from "./model-answer.ts";
import { EventPattern } from "./event-pattern.ts";
import { isObject, listOr, objectOr, parseJson, type JsonObject } from "./json.ts";
import { chatAnswer, chatChoice, chunkChoice, message } from "./output-members.ts";
import {
  DeltaSink,
  EnvelopeSink,
  StreamOutput,
  StreamUsage,
  type OutputListener,
  type StreamAnswer,
} from "./stream-output.ts";
import { StreamTranscript, type EventReader } from "./stream-transcript.ts";
import type { StatedError } from "../core/settlement.ts";
import { hasOutputIn, readEventError } from "./error-answer.ts";
import { readUsagesOf } from "./usage.ts";

/** Returns a transcript for a stream of chat completions, or of the older completions. */
export function chatTranscript(listener?: OutputListener): StreamTranscript {
  return new StreamTranscript((to) => new ChatEventReader(to), listener);
}

/** Returns true for `[DONE]`, the event that ends a stream. OpenAI's clients check only the beginning of its data. */
function isDone(data: string): boolean {
  return data.startsWith("[DONE]");
}

/**
 * Reads the output, usage and finish reasons of every event. Keeps the output separate by choice. A finish reason or
 * `[DONE]` completes a stream.
 */
class ChatEventReader implements EventReader {
  readonly output: StreamOutput;
  readonly #delta: DeltaSink;
  readonly #envelope: OutputSink;
  readonly usage: StreamUsage;
  /** True if the latest usage came in an event without output, as in the extra chunk of `include_usage`. */
  #usageIsAlone = false;
  #terms: AnswerTerms = { servedModel: null };
  #citesPages = false;
  #finished = false;
  #error: StatedError | undefined;
  /** Value of `output.amount` when the error arrived. */
  #errorAmount = 0;
  readonly #pattern = new EventPattern();

  constructor(listener: OutputListener | undefined) {
    this.output = new StreamOutput(listener);
    this.#delta = new DeltaSink(this.output);
    this.#envelope = new EnvelopeSink(this.output);
    this.usage = new StreamUsage(this.output, listener);
  }

  get isComplete(): boolean {
    return this.#finished;
  }

  answer(): Omit<StreamAnswer, keyof AnswerOutput> {
    const isWhole = this.#finished || (this.#usageIsAlone && this.usage.coversAll);
    const stated = this.usage.stated(isWhole);
    // Output after an error shows that the stream went on.
    const isLast = this.#errorAmount === this.output.amount;
    const error = stated.usage === undefined && isLast ? this.#error : undefined;
    const terms = withCitations(this.#terms, this.#citesPages);
    if (error === undefined) return { ...stated, ...terms, finished: isWhole };
    return { ...stated, ...terms, finished: true, failed: true, error };
  }

  event(data: string): boolean {
    if (this.#pattern.read(data, this.output)) return true;
    const { reports } = this.output;
    const isOrdinary = this.#parse(data);
    this.#pattern.parsed(data, isOrdinary === true ? this.output.onlyTextAfter(reports) : undefined);
    return isOrdinary !== undefined;
  }

  /** Parses an event. Returns true if it states neither usage nor an error, and undefined if it cannot be parsed. */
  #parse(data: string): boolean | undefined {
    if (isDone(data)) {
      this.#finished = true;
      return false;
    }
    const event = parseJson(data);
    if (isObject(event)) return this.#object(event);
    walkOutput(event, undefined, "", this.#envelope);
    return event === undefined ? undefined : false;
  }

  #object(event: JsonObject): boolean {
    this.#terms = latestTerms(this.#terms, answerTerms(event));
    this.#citesPages ||= listOr(event["choices"]).some((choice) => citesPages(choice, "delta"));
    if (finishes(event)) {
      this.#finished = true;
      this.#error = undefined;
    }
    const { whole, choices } = readUsagesOf(event, "part");
    const error = mayStateError(event) ? readEventError(event) : undefined;
    // The texts of an error are no output.
    if (error === undefined || hasOutputIn(event, chatAnswer, { choices: chatChoice })) this.#write(event);
    if (error !== undefined) [this.#error, this.#errorAmount] = [error, this.output.amount];
    if (whole === undefined && choices.size === 0) return error === undefined;
    const ofChoices = [...choices].map(([choice, usage]) => [indexOf(choice), usage] as const);
    this.usage.add(whole, this.#finished, ofChoices);
    this.#usageIsAlone = isUsageAlone(event);
    return false;
  }

  #write(event: JsonObject): void {
    const { choices } = event;
    if (!Array.isArray(choices)) walkOutput(choices, undefined, "choices", this.#envelope);
    else for (const choice of choices) this.#writeChoice(choice);
    walkMembers(event, chatAnswer, "", this.#envelope);
  }

  #writeChoice(choice: unknown): void {
    const { message: whole } = objectOr(choice);
    const key = indexOf(choice);
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

/** Returns the index of a choice; 0 if it states none. */
function indexOf(choice: unknown): number {
  const { index } = objectOr(choice);
  return typeof index === "number" ? index : 0;
}

function finishes(event: JsonObject): boolean {
  return (
    listOr(event["choices"]).some((choice) => isFinish(objectOr(choice)["finish_reason"])) ||
    listOr(event["candidates"]).some((candidate) => isFinish(objectOr(candidate)["finishReason"]))
  );
}

/** Returns false for an ordinary chunk, which has choices without an error. */
function mayStateError(event: JsonObject): boolean {
  const choices = listOr(event["choices"]);
  return (
    choices.length === 0 ||
    "error" in event ||
    choices.some((choice) => isObject(choice) && ("error" in choice || choice["finish_reason"] === "error"))
  );
}

/** Returns true for a word that ends a choice. Some gateways state an empty or unset reason in earlier chunks. */
function isFinish(reason: unknown): boolean {
  return typeof reason === "string" && !unfinished.has(reason.trim().toLowerCase());
}

const unfinished: ReadonlySet<string> = new Set(["", "null", "finish_reason_unspecified"]);

/** Returns true if an event has no choices. A usage next to choices, as in Gemini's chunks, may not be final. */
function isUsageAlone(event: JsonObject): boolean {
  return listOr(event["choices"]).length === 0 && listOr(event["candidates"]).length === 0;
}
