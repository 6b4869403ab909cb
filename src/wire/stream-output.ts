import { jsonOf } from "./json.ts";
import { nothingUncountable, writtenOf, type Written, type AnswerTerms, type OutputSink } from "./model-answer.ts";
import type { Usage } from "../core/usage.ts";
import { lastEventStart, SseReader } from "./sse.ts";

/** Receives the output of a stream when Farebox reads the event that contains it. */
export interface OutputListener {
  text(text: string, choice: number): void;
  /** Reports bytes that no tokenizer counts. */
  unknown(bytes: number): void;
  media(): void;
  /** Reports the bytes of an event that has not ended yet; 0 after it has ended. Replaces the previous report. */
  inFlight(bytes: number): void;
}

/**
 * Largest text that Farebox keeps, in UTF-16 units plus `pieceUnits` for each piece. Further text counts by its bytes.
 */
const textUnitsMax = 16 * 1024 * 1024;
const pieceUnits = 16;
/** Largest number of choices and parts. No request can ask for more. */
const partsMax = 1000;
/** Longest text that is compared with a repetition of it, in UTF-16 units. */
const comparedUnitsMax = 256 * 1024;
/**
 * Largest member of an event's envelope (`EnvelopeSink`) that can be a constant, in bytes. A constant is a name or
 * address that each event repeats.
 */
const constantBytesMax = 256;

/** Identifies a text of the stream: the index of a choice, or the path of a part. */
type PartKey = string | number;

/** Output of a stream: texts by choice or part, and the bytes of output that no tokenizer counts. */
export class StreamOutput {
  readonly #texts = new Map<PartKey, { pieces: string[]; length: number }>();
  /** Largest size so far of each repeated member, in bytes. */
  readonly #repeated = new Map<string, number>();
  /** Members of the envelope that were the same in each event so far; undefined for a member that has changed. */
  readonly #constants = new Map<string, { readonly value: string; bytes: number } | undefined>();
  readonly #listener: OutputListener | undefined;
  readonly #uncountable = { ...nothingUncountable };
  #units = 0;
  #amount = 0;

  constructor(listener?: OutputListener) {
    this.#listener = listener;
  }

  /** Increases with every output. An unchanged value means that no output was added. */
  get amount(): number {
    return this.#amount;
  }

