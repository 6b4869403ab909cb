import type { Usage } from "../core/usage.ts";
import { collectTexts } from "./chat-answer.ts";
import { isObject, listOr, objectOr, parseJson, type JsonObject } from "./json.ts";
import { SseReader } from "./sse.ts";
import { readUsage } from "./usage.ts";

/** What a stream said, as far as it went. */
export interface StreamAnswer {
  /** Undefined when none was reported, or only for a part: of a stream that then broke, or that wrote on after it. */
  readonly usage: Usage | undefined;
  readonly servedModel: string | null;
  /** Texts by choice, joined: tokens are counted on whole texts, never on deltas. */
  readonly texts: readonly string[];
  /** Whether the stream says itself that it is whole: a finish reason or `[DONE]`. */
  readonly finished: boolean;
}

/** Raw bytes kept before they are read into texts: most streams end below it and are only looked at from their tail. */
const rawBytesMax = 128 * 1024;
/** Where the end of a stream is looked for: enough for the last events of any model. */
const tailBytes = 8 * 1024;

/** Texts beyond this, in UTF-16 units with something for each piece, are no model's answer: they are not kept to be counted. */
const textUnitsMax = 16 * 1024 * 1024;
const pieceUnits = 16;
/** More choices than any request may ask for. */
const choicesMax = 1000;

/** Told of each text of a stream with the choice that it belongs to, in the tick in which its event became whole. */
export type TextListener = (text: string, choice: number) => void;

/**
 * Remembers a stream while it passes, at next to no cost: chunks are kept as they come, and read after the last one.
 * A long stream is read from time to time into its texts, so that its memory stays near what it says. Where somebody
 * listens, each chunk is read as it comes.
 */
export class StreamTranscript {
  readonly #keptBytesMax: number;
  readonly #onText: TextListener | undefined;
  #chunks: Buffer[] = [];
  #rawBytes = 0;
  #reading: StreamReading | undefined;

  constructor(onText?: TextListener) {
    this.#onText = onText;
    this.#keptBytesMax = onText === undefined ? rawBytesMax : 0;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#rawBytes += chunk.length;
    if (this.#rawBytes > this.#keptBytesMax) this.#readKept();
  }

  /** What the whole stream said; undefined where it was too much to be kept. Where its tail has all that is needed, nothing else is read. */
  end(): StreamAnswer | undefined {
    const tail = this.#reading === undefined ? readTail(this.#chunks) : undefined;
    return tail ?? this.everything();
  }

  /** What was said so far, its texts included; undefined where they were too much to be kept and no usage stands for them. */
  everything(): StreamAnswer | undefined {
    const reading = this.#readKept();
    reading.finish();
    return reading.answer();
  }

  #readKept(): StreamReading {
    this.#reading ??= new StreamReading(this.#onText);
    for (const chunk of this.#chunks) this.#reading.feed(chunk);
    this.#chunks = [];
    this.#rawBytes = 0;
    return this.#reading;
  }
}

/** Usage and end from the last events alone; undefined when they do not tell everything. */
function readTail(chunks: readonly Buffer[]): StreamAnswer | undefined {
  let from = chunks.length;
  let size = 0;
  while (from > 0 && size < tailBytes) size += chunks[--from]?.length ?? 0;
  const tail = from === chunks.length - 1 ? chunks[from] : Buffer.concat(chunks.slice(from));
  if (tail === undefined) return undefined;
  const events: string[] = [];
  const reader = new SseReader((data) => events.push(data));
  reader.feed(tail);
  reader.finish();
  // The first event may have begun before the tail, so that only a part of it is here.
  if (from > 0) events.shift();
  return lastUsage(events);
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
    const usage = readUsage(event["usage"]);
    if (usage === undefined) {
      if (hasText(event)) return undefined;
      continue;
    }
    const servedModel = modelOf(event);
    if (servedModel === null || (!finished && listOr(event["choices"]).length > 0)) return undefined;
    return { usage, servedModel, texts: [], finished: true };
  }
  return undefined;
}

function hasText(event: JsonObject): boolean {
  const texts: string[] = [];
  for (const choice of listOr(event["choices"])) collectTexts(objectOr(choice)["delta"], texts);
  return texts.length > 0;
}

/** As OpenAI's clients tell it: no JSON begins like this. */
function isDone(data: string): boolean {
  return data.startsWith("[DONE]");
}

/** Reads every event: texts by choice, usage, finish reasons. */
class StreamReading {
  readonly #texts = new Map<number, string[]>();
  #textUnits = 0;
  #hasLostTexts = false;
  #usage: Usage | undefined;
  #usageIsFinal = false;
  #servedModel: string | null = null;
  #finished = false;
  readonly #onText: TextListener | undefined;
  readonly #reader = new SseReader((data) => this.#event(data));

  constructor(onText: TextListener | undefined) {
    this.#onText = onText;
  }

  feed(chunk: Buffer): void {
    this.#reader.feed(chunk);
  }

  finish(): void {
    this.#reader.finish();
  }

  answer(): StreamAnswer | undefined {
    const usage = this.#finished || this.#usageIsFinal ? this.#usage : undefined;
    if (usage === undefined && (this.#hasLostTexts || !this.#reader.isComplete)) return undefined;
    return {
      usage,
      servedModel: this.#servedModel,
      texts: [...this.#texts.values()].map((pieces) => pieces.join("")),
      finished: this.#finished || this.#usageIsFinal,
    };
  }

  #event(data: string): void {
    if (isDone(data)) {
      this.#finished = true;
      return;
    }
    const event = parseJson(data);
    if (!isObject(event)) return;
    this.#servedModel ??= modelOf(event);
    if (finishes(event)) this.#finished = true;
    const usage = readUsage(event["usage"]);
    const wrote = this.#addTexts(event);
    if (usage !== undefined) {
      this.#usage = usage;
      this.#usageIsFinal = listOr(event["choices"]).length === 0;
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
      const { index, delta } = objectOr(choice);
      const key = typeof index === "number" ? index : 0;
      let pieces = this.#texts.get(key);
      if (pieces === undefined) this.#texts.set(key, (pieces = []));
      const before = pieces.length;
      collectTexts(delta, pieces);
      wrote ||= pieces.length > before;
      for (const text of pieces.slice(before)) {
        this.#textUnits += text.length + pieceUnits;
        this.#onText?.(text, key);
      }
    }
    if (this.#textUnits > textUnitsMax || this.#texts.size > choicesMax) this.#loseTexts();
    return wrote;
  }

  #loseTexts(): void {
    this.#hasLostTexts = true;
    this.#texts.clear();
    this.#textUnits = 0;
  }
}

function finishes(event: JsonObject): boolean {
  return listOr(event["choices"]).some((choice) => {
    const reason = objectOr(choice)["finish_reason"];
    return reason !== undefined && reason !== null;
  });
}

function modelOf(event: JsonObject): string | null {
  return typeof event["model"] === "string" ? event["model"] : null;
}

/** Whether an event is the extra usage chunk that `include_usage` adds: a usage and exactly no choices. */
export function isUsageChunk(data: string): boolean {
  if (!data.includes('"usage"')) return false;
  const event = parseJson(data);
  return isObject(event) && isObject(event["usage"]) && Array.isArray(event["choices"]) && event["choices"].length === 0;
}
