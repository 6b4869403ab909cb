import {
  isObject,
  listOr,
  objectOr,
  omittedText,
  storedText,
  textOr,
  withoutByteOrderMark,
  type JsonObject,
  jsonOf,
} from "./json.ts";
import { toolCallType } from "../core/price.ts";
import type { StatedError } from "../core/settlement.ts";
import { readings } from "../core/several-usages.ts";
import { completionTotal, type Usage } from "../core/usage.ts";
import type { Known, Meaning, Shape } from "./output-members.ts";
import { countOf, eachUsage } from "./usage.ts";

/** Terms of an answer that decide its cost, in addition to its usage. */
export interface AnswerTerms {
  /** Name of the model that answered, cut to the length that Farebox stores; null if the answer names none. */
  readonly servedModel: string | null;
  /** Service tier as stated, which may be null; undefined if the answer states none. */
  readonly serviceTier?: unknown;
  /** Speed and region as the usage states them; undefined or null if it states none. */
  readonly speed?: unknown;
  readonly inferenceGeo?: unknown;
  /** Number of calls of hosted tools by item type, including zeros; undefined if the answer states none. */
  readonly toolCalls?: ToolCalls | undefined;
  /** Other models that earlier events of a stream name; absent if there are none. */
  readonly otherModels?: readonly string[];
}

export type ToolCalls = Readonly<Record<string, number>>;

/** Kind of calls whose number the answer does not state. */
const unstatedCall = "unstated_call";

/** Types of calls that run at the client. Only their tokens are billed. */
export const clientCalls: ReadonlySet<string> = new Set([
  "function_call",
  "custom_tool_call",
  "local_shell_call",
  "apply_patch_call",
  "computer_call",
]);

/**
 * Largest number of kinds of calls that Farebox counts separately in an answer. Calls of further kinds count as
 * `other_call`.
 */
const kindsMax = 32;

const otherCall = "other_call";

/** Largest credible number of calls. A larger number counts as one that cannot be read. */
const callsMax = 1_000_000;

/** Returns the terms that a whole answer, or an event of a stream, states outside its content. */
export function answerTerms(body: JsonObject): AnswerTerms {
  const { model, usage, message, service_tier } = body;
  const isNamed = typeof model === "string" && model !== "" && model !== omittedText;
  // Anthropic's first event contains the terms in the usage of its message.
  const stated = objectOr(usage ?? objectOr(message)["usage"]);
  return {
    servedModel: isNamed ? storedText(model) : null,
    serviceTier: service_tier ?? stated["service_tier"] ?? service_tier,
    speed: stated["speed"],
    inferenceGeo: stated["inference_geo"],
    toolCalls: statedCalls(body),
  };
}

/** Largest number of other models that Farebox keeps. */
const otherModelsMax = 16;

/**
 * Merges the terms of two events of a stream, in their order. Takes the last stated model and tier, because a gateway
 * may find out late which model answers; the largest number of calls; and all other models.
 */
export function latestTerms(before: AnswerTerms, next: AnswerTerms): AnswerTerms {
  const servedModel = next.servedModel ?? before.servedModel;
  const latest = {
    servedModel,
    serviceTier: next.serviceTier ?? before.serviceTier,
    speed: next.speed ?? before.speed,
    inferenceGeo: next.inferenceGeo ?? before.inferenceGeo,
    toolCalls: next.toolCalls === undefined ? before.toolCalls : mergeCalls(before.toolCalls, next.toolCalls),
  };
  const { servedModel: earlier, otherModels: known = [] } = before;
  if (known.length === 0 && (earlier === null || earlier === servedModel)) return latest;
  const isNew = earlier !== null && !known.includes(earlier) && known.length < otherModelsMax;
  const otherModels = (isNew ? [...known, earlier] : known).filter((name) => name !== servedModel);
  return otherModels.length === 0 ? latest : { ...latest, otherModels };
}

/**
 * Returns the calls that the usages of an answer count: in `server_tool_use`, as Anthropic does
 * (`web_search_requests: 2`), or as a number of searches.
 */
function statedCalls(answer: JsonObject): ToolCalls | undefined {
  let stated: ToolCalls | undefined;
  eachUsage(answer, (usage) => {
    stated = mergeCalls(stated, callsCountedIn(usage));
  });
  return stated;
}

/**
 * Returns the calls that one usage counts; undefined if it counts none. Some gateways state searches in its details.
 */
function callsCountedIn(usage: JsonObject): ToolCalls | undefined {
  const { server_tool_use, serverToolUse, prompt_tokens_details, completion_tokens_details } = usage;
  const tools = server_tool_use ?? serverToolUse;
  return mergeCalls(
    isObject(tools) ? countedCalls(tools) : undefined,
    searchesIn(usage),
    isObject(prompt_tokens_details) ? searchesIn(prompt_tokens_details) : undefined,
    isObject(completion_tokens_details) ? searchesIn(completion_tokens_details) : undefined,
  );
}