  get written(): Written {
    const texts = [...this.#texts.values()]
      .filter(({ pieces }) => pieces.length > 0)
      .map(({ pieces }) => pieces.join(""));
    return writtenOf(texts, { ...this.#uncountable });
  }

  /** Adds to the text of a part. */
  text(text: string, key: PartKey, choice: number): void {
    this.#amount++;
    this.#listener?.text(text, choice);
    let kept = this.#texts.get(key);
    if (kept === undefined && this.#texts.size < partsMax) this.#texts.set(key, (kept = { pieces: [], length: 0 }));
    if (kept !== undefined) kept.length += text.length;
    if (kept !== undefined && this.#units + text.length + pieceUnits <= textUnitsMax) {
      this.#units += text.length + pieceUnits;
      kept.pieces.push(text);
    } else {
      this.#uncountable.unknownBytes += Buffer.byteLength(text);
    }
  }

  /**
   * Adds the new end of a part's text, given the whole text. `isSure` is false if the text may belong to another part.
   * In that case, compares the text with the part's text so far.
   */
  wholeText(text: string, key: PartKey, choice: number, isSure: boolean): void {
    const length = this.#texts.get(key)?.length ?? 0;
    const known = isSure ? "" : this.textAt(key);
    if (!isSure && length > 0 && (known === "" || !text.startsWith(known))) {
      if (!known.includes(text)) this.text(text, key, choice);
    } else if (text.length > length) {
      this.text(text.slice(length), key, choice);
    }
  }

  /** Returns the text of a part; empty if it is too long to be compared repeatedly. */
  textAt(key: PartKey): string {
    const kept = this.#texts.get(key);
    if (kept === undefined || kept.length > comparedUnitsMax) return "";
    if (kept.pieces.length > 1) kept.pieces = [kept.pieces.join("")];
    return kept.pieces[0] ?? "";
  }

  unknown(bytes: number): void {
    this.#amount += bytes;
    this.#uncountable.unknownBytes += bytes;
    if (bytes > 0) this.#listener?.unknown(bytes);
  }

  sealed(bytes: number): void {
    this.#amount += bytes;
    this.#uncountable.sealedBytes += bytes;
    this.#listener?.unknown(bytes);
  }

  media(): void {
    this.#amount++;
    this.#uncountable.hasMedia = true;
    this.#listener?.media();
  }

  /** Counts a member that a later event may repeat. If a repetition is longer, only the additional bytes count. */
  repeated(kind: "unknown" | "sealed", bytes: number, at: string): void {
    const key = `${kind} ${at}`;
    const before = this.#repeated.get(key) ?? 0;
    if (bytes <= before) return;
    if (before > 0 || this.#repeated.size < partsMax) this.#repeated.set(key, bytes);
    this[kind](bytes - before);
  }

  /**
   * Counts an unknown member of the envelope. A member that is the same in each event is not text, so it counts once.
   * If it changes, all its earlier values count too.
   */
  envelope(bytes: number, at: string, value: unknown): void {
    const constant = this.#constants.get(at);
    const text = bytes > constantBytesMax ? undefined : typeof value === "string" ? value : jsonOf(value);
    if (constant !== undefined && constant.value === text) {
      constant.bytes += bytes;
      return;
    }
    const isFirst = !this.#constants.has(at);
    if (!isFirst || this.#constants.size < partsMax) {
      this.#constants.set(at, isFirst && text !== undefined ? { value: text, bytes: 0 } : undefined);
    }
    this.unknown(bytes + (constant?.bytes ?? 0));
  }
}

/** Receives the output of deltas, and adds it to the part of the latest call of `at`. */
export class DeltaSink implements OutputSink {
  readonly #output: StreamOutput;
  #key: PartKey = 0;
  #choice = 0;

  constructor(output: StreamOutput) {
    this.#output = output;
  }

  at(key: PartKey, choice: number): this {
    this.#key = key;
    this.#choice = choice;
    return this;
  }

  text(text: string): void {
    this.#output.text(text, this.#key, this.#choice);
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

/** Receives the envelope of a stream's events: their members outside choices and items. */
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

/** Content of a stream so far. Texts are joined by choice or part, because tokens are counted on whole texts. */
export interface StreamAnswer extends Written, AnswerTerms {
  /** Undefined if the gateway reported no usage, if the stream broke, or if output followed the usage. */
  readonly usage: Usage | undefined;
  /** True if an event states that the stream is complete. */
  readonly finished: boolean;
  /** True if an event states that the model failed. Then only the text so far can be billed. */
  readonly failed?: boolean;
}

/**
 * Number of bytes that a transcript keeps before it reads them. Most streams are shorter, so Farebox reads only their
 * tail.
 */
const rawBytesMax = 128 * 1024;
/** Number of events at the end of a stream that are searched for its usage. */
const tailEvents = 8;
/**
 * Parts of the names `service_tier`, `url_citation` and `server_tool_use`. An event with one of these names may state a
 * term of the answer. The search for a part that begins with a rare byte is eight times as fast as for a whole name.
 */
const termNames = { serviceTier: "_tier", toolCalls: "_cit", statedCalls: "_tool_" } as const;
/** Largest event that counts only after it has ended, in bytes. A longer event counts while it arrives. */
const pendingBytesMax = 64 * 1024;
/** Number of bytes of an unfinished last event that count as its frame, not as output. */
const unfinishedBytes = 1024;

/** Reads one kind of stream. */
export interface StreamForm {
  /**
   * Returns the content that the last events state; undefined if they do not state everything. `events` begins with the
   * oldest event.
   */
  lastEvents(events: readonly string[]): StreamAnswer | undefined;
  /** Returns a reader of all events. */
  reading(listener: OutputListener | undefined): EventReader;
}

/** Reads events in order, and returns their content so far at any time. */
export interface EventReader {
  readonly output: StreamOutput;
  /** Reads one event. Returns false if the event cannot be read. */
  event(data: string): boolean;
  /** Returns the content so far without the output, which is in `output`. */
  answer(): Omit<StreamAnswer, keyof Written>;
}

/** Records a stream, and returns its content. */
export interface Transcript {
  /** Keeps bytes of the stream. */
  push(bytes: Buffer): void;
  /** Number of bytes that may contain output which the listener has not received yet. */
  readonly unreadBytes: number;
  /** Reads the kept bytes, and reports their output to the listener. */
  read(): void;
  /** Returns the content of the whole stream. Reads only the tail if the tail states everything. */
  end(): StreamAnswer;
  /** Returns the content so far, with all text. */
  everything(): StreamAnswer;
}

/**
 * Keeps the bytes of a stream. At the end, reads only the tail if the tail states everything. Reads all kept bytes
 * earlier if a caller asks for it. Also reads them whenever they exceed `rawBytesMax`, because then the memory for a
 * long stream stays close to the size of its text.
 */
export class StreamTranscript implements Transcript {
  readonly #form: StreamForm;
  readonly #listener: OutputListener | undefined;
  #chunks: Buffer[] = [];
  #rawBytes = 0;
  #allBytes = 0;
  #reading: { readonly events: EventReader; readonly bytes: SseReader } | undefined;
  #isOver = false;

  constructor(form: StreamForm, listener?: OutputListener) {
    this.#form = form;
    this.#listener = listener;
  }

  push(bytes: Buffer): void {
    this.#chunks.push(bytes);
    this.#rawBytes += bytes.length;
    this.#allBytes += bytes.length;
    if (this.#rawBytes > rawBytesMax) this.#readKept();
  }

  get unreadBytes(): number {
    return this.#rawBytes + (this.#reading?.bytes.pendingBytes ?? 0);
  }

  read(): void {
    this.#readKept();
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

  /**
   * Returns the size of an unfinished event that is too large to be a repetition; otherwise 0. The last event of a
   * response repeats the output, so it may be as large as the whole stream before it. An event of up to
   * `pendingBytesMax` counts only after it has ended.
   */
  #inFlight(pending: number): number {
    return pending > Math.max(pendingBytesMax, this.#allBytes - pending) ? pending : 0;
  }

  /** Returns the content that the last events state; undefined if they do not state everything. */
  #readTail(): StreamAnswer | undefined {
    const [first, ...more] = this.#chunks;
    if (first === undefined) return undefined;
    const all = more.length === 0 ? first : Buffer.concat(this.#chunks);
    this.#chunks = [all];
    let start = all.length;
    for (let count = 0; count < tailEvents && start > 0; count++) start = lastEventStart(all, start);
    const events: string[] = [];
    let unreadable = 0;
    const reader = new SseReader(
      (data) => events.push(data),
      (bytes) => (unreadable += bytes),
    );
    reader.feed(all.subarray(start));
    if (unreadable > 0) return undefined;
    reader.finish();
    const answer = this.#form.lastEvents(events);
    return answer === undefined || mayState(all, answer) ? undefined : answer;
  }
}

/** Returns true if earlier events may state a term that the last events do not state. */
function mayState(all: Buffer, answer: AnswerTerms): boolean {
  return (
    (answer.serviceTier === undefined && all.includes(termNames.serviceTier)) ||
    (answer.toolCalls === undefined && (all.includes(termNames.toolCalls) || all.includes(termNames.statedCalls)))
  );
}
