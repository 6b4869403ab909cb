import type { StatedError } from "../../core/settlement.ts";
import { hasOutputIn, orError, readEventError } from "../error-answer.ts";
import { EventPattern } from "../event-pattern.ts";
import { isObject, listOr, objectOr, parseJson, textOr, type JsonObject } from "../json.ts";
import {
  answeredWith,
  answerTerms,
  latestTerms,
  walkMembers,
  walkOutput,
  type AnswerOutput,
  type AnswerTerms,
  type ModelAnswer,
  type OutputSink,
  type ToolCalls,
} from "../model-answer.ts";
import { messageBlock, messageBlockDelta, messageEnvelope } from "../output-members.ts";
import {
  DeltaSink,
  EnvelopeSink,
  StreamOutput,
  StreamUsage,
  type OutputListener,
  type StreamAnswer,
} from "../stream-output.ts";
import { StreamTranscript, type EventReader } from "../stream-transcript.ts";
import { countOf, readUsage } from "../usage.ts";

/** Reads a whole answer, or the error in its place. */
export function readAnswer(bytes: Buffer): ModelAnswer | undefined {
  const parse = () => parseJson(bytes.toString("utf8"));
  return orError(readMessage(bytes), parse, (body) => hasOutputIn(body, messageEnvelope, { content: messageBlock }));
}

/**
 * Reads a whole message. Returns undefined if it is not a JSON object. Reads the output only if no usage covers it. Never
 * throws.
 */
export function readMessage(bytes: Buffer): ModelAnswer | undefined {
  const body = parseJson(bytes.toString("utf8"));
  if (!isObject(body)) return undefined;
  const { content, usage, stop_reason: stop } = body;
  const terms = termsOf(body);
  const toolCalls = terms.toolCalls ?? callsIn(listOr(content));
  if (stop === refusal && listOr(content).length === 0 && outputIn(objectOr(usage)) === 0)
    return { usage: undefined, ...terms, toolCalls, texts: [], isAnswer: false, error: refused };
  const answered = answeredWith(readUsage(usage, "part"), (sink) => {
    if (!Array.isArray(content)) walkOutput(content, undefined, "content", sink);
    else content.forEach((block, index) => walkBlock(block, `content.${index}`, sink));
    walkMembers(body, messageEnvelope, "", sink);
  });
  return { ...answered, ...terms, toolCalls, isAnswer: Array.isArray(content) };
}

/** Reason why a model stopped: a classifier refused the request. */
const refusal = "refusal";

/** Error in place of a message that was refused before its first output. Anthropic does not bill such a request. */
const refused: StatedError = { kind: "refused", status: 200, reason: "refused_before_output" };

/** Returns the output tokens that a usage states; 0 if it states none that are valid. */
function outputIn({ output_tokens }: JsonObject): number {
  return countOf(output_tokens) ?? 0;
}

/** Reports the output in a block. The model did not write the results of tools. */
function walkBlock(block: unknown, at: string, sink: OutputSink): void {
  const { type, input } = objectOr(block);
  if (textOr(type).endsWith("_result")) return;
  // The first event of a call has an empty input, which its deltas replace.
  const isEmpty = isObject(input) && Object.keys(input).length === 0;
  walkOutput(isEmpty ? { ...objectOr(block), input: null } : block, messageBlock, at, sink);
}

/** Calls of tools of the gateway that have no fee. Their tokens are in the usage. */
const freeCalls: ReadonlySet<string> = new Set([
  "web_fetch_call",
  "tool_search_call",
  "tool_search_tool_regex_call",
  "tool_search_tool_bm25_call",
]);

/** Returns the terms that a message, or an event, states. Leaves out calls that have no fee. */
function termsOf(message: JsonObject): AnswerTerms {
  const terms = answerTerms(message);
  const { toolCalls } = terms;
  if (toolCalls === undefined) return terms;
  return {
    ...terms,
    toolCalls: Object.fromEntries(Object.entries(toolCalls).filter(([kind]) => !freeCalls.has(kind))),
  };
}

/** Returns the type of the calls of a block that calls a tool of the gateway for a fee; undefined for any other block. */
function callOf(block: unknown): string | undefined {
  const { type, name } = objectOr(block);
  if (type !== "server_tool_use") return undefined;
  const call = `${textOr(name)}_call`;
  return freeCalls.has(call) ? undefined : call.replace(/^\w*code_execution_call$/, "code_execution_call");
}