function searchesIn(object: JsonObject): ToolCalls | undefined {
  const { num_search_queries, numSearchQueries, web_search_requests, webSearchRequests } = object;
  const stated = num_search_queries ?? numSearchQueries ?? web_search_requests ?? webSearchRequests;
  return stated === undefined || stated === null ? undefined : countedCalls({ web_search_requests: stated });
}

/** Returns the calls that an object counts by tool. A number that cannot be read counts as one call. */
function countedCalls(tools: JsonObject): ToolCalls {
  const calls = new Map<string, number>();
  for (const [name, stated] of Object.entries(tools)) {
    if (stated === null) continue;
    const count = countOf(stated, callsMax);
    if (count !== undefined) addCalls(calls, callKind(name), count);
    else addCalls(calls, unstatedCall, 1);
  }
  return Object.fromEntries(calls);
}

/** Returns the type of the calls that a member counts: "web_search_call" for `web_search_requests`. */
function callKind(name: string): string {
  return name
    .replace(/([a-z])([A-Z])/g, "$1_$2")
    .toLowerCase()
    .replace(/_requests$/, "_call");
}

/** Counts the calls of hosted tools among the items of an output; undefined if the output is not a list. */
export function callsIn(output: unknown): ToolCalls | undefined {
  if (!Array.isArray(output)) return undefined;
  const calls = new Map<string, number>();
  for (const item of output) {
    const type = hostedCall(item);
    if (type !== null) addCalls(calls, type, 1);
  }
  return Object.fromEntries(calls);
}

/** Returns the type of an item that is a call of a hosted tool; null for any other item. */
export function hostedCall(item: unknown): string | null {
  const { type, action, environment } = objectOr(item);
  if (typeof type !== "string" || !type.endsWith("_call") || clientCalls.has(type)) return null;
  // Opening a page that a search found is not charged as a search.
  if (type === "web_search_call" && pageActions.has(textOr(objectOr(action)["type"]))) return null;
  if (type === "shell_call" && objectOr(environment)["type"] === "local") return null;
  return type;
}

const pageActions: ReadonlySet<string> = new Set(["open_page", "find_in_page"]);

function addCalls(calls: Map<string, number>, type: string, count: number): void {
  const isSeparate = toolCallType.test(type) && (calls.has(type) || calls.size < kindsMax);
  const kind = isSeparate ? type : otherCall;
  calls.set(kind, (calls.get(kind) ?? 0) + count);
}

/** Returns the largest count of each kind of call; undefined if no argument states any. */
export function mergeCalls(...stated: readonly (ToolCalls | undefined)[]): ToolCalls | undefined {
  return stated.reduce((before, next) => {
    if (before === undefined || next === undefined) return before ?? next;
    const more = Object.entries(next).filter(([kind, count]) => count > (before[kind] ?? -1));
    if (more.length === 0) return before;
    const all = new Map(Object.entries(before));
    for (const [kind, count] of more) {
      const kept = all.has(kind) || all.size < kindsMax ? kind : otherCall;
      all.set(kept, Math.max(all.get(kept) ?? 0, count));
    }
    return Object.fromEntries(all);
  }, undefined);
}

/** Returns true if a choice of a chat cites pages, which shows that the gateway searched the web. */
export function citesPages(choice: unknown, where: "message" | "delta"): boolean {
  return listOr(objectOr(objectOr(choice)[where])["annotations"]).some((note) => objectOr(note)["type"] === citation);
}

const citation = "url_citation";

/** Adds an `unstated_call` if the answer cites pages but states no number of calls. */
export function withCitations(terms: AnswerTerms, cites: boolean): AnswerTerms {
  return cites && terms.toolCalls === undefined ? { ...terms, toolCalls: { [unstatedCall]: 1 } } : terms;
}

/** Usage that does not cover the whole answer. */
export interface UsageSoFar {
  readonly usage: Usage;
  /** Output that the usage does not cover. */
  readonly later: AnswerOutput;
  /** True if the answer was complete when it stated the usage, so that no unseen output followed. */
  readonly isFinal: boolean;
}

/** Usage and output of an answer. The texts may be left out if there is a usage. */
export interface Answered extends AnswerOutput {
  /** Usage that covers the whole answer; undefined if the gateway reported none. */
  readonly usage: Usage | undefined;
  /** Latest usage, if it does not cover the whole answer. */
  readonly soFar?: UsageSoFar | undefined;
}

/** Returns true if an answer has neither output nor usage. */
export function isEmpty({ usage, soFar, texts, uncountable }: Answered): boolean {
  return usage === undefined && soFar === undefined && texts.length === 0 && uncountable === undefined;
}

