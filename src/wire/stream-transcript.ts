import type { Usage } from "../core/usage.ts";
import { citation, type AnswerTerms } from "./answer-terms.ts";
import type { Written } from "./output-walk.ts";
import { SseReader } from "./sse.ts";
import type { OutputListener, StreamOutput } from "./stream-output.ts";

/** What a stream said, as far as it went. Texts are joined by choice or part: tokens are counted on whole texts, never on deltas. */
export interface StreamAnswer extends Written, AnswerTerms {
  /** Undefined when none was reported, or only for a part: of a stream that then broke, or that wrote on after it. */
  readonly usage: Usage | undefined;
  /** Whether the stream says itself that it is whole. */
  readonly finished: boolean;
  /** Whether it ended, as itself says, because the model failed: it is whole, and what it wrote is all that there is to bill. */
  readonly failed?: boolean;
}

/** Raw bytes kept before they are read into texts: most streams end below it and are only looked at from their tail. */
const rawBytesMax = 128 * 1024;
/** Bytes kept before a listener hears of them. */
const unreadBytesMax = 1024 * 1024;
/** Where the end of a stream is looked for: enough for the last events of any model. */
const tailBytes = 8 * 1024;
/** An event up to here is waited for; a longer one counts while it comes. */
const pendingBytesMax = 64 * 1024;
/** Of an event that the end of the stream cut off, so much is taken for its frame. */
const unfinishedBytes = 1024;

/** How the events of a kind of stream are read. */
export interface StreamForm {
  /** The last events alone, oldest first, where they tell all that is needed; undefined where they do not. */
  lastEvents(events: readonly string[]): StreamAnswer | undefined;
  /** Reads every event. */
  reading(listener: OutputListener | undefined): EventReader;
}

/** Reads events in their order, and says at any time what they said so far. */
export interface EventReader {
  readonly output: StreamOutput;
  /** False for an event that cannot be read. */
  event(data: string): boolean;
  /** Without what was written. */
  answer(): Omit<StreamAnswer, keyof Written>;
}

/** What the story needs of a remembered stream. */
export interface Transcript {
  push(chunk: Buffer): void;
  /** What the whole stream said. Where its tail has all that is needed, nothing else is read. */
  end(): StreamAnswer;
  /** What was said so far, with all that was written. */
  everything(): StreamAnswer;
}

/**
 * Remembers a stream while it passes, at next to no cost: chunks are kept as they come, and read after the last one.
 * A long stream is read from time to time into its texts, so that its memory stays near what it says. Where somebody
 * listens, each chunk is read as it comes.
 */
export class StreamTranscript implements Transcript {
  readonly #form: StreamForm;
  readonly #keptBytesMax: number;
  readonly #listener: OutputListener | undefined;
  #chunks: Buffer[] = [];
  #rawBytes = 0;
  #allBytes = 0;
  #reading: { readonly events: EventReader; readonly bytes: SseReader } | undefined;
  #isOver = false;

  /** `unreadBytes`: that the listener need not hear of before there are more; at most 1 MB. */
  constructor(form: StreamForm, listener?: OutputListener, unreadBytes = 0) {
    this.#form = form;
    this.#listener = listener;
    this.#keptBytesMax = listener === undefined ? rawBytesMax : Math.min(unreadBytes, unreadBytesMax);
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#rawBytes += chunk.length;
    this.#allBytes += chunk.length;
    const isReadAtOnce = this.#listener !== undefined && this.#reading !== undefined;
    if (isReadAtOnce || this.#rawBytes > this.#keptBytesMax) this.#readKept();
  }

  end(): StreamAnswer {
    const tail = this.#reading === undefined ? this.#readTail() : undefined;
    return tail ?? this.everything();
  }

  everything(): StreamAnswer {
    const { events, bytes } = this.#readKept();
    this.#isOver = true;
    bytes.finish();
    return { ...events.answer(), ...events.output.written };
  }

  #readKept(): { readonly events: EventReader; readonly bytes: SseReader } {
    this.#reading ??= this.#begin();
    const { bytes } = this.#reading;
    for (const chunk of this.#chunks) bytes.feed(chunk);
    this.#chunks = [];
    this.#rawBytes = 0;
    this.#listener?.inFlight(this.#inFlight(bytes.pendingBytes));
    return this.#reading;
  }

  #begin(): { readonly events: EventReader; readonly bytes: SseReader } {
    const events = this.#form.reading(this.#listener);
    const unreadable = (bytes: number) => {
      const counted = this.#isOver ? bytes - unfinishedBytes : bytes;
      if (counted > 0) events.output.unknown(counted);
    };
    const bytes = new SseReader((data) => {
      if (!events.event(data)) unreadable(Buffer.byteLength(data));
    }, unreadable);
    return { events, bytes };
  }

  /** What an event that has not ended may say that is new: the last one of a response repeats what came before it. */
  #inFlight(pending: number): number {
    return pending > Math.max(pendingBytesMax, this.#allBytes - pending) ? pending : 0;
  }

  /** Whether events before the last ones may state what the last ones do not. */
  #mayState({ serviceTier, toolCalls }: AnswerTerms): boolean {
    const sought = [
      ...(serviceTier === undefined ? ["service_tier"] : []),
      ...(toolCalls === undefined ? [citation] : []),
    ];
    if (sought.length === 0) return false;
    const all = Buffer.concat(this.#chunks);
    return sought.some((name) => all.indexOf(name) !== -1);
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
    const answer = this.#form.lastEvents(events);
    return answer === undefined || this.#mayState(answer) ? undefined : answer;
  }
}