/** Counts the calls among blocks. Used if no usage counts them, because a failed call has no fee. */
function callsIn(blocks: readonly unknown[]): ToolCalls {
  const calls = new Map<string, number>();
  for (const block of blocks) addCall(callOf(block), calls);
  return Object.fromEntries(calls);
}

/** Largest number of kinds of calls that are counted. */
const kindsMax = 32;

function addCall(call: string | undefined, calls: Map<string, number>): void {
  if (call !== undefined && (calls.has(call) || calls.size < kindsMax)) calls.set(call, (calls.get(call) ?? 0) + 1);
}

/** Returns a transcript for a stream of events of the Messages API. */
export function messagesTranscript(listener?: OutputListener): StreamTranscript {
  return new StreamTranscript((to) => new MessagesEventReader(to), listener, true);
}

/** Types of events that state no error. */
const ordinaryEvents: ReadonlySet<unknown> = new Set([
  "message_start",
  "content_block_start",
  "content_block_delta",
  "content_block_stop",
  "message_delta",
  "message_stop",
  "ping",
]);

/**
 * Reads the output, usage and stop reason of every event. The first event states the prompt, and only it states how long
 * caches are kept; the last ones state the output. A stop reason or `message_stop` completes a stream.
 */
class MessagesEventReader implements EventReader {
  readonly output: StreamOutput;
  readonly #listener: OutputListener | undefined;
  readonly #delta: DeltaSink;
  readonly #envelope: OutputSink;
  readonly #pattern = new EventPattern();
  #usage: StreamUsage;
  /** Members of all usages so far. */
  #stated: JsonObject = {};
  /** Output that the first event states. It is an estimate, which the next usage replaces; null after that. */
  #estimate: number | null = null;
  #terms: AnswerTerms = { servedModel: null };
  readonly #calls = new Map<string, number>();
  #hasBlocks = false;
  #finished = false;
  #isRefused = false;
  #error: StatedError | undefined;
  /** Value of `output.amount` when the error arrived. */
  #errorAmount = 0;

  constructor(listener: OutputListener | undefined) {
    this.#listener = listener;
    this.output = new StreamOutput(listener);
    this.#delta = new DeltaSink(this.output);
    this.#envelope = new EnvelopeSink(this.output);
    this.#usage = new StreamUsage(this.output, listener);
  }

  /** Usages of the stream; undefined while only an estimate of the output is stated, which covers no output. */
  get usage(): StreamUsage | undefined {
    return this.#estimate === null ? this.#usage : undefined;
  }

  get isComplete(): boolean {
    return this.#finished;
  }