/** Content of an answer that matters for its price. */
export interface ModelAnswer extends Answered, AnswerTerms {
  /** True if the body is an answer of the endpoint; false for an error page. */
  readonly isAnswer: boolean;
  /** Error that the body states in place of output and usage; absent for any other body. */
  readonly error?: StatedError;
}

/** Reads the decoded bytes of an answer as they arrive, and returns the content at the end. */
export interface AnswerReader {
  push(bytes: Buffer): void;
  /** Returns the content; undefined if the answer is not a JSON object or is too large. Never throws. */
  end(): ModelAnswer | undefined;
}

/** Largest answer that Farebox keeps for metering, in bytes. A larger answer is settled without its usage. */
const keptBytesMax = 16 * 1024 * 1024;

/** Keeps the bytes of an answer. Discards them if there are more than `keptBytesMax`. */
export class KeptBytes {
  #chunks: Buffer[] = [];
  #bytes = 0;

  push(bytes: Buffer): void {
    this.#bytes += bytes.length;
    if (this.#bytes <= keptBytesMax) this.#chunks.push(bytes);
    else this.#chunks = [];
  }

  /** Returns all bytes; undefined if there were too many. */
  whole(): Buffer | undefined {
    if (this.#bytes > keptBytesMax) return undefined;
    return this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks);
  }
}

/** Returns a reader that keeps the whole answer and reads it after the last byte. */
export function bufferedReader(read: (bytes: Buffer) => ModelAnswer | undefined): AnswerReader {
  const kept = new KeptBytes();
  return {
    push: (bytes) => kept.push(bytes),
    end() {
      const bytes = kept.whole();
      return bytes === undefined ? undefined : read(withoutByteOrderMark(bytes));
    },
  };
}

/** Output that no tokenizer counts. */
interface Uncountable {
  /** Bytes of unknown meaning. */
  readonly unknownBytes: number;
  /** Bytes of encrypted reasoning and signatures. */
  readonly sealedBytes: number;
  /** True if the output contains images or sound. */
  readonly hasMedia: boolean;
}

export const nothingUncountable: Uncountable = { unknownBytes: 0, sealedBytes: 0, hasMedia: false };

/** Collects the output of a whole answer. */
class CollectedOutput implements OutputSink {
  readonly texts: string[] = [];
  /** True if there is no output, except short unknown members next to choices and items. */
  isEmpty = true;
  readonly #uncountable = { ...nothingUncountable };

  text(text: string): void {
    this.texts.push(text);
    this.isEmpty = false;
  }

  unknown(bytes: number, at: string): void {
    this.#uncountable.unknownBytes += bytes;
    if (bytes > constantBytesMax || (bytes > 0 && inOutput.test(at))) this.isEmpty = false;
  }

  sealed(bytes: number): void {
    this.#uncountable.sealedBytes += bytes;
    this.isEmpty = false;
  }

  media(): void {
    this.#uncountable.hasMedia = true;
    this.isEmpty = false;
  }

