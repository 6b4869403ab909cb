import { clientCalls, type AnswerTerms, type AnswerOutput } from "./model-answer.ts";
import { RawBytes } from "./raw-bytes.ts";
import { lastEventStart, SseReader, startsWithMark } from "./sse.ts";
import type { OutputListener, StreamAnswer, StreamOutput, StreamUsage } from "./stream-output.ts";

/**
 * Number of bytes that a transcript keeps before it reads them. Most streams are shorter, so Farebox reads only their
 * tail.
 */
const rawBytesMax = 256 * 1024;
/** Number of bytes that are read in one piece. Reading them takes at most a few milliseconds. */
const pieceBytes = 64 * 1024;
/** Number of events at the end of a stream that are read first. They usually state everything. */
const tailEvents = 3;
/** Largest event that counts only after it has ended, in bytes. A longer event counts while it arrives. */
const pendingBytesMax = 64 * 1024;
/** Number of bytes of an unfinished last event that count as its frame, not as output. */
const unfinishedBytes = 1024;
/** Longest event without JSON whose repetitions count as heartbeats, in UTF-16 units. */
const heartbeatUnitsMax = 256;

/** Creates a reader of the events of one kind of stream. */
type CreateEventReader = (listener: OutputListener | undefined) => EventReader;

/** Reads events in order, and returns their content so far at any time. */
export interface EventReader {
  readonly output: StreamOutput;
  /** Reads one event. Returns false if the event cannot be read. */
  event(data: string): boolean;
  /** Usages of the stream. Absent if the last events never state everything. */
  readonly usage?: StreamUsage | undefined;
  /** True if an event has completed the stream. */
  readonly isComplete: boolean;
  /** Returns the content so far without the output, which is in `output`. */
  answer(): Omit<StreamAnswer, keyof AnswerOutput>;
}

/** Content that the last events of a stream show. */
export interface StreamTail {
  /** True if they complete the stream. The events before them cannot change that. */
  readonly isComplete: boolean;
  /** Content of the whole stream without its texts; undefined if it depends on the events before. */
  readonly answer: StreamAnswer | undefined;
}

/** Records a stream, and returns its content. */
export interface Transcript {
  /** Keeps bytes of the stream. */
  push(bytes: Buffer): void;
  /** Number of bytes that may contain output which the listener has not received yet. */
  readonly unreadBytes: number;
  /** Memory of the bytes that are kept to be read later, in bytes. */
  readonly keptBytes: number;
  /** Reads the kept bytes, and reports their output to the listener. */
  read(): void;
  /** Reads a piece of the kept bytes, which takes a few milliseconds. Returns true if there is more to read. */
  readPiece(): boolean;
  /** Reads the last events. Called at the end of the stream. */
  tail(): StreamTail;
  /** Reads the kept bytes. Returns true if they state an error of the gateway, which ends the stream. */
  statesError(): boolean;
  /** Returns the content of the whole stream, without its texts if its tail states everything. */
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
  readonly #createReader: CreateEventReader;
  readonly #readsFirst: boolean;
  readonly #listener: OutputListener | undefined;
  readonly #raw = new RawBytes();
  #allBytes = 0;
  #reading: { readonly events: EventReader; readonly bytes: SseReader } | undefined;
  #isOver = false;

  /** `readsFirst`: true if the first event of a stream states what the last ones leave out. */
  constructor(createReader: CreateEventReader, listener?: OutputListener, readsFirst = false) {
    this.#createReader = createReader;
    this.#readsFirst = readsFirst;
    this.#listener = listener;
  }