  answer(): Omit<StreamAnswer, keyof AnswerOutput> {
    const toolCalls = this.#terms.toolCalls ?? Object.fromEntries(this.#calls);
    const terms = { ...this.#terms, toolCalls };
    if (this.#isRefusedBeforeOutput)
      return { usage: undefined, ...terms, finished: true, failed: true, error: refused };
    const stated = this.#statedUsage();
    // Output after an error shows that the stream went on.
    const isLast = this.#errorAmount === this.output.amount;
    const error = stated.usage === undefined && isLast ? this.#error : undefined;
    if (error === undefined) return { ...stated, ...terms, finished: this.#finished };
    return { ...stated, ...terms, finished: true, failed: true, error };
  }

  /** Returns the usage at the end. An estimate is one of the whole output, so no later output is added to it. */
  #statedUsage(): ReturnType<StreamUsage["stated"]> {
    const stated = this.#usage.stated(this.#finished);
    const { soFar } = stated;
    if (this.#estimate === null || soFar === undefined) return stated;
    return { ...stated, soFar: { ...soFar, later: { texts: [] } } };
  }

  get #isRefusedBeforeOutput(): boolean {
    if (!this.#isRefused || this.#hasBlocks || !this.output.isEmpty) return false;
    return this.#estimate !== null || outputIn(this.#stated) === 0;
  }

  event(data: string): boolean {
    if (this.#pattern.read(data, this.output)) return true;
    const { reports } = this.output;
    const event = parseJson(data);
    if (!isObject(event)) {
      walkOutput(event, undefined, "", this.#envelope);
      this.#pattern.parsed(data, undefined);
      return event !== undefined;
    }
    const isOrdinary = this.#object(event);
    this.#pattern.parsed(data, isOrdinary ? this.output.onlyTextAfter(reports) : undefined);
    return true;
  }

  /** Reads an event. Returns true if it states neither terms nor an error. */
  #object(event: JsonObject): boolean {
    const { type } = event;
    const start = type === "message_start" ? objectOr(event["message"]) : {};
    const { stop_reason: stop } = objectOr(event["delta"]);
    if (type === "message_stop" || isStop(stop) || isStop(start["stop_reason"])) {
      this.#finished = true;
      this.#error = undefined;
    }
    this.#isRefused ||= [stop, start["stop_reason"]].includes(refusal);
    const mayStateError = !ordinaryEvents.has(type) || "error" in event;
    const error = mayStateError ? readEventError(event) : undefined;
    // The texts of an error are no output.
    if (error === undefined || hasOutputIn(event, messageEnvelope, { delta: messageBlockDelta })) this.#write(event);
    if (error !== undefined) [this.#error, this.#errorAmount] = [error, this.output.amount];
    const usage = event["usage"] ?? start["usage"];
    if (type === "message_start") this.#terms = latestTerms(this.#terms, termsOf(start));
    if (isObject(usage)) this.#addUsage(usage, type === "message_start");
    return error === undefined && type === "content_block_delta" && usage === undefined;
  }

  #addUsage(usage: JsonObject, isStart: boolean): void {
    if (!isStart) this.#terms = latestTerms(this.#terms, termsOf({ usage }));
    this.#stated = mergedUsage(this.#stated, usage);
    const statesOutput = usage["output_tokens"] !== undefined && usage["output_tokens"] !== null;
    if (isStart && this.#usage.stated(false).soFar === undefined) this.#estimate = outputIn(usage);
    else if (!isStart && statesOutput && this.#estimate !== null) {
      this.#usage = new StreamUsage(this.output, this.#listener);
      this.#estimate = null;
    }
    // A usage that states only the prompt does not cover the output before it.
    const merged = statesOutput ? this.#stated : { ...this.#stated, output_tokens: null };
    this.#usage.add(readUsage(merged, "part"), this.#finished);
  }

  #write(event: JsonObject): void {
    const { type, index, message, delta, content_block: block } = event;
    const key = typeof index === "number" ? index : 0;
    if (type === "content_block_delta") walkOutput(delta, messageBlockDelta, "", this.#delta.at(key, 0));
    else if (delta !== undefined) walkOutput(delta, messageEnvelope, "delta", this.#envelope);
    if (block !== undefined) this.#writeBlock(block, key);
    if (isObject(message)) {
      listOr(message["content"]).forEach((each, at) => this.#writeBlock(each, at));
      walkMembers(message, messageEnvelope, "message", this.#envelope);
    } else if (type !== "error") walkOutput(message, undefined, "message", this.#envelope);
    walkMembers(event, messageEnvelope, "", this.#envelope);
  }

  #writeBlock(block: unknown, key: number): void {
    this.#hasBlocks = true;
    addCall(callOf(block), this.#calls);
    walkBlock(block, "", this.#delta.at(key, 0));
  }
}

function isStop(reason: unknown): boolean {
  return typeof reason === "string" && reason !== "";
}

/** Counts of the prompt. A later usage may leave them out, or state them without the tokens of earlier runs. */
const promptCounts: ReadonlySet<string> = new Set([
  "input_tokens",
  "cache_read_input_tokens",
  "cache_creation_input_tokens",
]);

/** Merges the usages of two events: counts of the prompt at their largest, all others as last stated. */
export function mergedUsage(before: JsonObject, next: JsonObject): JsonObject {
  const merged = new Map(Object.entries(before));
  for (const [name, value] of Object.entries(next)) {
    if (value === null) continue;
    const known = countOf(merged.get(name));
    const count = promptCounts.has(name) ? countOf(value) : undefined;
    merged.set(name, known !== undefined && count !== undefined ? Math.max(known, count) : value);
  }
  const { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: long } = objectOr(merged.get("cache_creation"));
  // Runs after the first event write more than it states. The request shows for how long, unless it is mixed.
  const isOutdated = (countOf(short) ?? 0) < (countOf(merged.get("cache_creation_input_tokens")) ?? 0);
  if (isOutdated && (countOf(long) ?? 0) === 0) merged.delete("cache_creation");
  return Object.fromEntries(merged);
}
