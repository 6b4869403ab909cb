import { laterUsage } from "../../core/several-usages.ts";
import {
  answerTerms,
  callsIn,
  hostedCall,
  latestTerms,
  mergeCalls,
  type AnswerTerms,
  type ModelAnswer,
  answeredWith,
  type AnswerOutput,
  walkMembers,
  walkOutput,
  type OutputSink,
} from "../model-answer.ts";
import { isObject, listOr, objectOr, parseJson, textOr, type JsonObject } from "../json.ts";
import { everyEvent, response, responseEvents, responseItem, type EventMember, type Known } from "../output-members.ts";
import {
  DeltaSink,
  EnvelopeSink,
  StreamOutput,
  StreamUsage,
  type OutputListener,
  type StreamAnswer,
} from "../stream-output.ts";
import { StreamTranscript, type EventReader } from "../stream-transcript.ts";
import type { StatedError } from "../../core/settlement.ts";
import { hasOutputIn, readEventError } from "../error-answer.ts";
import { readUsageOf } from "../usage.ts";

/**
 * Reads a whole answer of the Responses API. Returns undefined if the answer is not a JSON object. Reads the output
 * only if no usage covers it. Never throws.
 */
export function readResponse(bytes: Buffer): ModelAnswer | undefined {
  const body = parseJson(bytes.toString("utf8"));
  if (!isObject(body)) return undefined;
  const answered = answeredWith(readUsageOf(body, "part"), (sink) => {
    walkOutput(body["output"], responseItem, "output", sink);
    walkMembers(body, response, "", sink);
    if (listOr(body["output"]).length === 0) walkOutput(body["output_text"], "text", "output_text", sink);
  });
  return {
    ...answered,
    ...termsOf(body),
    // A response that has not finished does not show its cost.
    isAnswer: Array.isArray(body["output"]) && !unfinished.has(textOr(body["status"])),
  };
}

const unfinished: ReadonlySet<string> = new Set(["queued", "in_progress"]);

/** Returns a transcript for a stream of the Responses API. The last event contains the whole response and its usage. */
export function responsesTranscript(listener?: OutputListener): StreamTranscript {
  return new StreamTranscript((to) => new ResponsesEventReader(to), listener);
}

/** Types of the events that end a response. */
const endings: ReadonlyMap<string, "whole" | "failed"> = new Map([
  ["response.completed", "whole"],
  ["response.incomplete", "whole"],
  ["response.cancelled", "failed"],
  ["response.failed", "failed"],
]);

/** Returns false for the type of an event that reports progress. */
function mayStateError(type: string): boolean {
  return !type.startsWith("response.") || endings.get(type) === "failed";
}

/** Members of events that contain output. */
const outputMembers = { output_text: "text", delta: "text", text: "text", response } as const;

class ResponsesEventReader implements EventReader {
  readonly output: StreamOutput;
  readonly #items: Items;
  readonly #delta: DeltaSink;
  readonly #envelope: OutputSink;
  #terms: AnswerTerms = { servedModel: null };
  /** Calls of hosted tools by id or index. Each call counts once, although several events contain it. */
  readonly #calls = new Map<unknown, unknown>();
  readonly usage: StreamUsage;
  #ending: "whole" | "failed" | undefined;
  #error: StatedError | undefined;
  /** Value of `output.amount` when the error arrived. Output after it shows that the stream went on. */
  #errorAmount = 0;

  constructor(listener: OutputListener | undefined) {
    this.output = new StreamOutput(listener);
    this.usage = new StreamUsage(this.output, listener);
    this.#items = new Items(this.output);
    this.#delta = new DeltaSink(this.output);
    this.#envelope = new EnvelopeSink(this.output);
  }

