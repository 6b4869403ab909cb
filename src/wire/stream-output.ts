import { jsonOf } from "./json.ts";
import { writtenOf, type OutputSink, type Written } from "./output-walk.ts";
import type { Usage } from "../core/usage.ts";
import { citation, type AnswerTerms } from "./model-answer.ts";
import { SseReader } from "./sse.ts";

/** Receives the output of a stream in the tick in which its event is complete. */
export interface OutputListener {
  text(text: string, choice: number): void;
  /** Bytes that no tokenizer counts. */
  unknown(bytes: number): void;
  media(): void;
  /** Bytes of an event that has not ended, in place of what was said of it before; 0 once it has. */
  inFlight(bytes: number): void;
}

/** Text beyond this, in UTF-16 units with something for each piece, is no model's answer: it is not kept, and counts by its bytes. */
const textUnitsMax = 16 * 1024 * 1024;
const pieceUnits = 16;
/** More choices and parts than any request may ask for. */
const placesMax = 1000;
/** A longer text is not compared with what repeats it. */
const comparedUnitsMax = 256 * 1024;
/** A longer member of the envelope is no name or address that each event repeats. */
const constantBytesMax = 256;

type Place = string | number;

/** Output of a stream: texts by choice or part, and the bytes of uncounted output. */
export class StreamOutput {
  readonly #texts = new Map<Place, { pieces: string[]; length: number }>();
  /** The most bytes that each repeated member had. */
  readonly #repeated = new Map<string, number>();
  /** Members of the envelope that were the same in each event so far. */
  readonly #constants = new Map<string, { readonly value: string; bytes: number } | undefined>();
  readonly #listener: OutputListener | undefined;
  #units = 0;
  #unknownBytes = 0;
  #sealedBytes = 0;
  #hasMedia = false;
  #amount = 0;

  constructor(listener?: OutputListener) {
    this.#listener = listener;
  }

  /** Grows with all that is written. */
  get amount(): number {
    return this.#amount;
  }

  get written(): Written {
    const texts = [...this.#texts.values()]
      .filter(({ pieces }) => pieces.length > 0)
      .map(({ pieces }) => pieces.join(""));
    return writtenOf(texts, {
      unknownBytes: this.#unknownBytes,
      sealedBytes: this.#sealedBytes,
      hasMedia: this.#hasMedia,
    });
  }

  /** Adds to the text at a place. */
  text(text: string, place: Place, choice: number): void {
    this.#amount++;
    this.#listener?.text(text, choice);
    let kept = this.#texts.get(place);
    if (kept === undefined && this.#texts.size < placesMax) this.#texts.set(place, (kept = { pieces: [], length: 0 }));
    if (kept !== undefined) kept.length += text.length;
    if (kept !== undefined && this.#units + text.length + pieceUnits <= textUnitsMax) {
      this.#units += text.length + pieceUnits;
      kept.pieces.push(text);
    } else {
      this.#unknownBytes += Buffer.byteLength(text);
    }
  }

  /** Takes the whole text of a place, of which only what is beyond the text so far is new. `isSure`: it is that of the place. */
  wholeText(text: string, place: Place, choice: number, isSure: boolean): void {
    const length = this.#texts.get(place)?.length ?? 0;
    const said = isSure ? "" : this.textAt(place);
    if (!isSure && length > 0 && (said === "" || !text.startsWith(said))) {
      if (!said.includes(text)) this.text(text, place, choice);
    } else if (text.length > length) {
      this.text(text.slice(length), place, choice);
    }
  }

  /** Returns the text at a place; empty if it is too long to be compared repeatedly. */
  textAt(place: Place): string {
    const kept = this.#texts.get(place);
    if (kept === undefined || kept.length > comparedUnitsMax) return "";
    if (kept.pieces.length > 1) kept.pieces = [kept.pieces.join("")];
    return kept.pieces[0] ?? "";
  }

  unknown(bytes: number): void {
    this.#amount += bytes;
    this.#unknownBytes += bytes;
    if (bytes > 0) this.#listener?.unknown(bytes);
  }

  sealed(bytes: number): void {
    this.#amount += bytes;
    this.#sealedBytes += bytes;
    this.#listener?.unknown(bytes);
  }

  media(): void {
    this.#amount++;
    this.#hasMedia = true;
    this.#listener?.media();
  }

  /** Counts a member that a later event repeats: only what is beyond the bytes so far is new. */
  repeated(kind: "unknown" | "sealed", bytes: number, place: string): void {
    const key = `${kind} ${place}`;
    const before = this.#repeated.get(key) ?? 0;
    if (bytes <= before) return;
    if (before > 0 || this.#repeated.size < placesMax) this.#repeated.set(key, bytes);
    this[kind](bytes - before);
  }

  /**
   * Counts an unknown member of the envelope. One that is the same in each event is no text and counts once; when it changes,
   * all that came before counts as well.
   */
  envelope(bytes: number, at: string, value: unknown): void {
    const constant = this.#constants.get(at);
    const text = bytes > constantBytesMax ? undefined : typeof value === "string" ? value : jsonOf(value);
    if (constant !== undefined && constant.value === text) {
      constant.bytes += bytes;
      return;
    }
    const isFirst = !this.#constants.has(at);
    if (!isFirst || this.#constants.size < placesMax) {
      this.#constants.set(at, isFirst && text !== undefined ? { value: text, bytes: 0 } : undefined);
    }
    this.unknown(bytes + (constant?.bytes ?? 0));
  }
}

/** Receives what deltas carry, all of it at one place at a time. */
export class DeltaSink implements OutputSink {
  readonly #output: StreamOutput;
  #place: Place = 0;
  #choice = 0;

  constructor(output: StreamOutput) {
    this.#output = output;
  }

  at(place: Place, choice: number): this {
    this.#place = place;
    this.#choice = choice;
    return this;
  }

  text(text: string): void {
    this.#output.text(text, this.#place, this.#choice);
  }

  unknown(bytes: number): void {
    this.#output.unknown(bytes);
  }

  sealed(bytes: number): void {
    this.#output.sealed(bytes);
  }

  media(): void {
    this.#output.media();
  }
}

/** Receives what a stream has beside its choices or items. */
export class EnvelopeSink extends DeltaSink {
  readonly #output: StreamOutput;

  constructor(output: StreamOutput) {
    super(output);
    this.#output = output;
  }

  override unknown(bytes: number, at = "", value: unknown = null): void {
    this.#output.envelope(bytes, at, value);
  }
}

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
/** Bytes at the end of a stream that are searched for its end: enough for the last events of any model. */
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
 * Keeps the chunks of a stream and reads them after the last one, which costs next to nothing. A long stream is read
 * from time to time, so that its memory stays near the size of its text. With a listener, each chunk is read as it comes.
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