  push(bytes: Buffer): void {
    this.#raw.push(bytes);
    this.#allBytes += bytes.length;
    if (this.#raw.length > rawBytesMax) this.#readKept();
  }

  get unreadBytes(): number {
    return this.#raw.length + (this.#reading?.bytes.pendingBytes ?? 0);
  }

  get keptBytes(): number {
    return this.#raw.memory;
  }

  read(): void {
    this.#readKept();
  }

  readPiece(): boolean {
    this.#readKept(pieceBytes);
    return this.#raw.length > 0;
  }

  statesError(): boolean {
    return this.#readKept().events.answer().error !== undefined;
  }

  end(): StreamAnswer {
    return this.tail().answer ?? this.everything();
  }

  everything(): StreamAnswer {
    const { events, bytes } = this.#readKept();
    this.#isOver = true;
    bytes.finish();
    return { ...events.answer(), ...events.output.streamed };
  }

  #readKept(bytesMax?: number): { readonly events: EventReader; readonly bytes: SseReader } {
    this.#reading ??= this.#begin();
    const { bytes } = this.#reading;
    for (const piece of this.#raw.take(bytesMax)) bytes.feed(piece);
    this.#listener?.inFlight(this.#inFlight(bytes.pendingBytes));
    return this.#reading;
  }

  #begin(): { readonly events: EventReader; readonly bytes: SseReader } {
    const events = this.#createReader(this.#listener);
    const unreadable = (bytes: number) => {
      const counted = this.#isOver ? bytes - unfinishedBytes : bytes;
      if (counted > 0) events.output.unknown(counted);
    };
    let heartbeat: string | undefined;
    const bytes = new SseReader((data) => {
      if (events.event(data) || data === heartbeat) return;
      // Gateways send the same text again and again to keep a connection open: "ping".
      heartbeat = data.length > heartbeatUnitsMax ? undefined : data;
      unreadable(Buffer.byteLength(data));
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

  /**
   * Reads the last events, and the first one if it matters, as if they were the whole stream. Returns their content if it
   * is that of the whole stream: their usage covers it, and no earlier event states a term that they do not state.
   */
  tail(): StreamTail {
    const all = this.#raw.joined();
    let start = all.length;
    for (let count = 0; count < tailEvents && start > 0; count++) start = lastEventStart(all, start);
    if (start === 0 || startsWithMark(all, start)) return { isComplete: false, answer: undefined };
    const events = this.#createReader(undefined);
    let isReadable = true;
    const unreadable = () => void (isReadable = false);
    const reader = new SseReader((data) => events.event(data) || unreadable(), unreadable);
    const middle = this.#readsFirst && this.#reading === undefined ? firstEventEnd(all, start) : 0;
    if (middle > 0) reader.feed(all.subarray(0, middle));
    reader.feed(all.subarray(start));
    reader.finish();
    const { isComplete } = events;
    const answer = events.answer();
    const statesAll =
      this.#reading === undefined &&
      middle > 0 === this.#readsFirst &&
      isReadable &&
      answer.usage !== undefined &&
      events.usage?.coversAny === true &&
      events.output.isUntouched &&
      !mayState(all.toString("latin1", middle, start), answer);
    return { isComplete, answer: statesAll ? { ...answer, texts: [] } : undefined };
  }
}

/** Returns the offset after the first event, which must end before `end`; 0 if its end is unusual. */
function firstEventEnd(stream: Buffer, end: number): number {
  const blank = stream.indexOf("\n\n");
  return blank === -1 || blank + 2 > end || stream.subarray(0, blank).includes("\r") ? 0 : blank + 2;
}

const nullText = "null";

/** Returns true if events, given in latin1, may state a term that the later events of `answer` do not state. */
function mayState(events: string, { servedModel, serviceTier, toolCalls }: AnswerTerms): boolean {
  const model = JSON.stringify(servedModel);
  const tier = JSON.stringify(serviceTier ?? null);
  if (!unusual(model, tier).test(events)) return false;
  return (
    statesOther(events, "usage", nullText) ||
    statesOther(events, "model", model) ||
    statesOther(events, "_tier", nullText, tier) ||
    callsTool(events) ||
    events.includes(serverTool) ||
    (toolCalls === undefined && events.includes("_cit")) ||
    hidesLetter(events)
  );
}

/** Latest pattern, with the terms for which it was made. Most streams have the terms of the one before. */
let latestPattern = { terms: "", pattern: /(?:)/ };

/**
 * Returns a pattern that matches every place at which events may state a term, except the usual places with the same
 * model and tier. One search for all is three times as fast as a search for each.
 */
function unusual(model: string, tier: string): RegExp {
  const other = (name: string, values: string) => `${name}(?!": ?(?:${values}))`;
  const terms = model + tier;
  if (latestPattern.terms === terms) return latestPattern.pattern;
  const all = [
    other("usage", nullText),
    other("model", RegExp.escape(model)),
    other("_tier", `${nullText}|${RegExp.escape(tier)}`),
    callEnd,
    serverTool,
    "_cit",
    escapedLetter.source,
  ];
  const pattern = new RegExp(all.join("|"));
  latestPattern = { terms, pattern };
  return pattern;
}

/**
 * Returns true if a member whose name contains `name` may have another value than those of `known`, which are JSON
 * texts.
 */
function statesOther(events: string, name: string, ...known: readonly string[]): boolean {
  for (let at = events.indexOf(name); at !== -1; at = events.indexOf(name, at + 1)) {
    const end = at + name.length;
    memberEnd.lastIndex = end;
    const value = memberEnd.exec(events)?.[1];
    if (value === undefined) continue;
    // The value of a member may be on the next line of an event.
    if (value.includes("\n") || value.includes("\r")) return true;
    if (!known.some((text) => events.startsWith(text, memberEnd.lastIndex))) return true;
  }
  return false;
}

/** Matches the rest of a member's name, and what precedes its value. A name in a text has no colon after it. */
const memberEnd = /[A-Za-z_]*("(?:\s*:\s*|[ \t]*[\r\n]))/y;

/** Returns true if events may contain a call of a hosted tool. */
function callsTool(events: string): boolean {
  for (let at = events.indexOf(callEnd); at !== -1; at = events.indexOf(callEnd, at + 1)) {
    const type = events.slice(events.lastIndexOf('"', at) + 1, at + callEnd.length - 1);
    if (!clientCalls.has(type)) return true;
  }
  return false;
}

/** Returns true if a letter or an underscore may be written as an escape, so that a search misses a name. */
function hidesLetter(events: string): boolean {
  return escapedLetter.test(events);
}

const callEnd = '_call"';
/** Type of a block in which Anthropic's models call a tool of the gateway. */
const serverTool = '"server_tool_use"';
/** ASCII character whose code begins with 4 to 7, as those of letters and of the underscore do. */
const escapedLetter = /\\u00[4-7]/;