  get output(): AnswerOutput {
    return outputOf(this.texts, { ...this.#uncountable });
  }
}

/**
 * Largest unknown member next to choices and items that can be a constant, in bytes. A constant is a name or address
 * that each answer or event repeats.
 */
export const constantBytesMax = 256;

/** Matches the path of a member in a choice or an item. */
const inOutput = /^(?:choices|output)/;

/** Output of an answer. `uncountable` is absent if the output is only text. */
export interface AnswerOutput {
  readonly texts: readonly string[];
  readonly uncountable?: Uncountable;
}

export function outputOf(texts: readonly string[], uncountable: Uncountable): AnswerOutput {
  const { unknownBytes, sealedBytes, hasMedia } = uncountable;
  return unknownBytes > 0 || sealedBytes > 0 || hasMedia ? { texts, uncountable } : { texts };
}

/**
 * Returns true if a usage can belong to an answer with output. Without completion tokens, it states only the prompt of
 * such an answer.
 */
export function countsOutput(usage: Usage): boolean {
  return usage.unit === "second" || readings(usage).some(({ tokens }) => completionTotal(tokens) > 0);
}

/**
 * Returns the usage of a whole answer, and its output unless the usage covers it. `report` reports the output to a
 * sink. A usage in seconds does not cover a text.
 */
export function answeredWith(usage: Usage | undefined, report: (sink: OutputSink) => void): Answered {
  const isTokens = usage !== undefined && (usage.unit ?? "token") === "token";
  const isPart = usage?.unstated !== undefined;
  if (isTokens && !isPart && countsOutput(usage)) return { usage, texts: [] };
  const collected = new CollectedOutput();
  report(collected);
  const { output } = collected;
  if (!isTokens || (!isPart && collected.isEmpty)) return { usage, ...output };
  const isFinal = isPart && countsOutput(usage);
  return { usage: undefined, soFar: { usage, later: isFinal ? { texts: [] } : output, isFinal }, ...output };
}

/** Receives the output of an answer. `at` is the path of the member, with dots between names. */
export interface OutputSink {
  text(text: string, at: string): void;
  /** Called for an unknown member, or for a member of an unexpected type. */
  unknown(bytes: number, at: string, value: unknown): void;
  sealed(bytes: number, at: string): void;
  media(): void;
}

/** Reports the output in a value, according to the meaning of its member. For a list, reports each element. */
export function walkOutput(value: unknown, known: Known | undefined, at: string, sink: OutputSink): void {
  if (known === "free" || value === null || value === undefined) return;
  if (typeof value === "string") {
    if (value !== "") walkString(value, typeof known === "object" ? known.string : known, at, sink);
  } else if (typeof value === "object") {
    if (known === undefined) sink.unknown(bytesOf(value), at, value);
    else if (known === "json") walkJson(value, at, sink);
    else if (Array.isArray(value)) walkList(value, known, at, sink);
    else if (typeof known === "object") walkMembers(value as JsonObject, known, at, sink);
    else if (known === "media") sink.media();
    else if (known === "sealed") sink.sealed(bytesOf(value), at);
    else sink.unknown(bytesOf(value), at, value);
  }
}

/** Reports the members of an object. */
export function walkMembers(object: JsonObject, { members, copies }: Shape, at: string, sink: OutputSink): void {
  let copyFilter: CopyFilter | undefined;
  for (const name in object) {
    const value = object[name];
    const known = members[name];
    if (known === "free" || value === null || value === "") continue;
    const path = at === "" ? name : `${at}.${name}`;
    if (copies?.has(name) === true) (copyFilter ??= new CopyFilter(sink)).member(value, known, path);
    else walkOutput(value, known, path, sink);
  }
}

function walkString(value: string, meaning: Meaning | undefined, at: string, sink: OutputSink): void {
  switch (meaning) {
    case "text":
    case "json":
      return sink.text(value, at);
    case "media":
      return sink.media();
    case "sealed":
      return sink.sealed(Buffer.byteLength(value), at);
    case "free":
      return;
    case undefined:
      return sink.unknown(Buffer.byteLength(value), at, value);
  }
}

/**
 * Reports the elements of a list. A list in a list counts as unknown, because deep nesting could overflow the stack.
 */
function walkList(list: readonly unknown[], known: Known, at: string, sink: OutputSink): void {
  list.forEach((element, index) =>
    walkOutput(element, Array.isArray(element) ? undefined : known, `${at}.${index}`, sink),
  );
}

/** Reports an object as its JSON text. */
function walkJson(value: object, at: string, sink: OutputSink): void {
  const text = jsonOf(value);
  if (text === undefined) sink.unknown(bytesOf(value), at, value);
  else sink.text(text, at);
}

/** Returns the number of bytes of all strings, member names and numbers in a value; 0 if it contains no string. */
function bytesOf(value: unknown): number {
  let strings = 0;
  let others = 0;
  const open = [value];
  for (let next = open.pop(); open.length > 0 || next !== undefined; next = open.pop()) {
    if (typeof next === "string") strings += Buffer.byteLength(next);
    else if (typeof next === "number") others += String(next).length;
    else if (Array.isArray(next)) for (const element of next) open.push(element);
    else if (isObject(next)) {
      for (const name in next) {
        others += Buffer.byteLength(name);
        open.push(next[name]);
      }
    }
  }
  return strings === 0 ? 0 : strings + others;
}

/**
 * Reports members that may repeat each other. Ignores a member whose joined text was already reported. If several
 * members contain a text, reports it as many times as it occurs in the member with the most occurrences.
 */
class CopyFilter {
  readonly #sink: OutputSink;
  readonly #reported = new Map<string, number>();
  readonly #wholes = new Set<string>();

  constructor(sink: OutputSink) {
    this.#sink = sink;
  }

  member(value: unknown, known: Known | undefined, at: string): void {
    const sink = this.#sink;
    const texts: [string, string][] = [];
    walkOutput(value, known, at, {
      text: (text, path) => void texts.push([text, path]),
      unknown: (bytes, path, found) => sink.unknown(bytes, path, found),
      sealed: (bytes, path) => sink.sealed(bytes, path),
      media: () => sink.media(),
    });
    const whole = texts.length === 1 ? (texts[0]?.[0] ?? "") : texts.map(([text]) => text).join("");
    if (texts.length === 0 || this.#wholes.has(whole)) return;
    this.#wholes.add(whole);
    const occurrences = new Map<string, number>();
    for (const [text, path] of texts) {
      const times = (occurrences.get(text) ?? 0) + 1;
      occurrences.set(text, times);
      if (times <= (this.#reported.get(text) ?? 0)) continue;
      this.#reported.set(text, times);
      sink.text(text, path);
    }
  }
}
