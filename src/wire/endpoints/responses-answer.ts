import type { Usage } from "../../core/usage.ts";
import { isObject, listOr, objectOr, parseJson, type JsonObject } from "../json.ts";
import { servedModelOf, type ModelAnswer } from "../model-answer.ts";
import { StreamTexts, StreamTranscript, type EventReading, type StreamAnswer, type StreamForm, type TextListener } from "../stream-transcript.ts";
import { readUsageOf } from "../usage.ts";

/** Reads a whole answer of the Responses API. Never throws. */
export function readResponse(bytes: Buffer): ModelAnswer | undefined {
  const body = parseJson(bytes.toString("utf8"));
  if (!isObject(body)) return undefined;
  const texts: string[] = [];
  for (const item of listOr(body["output"])) collectItem(objectOr(item), texts);
  return {
    usage: readUsageOf(body),
    servedModel: servedModelOf(body),
    texts,
    // One that is still to run says nothing of its cost.
    isAnswer: Array.isArray(body["output"]) && !unended.has(String(body["status"])),
  };
}

const unended: ReadonlySet<string> = new Set(["queued", "in_progress"]);

/** What the model itself wrote in an item of the output. */
function collectItem(item: JsonObject, into: string[]): void {
  for (const name of ["name", "arguments", "input"]) addText(item[name], into);
  for (const part of [...listOr(item["content"]), ...listOr(item["summary"])].map(objectOr)) {
    for (const name of ["text", "refusal", "transcript"]) addText(part[name], into);
  }
}

function addText(value: unknown, into: string[]): void {
  if (typeof value === "string" && value !== "") into.push(value);
}

/** Events with a type; the last one carries the whole response and its usage. There is no `[DONE]`. */
const responsesForm: StreamForm = {
  lastEvents(events) {
    const last = events.toReversed().map(parseJson).find((event) => isObject(event) && typeof event["type"] === "string");
    const ending = isObject(last) ? endingOf(last) : undefined;
    return ending?.usage === undefined ? undefined : { ...ending, texts: [] };
  },
  reading: (onText) => new ResponsesReading(onText),
};

/** Remembers a stream of the Responses API. */
export function responsesTranscript(onText?: TextListener): StreamTranscript {
  return new StreamTranscript(responsesForm, onText);
}

type Ending = Omit<StreamAnswer, "texts">;

/** The end of a response by its event; undefined for any other event. */
function endingOf(event: JsonObject): Ending | undefined {
  const kind = endings.get(String(event["type"]));
  if (kind === undefined) return undefined;
  const response = objectOr(event["response"]);
  return { usage: readUsageOf(response), servedModel: servedModelOf(response), finished: true, failed: kind === "failed" };
}

const endings: ReadonlyMap<string, "whole" | "failed"> = new Map([
  ["response.completed", "whole"],
  ["response.incomplete", "whole"],
  ["response.cancelled", "failed"],
  ["response.failed", "failed"],
]);

class ResponsesReading implements EventReading {
  readonly texts: StreamTexts;
  #servedModel: string | null = null;
  #usage: Usage | undefined;
  #ending: Ending | undefined;

  constructor(onText: TextListener | undefined) {
    this.texts = new StreamTexts(onText);
  }

  event(data: string): void {
    const event = parseJson(data);
    if (!isObject(event)) return;
    const { type, delta, output_index, content_index, summary_index } = event;
    this.#servedModel ??= servedModelOf(objectOr(event["response"]));
    this.#ending ??= endingOf(event);
    this.#usage ??= this.#ending?.usage;
    const place = `${type} ${output_index} ${content_index ?? summary_index}`;
    if (typeof delta === "string" && type !== "response.audio.delta" && delta !== "") this.texts.add([delta], place, 0);
    const { name } = objectOr(type === "response.output_item.added" ? event["item"] : undefined);
    if (typeof name === "string") this.texts.add([name], place, 0);
  }

  answer(): Ending {
    const servedModel = this.#ending?.servedModel ?? this.#servedModel;
    return { finished: false, ...this.#ending, usage: this.#usage, servedModel };
  }
}
