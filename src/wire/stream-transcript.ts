import type { Usage } from "../core/usage.ts";
import { SseReader } from "./sse.ts";

/** What a stream said, as far as it went. */
export interface StreamAnswer {
  /** Undefined when none was reported, or only for a part: of a stream that then broke, or that wrote on after it. */
  readonly usage: Usage | undefined;
  readonly servedModel: string | null;
  /** Texts by choice or part, joined: tokens are counted on whole texts, never on deltas. */
  readonly texts: readonly string[];
  /** Whether the stream says itself that it is whole. */
  readonly finished: boolean;
  /** Whether it ended, as itself says, because the model failed: it is whole, and what it wrote is all that there is to bill. */
  readonly failed?: boolean;
}

/** Raw bytes kept before they are read into texts: most streams end below it and are only looked at from their tail. */
const rawBytesMax = 128 * 1024;
/** Where the end of a stream is looked for: enough for the last events of any model. */
const tailBytes = 8 * 1024;

/** Told of each text of a stream with the choice that it belongs to, in the tick in which its event became whole. */
export type TextListener = (text: string, choice: number) => void;

/** How the events of a kind of stream are read. */
export interface StreamForm {
  /** The last events alone, oldest first, where they tell all that is needed; undefined where they do not. */
  lastEvents(events: readonly string[]): StreamAnswer | undefined;
  /** Reads every event. */
  reading(onText: TextListener | undefined): EventReading;
}

/** Reads events in their order, and says at any time what they said so far. */
export interface EventReading {
  readonly texts: StreamTexts;
  event(data: string): void;
  /** Without the texts. */
  answer(): Omit<StreamAnswer, "texts">;
}

/** Texts beyond this, in UTF-16 units with something for each piece, are no model's answer: they are not kept to be counted. */
const textUnitsMax = 16 * 1024 * 1024;
const pieceUnits = 16;
/** More choices than any request may ask for. */
const choicesMax = 1000;

/** What a stream wrote, by choice or part, for as long as it is not too much. */
export class StreamTexts {
  readonly #pieces = new Map<string | number, string[]>();
  readonly #onText: TextListener | undefined;
  #units = 0;
  #isLost = false;

  constructor(onText: TextListener | undefined) {
    this.#onText = onText;
  }

  /** Whether it was too much, so that nothing is kept of some of it. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** `place`: what the texts are joined by. `choice`: what its listener is told. */
  add(texts: readonly string[], place: string | number, choice: number): void {
    let pieces = this.#pieces.get(place);
    if (pieces === undefined) this.#pieces.set(place, (pieces = []));
    for (const text of texts) {
      pieces.push(text);
      this.#units += text.length + pieceUnits;
      this.#onText?.(text, choice);
    }
    if (this.#units > textUnitsMax || this.#pieces.size > choicesMax) this.#lose();
  }

  joined(): string[] {
    return [...this.#pieces.values()].map((pieces) => pieces.join(""));
  }

  #lose(): void {
    this.#isLost = true;
    this.#pieces.clear();
    this.#units = 0;
  }
}

/** What the story needs of a remembered stream. */
export interface Transcript {
  push(chunk: Buffer): void;
  /** What the whole stream said; undefined where it was too much to be kept. Where its tail has all that is needed, nothing else is read. */
  end(): StreamAnswer | undefined;
  /** What was said so far, its texts included; undefined where they were too much to be kept and no usage stands for them. */
  everything(): StreamAnswer | undefined;
}

/**
 * Remembers a stream while it passes, at next to no cost: chunks are kept as they come, and read after the last one.
 * A long stream is read from time to time into its texts, so that its memory stays near what it says. Where somebody
 * listens, each chunk is read as it comes.
 */
export class StreamTranscript implements Transcript {
  readonly #form: StreamForm;
  readonly #keptBytesMax: number;
  readonly #onText: TextListener | undefined;
  #chunks: Buffer[] = [];
  #rawBytes = 0;
  #reading: { readonly events: EventReading; readonly bytes: SseReader } | undefined;

  constructor(form: StreamForm, onText?: TextListener) {
    this.#form = form;
    this.#onText = onText;
    this.#keptBytesMax = onText === undefined ? rawBytesMax : 0;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#rawBytes += chunk.length;
    if (this.#rawBytes > this.#keptBytesMax) this.#readKept();
  }

  end(): StreamAnswer | undefined {
    const tail = this.#reading === undefined ? this.#readTail() : undefined;
    return tail ?? this.everything();
  }

  everything(): StreamAnswer | undefined {
    const { events, bytes } = this.#readKept();
    bytes.finish();
    const answer = events.answer();
    const isLost = events.texts.isLost || !bytes.isComplete;
    return answer.usage === undefined && isLost ? undefined : { ...answer, texts: events.texts.joined() };
  }

  #readKept(): { readonly events: EventReading; readonly bytes: SseReader } {
    this.#reading ??= this.#begin();
    for (const chunk of this.#chunks) this.#reading.bytes.feed(chunk);
    this.#chunks = [];
    this.#rawBytes = 0;
    return this.#reading;
  }

  #begin(): { readonly events: EventReading; readonly bytes: SseReader } {
    const events = this.#form.reading(this.#onText);
    return { events, bytes: new SseReader((data) => events.event(data)) };
  }

  /** Usage and end from the last events alone; undefined when they do not tell everything. */
  #readTail(): StreamAnswer | undefined {
    const chunks = this.#chunks;
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
    return this.#form.lastEvents(events);
  }
}