  event(data: string): boolean {
    if (data.startsWith("[DONE]")) return true;
    const event = parseJson(data);
    if (!isObject(event)) {
      walkOutput(event, undefined, "", this.#envelope);
      return event !== undefined;
    }
    const { type, output_index } = event;
    const whole = objectOr(event["response"]);
    this.#terms = latestTerms(this.#terms, termsOf(whole));
    if (type === "response.output_item.added" || type === "response.output_item.done")
      this.#updateCall(event["item"], output_index);
    this.#ending = endings.get(textOr(type)) ?? this.#ending;
    const error = mayStateError(textOr(type)) ? readEventError(event) : undefined;
    // The texts of an error are no output.
    if (error === undefined || hasOutputIn(event, response, outputMembers)) this.#write(event);
    if (error !== undefined) [this.#error, this.#errorAmount] = [error, this.output.amount];
    this.usage.add(laterUsage(readUsageOf(event, "part"), readUsageOf(whole, "part")), this.#ending !== undefined);
    return true;
  }

  get isComplete(): boolean {
    return this.#ending !== undefined;
  }

  answer(): Omit<StreamAnswer, keyof AnswerOutput> {
    const toolCalls = mergeCalls(callsIn([...this.#calls.values()]), this.#terms.toolCalls);
    const stated = this.usage.stated(this.#ending !== undefined);
    const isLast = this.#ending !== "whole" && this.#errorAmount === this.output.amount;
    const error = stated.usage === undefined && isLast ? this.#error : undefined;
    const finished = this.#ending !== undefined || error !== undefined;
    const failed = this.#ending === "failed" || error !== undefined;
    return { ...stated, ...this.#terms, toolCalls, finished, ...(finished && { failed }), ...(error && { error }) };
  }

  /**
   * Records an item that is a call of a hosted tool. Replaces an earlier version of the item, because a finished item
   * has more members.
   */
  #updateCall(item: unknown, index: unknown): void {
    // Some gateways use one index for several items.
    const key = objectOr(item)["id"] ?? index;
    if (hostedCall(item) === null) this.#calls.delete(key);
    else if (this.#calls.size < callsMax) this.#calls.set(key, item);
  }

  #write(event: JsonObject): void {
    const form = responseEvents.get(textOr(event["type"]));
    for (const name in event) {
      const value = event[name];
      if (value === null || value === "" || everyEvent[name] === "free") continue;
      const member = form?.[name];
      if (member !== undefined) this.#writeMember(value, member, event);
      else if (name === "response" && isObject(value)) this.#writeResponse(value);
      else walkOutput(value, undefined, name, this.#envelope);
    }
  }

  #writeMember(value: unknown, { known, at, isDelta }: EventMember, event: JsonObject): void {
    const { item_id, output_index, content_index, summary_index, command_index } = event;
    const index = content_index ?? summary_index ?? command_index;
    const path = at.replace("#", typeof index === "number" ? String(index) : "0");
    if (known === responseItem) return this.#writeItem(value, output_index);
    const { key, isSure } = this.#items.find(item_id, output_index);
    if (isDelta) walkOutput(value, known, path, this.#delta.at(`${key}.${path}`, 0));
    else this.#repeat(value, known, `${key}.${path}`, isSure);
  }

  /** Reads a whole response, which repeats the content of earlier events. */
  #writeResponse(whole: JsonObject): void {
    const { output } = whole;
    const listed = new Set<string>();
    if (Array.isArray(output)) output.forEach((item, index) => this.#writeItem(item, index, listed));
    else this.#repeat(output, undefined, "response.output", true);
    const { output_text: text } = whole;
    if (listOr(output).length === 0 && typeof text === "string") {
      this.#repeat(text, "text", `${this.#items.find(undefined, 0).key}.content.0.text`, false);
    }
    walkMembers(whole, response, "response", this.#repeating(true));
  }

  #writeItem(item: unknown, index: unknown, listed?: Set<string>): void {
    const { key, isSure } = this.#items.findWhole(item, index, listed);
    this.#repeat(item, responseItem, key, isSure);
  }

  #repeat(value: unknown, known: Known | undefined, at: string, isSure: boolean): void {
    walkOutput(value, known, at, this.#repeating(isSure));
  }

  #repeating(isSure: boolean): OutputSink {
    const { output } = this;
    return {
      text: (text, at) => output.wholeText(text, at, 0, isSure),
      unknown: (bytes, at) => output.repeated("unknown", bytes, at),
      sealed: (bytes, at) => output.repeated("sealed", bytes, at),
      media: () => output.media(),
    };
  }
}

/**
 * Assigns events to items of the output, by id and index. Some gateways use several ids for one item, or one index for
 * several items.
 */
class Items {
  readonly #output: StreamOutput;
  readonly #byId = new Map<string, string>();
  readonly #byIndex = new Map<number, string>();
  /** First id of each item. */
  readonly #firstIds = new Map<string, string>();
  #count = 0;

  constructor(output: StreamOutput) {
    this.#output = output;
  }

  /**
   * Returns the key of the item to which a delta or a part belongs. `isSure` is false if the delta or part may belong
   * to another item.
   */
  find(id: unknown, index: unknown): { readonly key: string; readonly isSure: boolean } {
    const key = this.#known(id) ?? this.#add(id, index, this.#owner(id, index));
    const isNamed = typeof id === "string" ? this.#firstIds.get(key) === id : typeof index === "number";
    return { key, isSure: isNamed && key !== String(itemsMax) };
  }

  /**
   * Returns the key of the earlier item that a whole item repeats, or of a new item. If the id is unknown, searches for
   * an earlier item whose text is the beginning of the whole item's text. `listed` contains the items that the same
   * response has already listed. The search skips them, because each entry of the list is a different item. The ids and
   * indexes in the list may differ from those in the events.
   */
  findWhole(item: unknown, index: unknown, listed?: Set<string>): { readonly key: string; readonly isSure: boolean } {
    const found = this.#repeatedBy(item, index, listed);
    listed?.add(found.key);
    return found;
  }

  #repeatedBy(
    item: unknown,
    index: unknown,
    listed: ReadonlySet<string> | undefined,
  ): { readonly key: string; readonly isSure: boolean } {
    const { id } = objectOr(item);
    const known = this.#known(id);
    if (known !== undefined) return this.find(id, index);
    const owner = this.#owner(id, index);
    // An event with a new index belongs to a new item, even if its text begins like that of another item.
    if (owner === undefined && (this.#count === 0 || (listed === undefined && typeof index === "number")))
      return this.find(id, index);
    const texts: [string, string][] = [];
    const ignore = () => undefined;
    walkOutput(item, responseItem, "", {
      text: (text, at) => void texts.push([at, text]),
      unknown: ignore,
      sealed: ignore,
      media: ignore,
    });
    const earlierTexts = (key: string) =>
      texts
        .map(([at, text]) => [this.#output.textAt(`${key}.${at}`), text] as const)
        .filter(([earlier]) => earlier !== "");
    const repeats = (key: string) => earlierTexts(key).some(([earlier, text]) => text.startsWith(earlier));
    const hasNoText = owner !== undefined && listed?.has(owner) !== true && earlierTexts(owner).length === 0;
    const others = Array.from({ length: Math.min(this.#count, searchedMax) }, (_, key) => String(key));
    const repeated = [...(owner === undefined ? [] : [owner]), ...others].find(
      (key) => listed?.has(key) !== true && repeats(key),
    );
    const empty = hasNoText ? owner : undefined;
    const key = this.#add(id, index, listed === undefined ? (empty ?? repeated) : (repeated ?? empty));
    return { key, isSure: key !== String(itemsMax) };
  }

  #known(id: unknown): string | undefined {
    return typeof id === "string" ? this.#byId.get(id) : undefined;
  }

  #owner(id: unknown, index: unknown): string | undefined {
    const at = indexOf(id, index);
    return at === undefined ? undefined : this.#byIndex.get(at);
  }

  #add(id: unknown, index: unknown, as: string | undefined): string {
    if (as === undefined && this.#count >= itemsMax) return String(itemsMax);
    const key = as ?? String(this.#count++);
    if (typeof id === "string" && this.#byId.size < itemsMax) {
      this.#byId.set(id, key);
      if (!this.#firstIds.has(key)) this.#firstIds.set(key, id);
    }
    const at = indexOf(id, index);
    if (at !== undefined && !this.#byIndex.has(at)) this.#byIndex.set(at, key);
    return key;
  }
}

/**
 * Returns the index that an event states; undefined if it states only an id. An event with neither belongs to the first
 * item, so its index is 0.
 */
function indexOf(id: unknown, index: unknown): number | undefined {
  if (typeof index === "number") return index;
  return typeof id === "string" ? undefined : 0;
}

/** Largest number of items. No response has more. All further items count as a single item. */
const itemsMax = 1000;
/** Largest number of items that are compared with a whole item. */
const searchedMax = 50;

/** Largest number of recorded calls. No request makes more. */
const callsMax = 10_000;

/** Returns the terms of a response, including the calls of hosted tools among its items. */
function termsOf(response: JsonObject): AnswerTerms {
  const terms = answerTerms(response);
  return { ...terms, toolCalls: mergeCalls(callsIn(response["output"]), terms.toolCalls) };
}
