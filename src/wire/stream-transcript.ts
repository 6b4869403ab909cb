import type { Usage } from "../core/usage.ts";
import { citation, type AnswerTerms } from "./model-answer.ts";
import type { Written } from "./output-walk.ts";
import { SseReader } from "./sse.ts";
import type { OutputListener, StreamOutput } from "./stream-output.ts";

/**
 * Content of a stream so far. Texts are joined by choice or part: tokens are counted on whole texts, never on deltas.
 */
export interface StreamAnswer extends Written, AnswerTerms {
  /** Undefined when none was reported, or only for a part of a stream that broke or continued after it. */
  readonly usage: Usage | undefined;
  /** True if the stream itself says that it is whole. */
  readonly finished: boolean;
  /** True if the stream ended, by its own event, because the model failed: its text is all that can be billed. */
  readonly failed?: boolean;
}

/** Raw bytes kept before they are read into texts: most streams end below it and are only looked at from their tail. */
const rawBytesMax = 128 * 1024;
/** Bytes kept before a listener is called. */
const unreadBytesMax = 1024 * 1024;
/** Where the end of a stream is looked for: enough for the last events of any model. */
const tailBytes = 8 * 1024;
/** Largest event that is awaited; a longer one counts while it arrives. */
const pendingBytesMax = 64 * 1024;
/** Bytes of an unfinished last event that count as its frame. */
const unfinishedBytes = 1024;

/** Reader of the events of one kind of stream. */
export interface StreamForm {
  /** Reads the last events, oldest first; undefined if they do not state everything needed. */
  lastEvents(events: readonly string[]): StreamAnswer | undefined;
  /** Reads every event. */
  reading(listener: OutputListener | undefined): EventReader;
}

/** Reads events in order, and returns their content so far at any time. */
export interface EventReader {
  readonly output: StreamOutput;
  /** False for an event that cannot be read. */
  event(data: string): boolean;
  /** Without what was written. */
  answer(): Omit<StreamAnswer, keyof Written>;
}

/** A transcript of a stream. */
export interface Transcript {
  push(chunk: Buffer): void;
  /** Returns the content of the whole stream. Reads only its tail if that states everything. */
  end(): StreamAnswer;
  /** Returns the content so far, with all text. */
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

  /** `unreadBytes`: bytes that may collect before the listener is called; at most 1 MB. */
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

  /** Returns the bytes of an unfinished event that may be new: the last event of a response repeats earlier ones. */
  #inFlight(pending: number): number {
    return pending > Math.max(pendingBytesMax, this.#allBytes - pending) ? pending : 0;
  }

  /** Reports that earlier events may state what the last ones do not. */
  #mayState({ serviceTier, toolCalls }: AnswerTerms): boolean {
    const sought = [
      ...(serviceTier === undefined ? ["service_tier"] : []),
      ...(toolCalls === undefined ? [citation] : []),
    ];
    if (sought.length === 0) return false;
    const all = Buffer.concat(this.#chunks);
    return sought.some((name) => all.indexOf(name) !== -1);
  }

  /** Reads usage and end from the last events; undefined when they do not state everything. */
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
