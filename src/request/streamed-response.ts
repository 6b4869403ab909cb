import type { Refusal } from "../core/refusals.ts";
import { decodedBytesMax, decodeInto, isPlain } from "../wire/content-encoding.ts";
import type { Endpoint } from "../wire/endpoint.ts";
import { isEmpty } from "../wire/model-answer.ts";
import { AnswerFormReader } from "../wire/answer-form.ts";
import type { Clock } from "../ports/clock.ts";
import type { StreamAnswer } from "../wire/stream-output.ts";
import type { Transcript } from "../wire/stream-transcript.ts";
import { CutResponseFilter, UsageChunkFilter, type EventFilter } from "../wire/usage-chunk-filter.ts";
import { passOn, wholeEnding, writtenIn, type Ending, type ResponseDeps, type ResponseMode } from "./response.ts";
import type { StreamAccount, StreamMemory } from "./stream-memory.ts";
import type { StreamWatch } from "./stream-watch.ts";

/** Largest compressed stream that is kept for metering, in bytes. For a larger stream, the whole hold is posted. */
const compressedBytesMax = 8 * 1024 * 1024;

/** Messages for clients whose stream Farebox ended, by the reason in the charge's row. */
const stopMessages: Readonly<Record<string, string>> = {
  shutdown: "Farebox is shutting down.",
  time_limit: "The answer took longer than FAREBOX_STREAM_LIMIT allows.",
};

/** Rules for an answer that is passed on as a stream. */
export interface StreamRules {
  /** Endpoint that reads the answer. */
  readonly endpoint: Endpoint;
  /** True if the usage chunk is removed because the client did not ask for it. */
  readonly dropUsageChunk: boolean;
  /**
   * Refusal that ends a stream at the maximum that Farebox wrote. Null to pass on the gateway's own final event
   * instead.
   */
  readonly cutAtMaximum: Refusal | null;
  /** Watch over a stream that could outgrow its hold; undefined for other streams. */
  readonly watch: StreamWatch | undefined;
  /** Called when the answer has ended, although it may still have to be read. */
  readonly onOver?: () => void;
}

interface StreamedDeps extends ResponseDeps {
  readonly clock: Clock;
  readonly memory: StreamMemory;
}

/**
 * Passes a stream on. Sends each piece in the same turn of the event loop in which it arrived. Passes JSON that is
 * labelled as a stream on unchanged.
 */
export class StreamedResponse implements ResponseMode {
  readonly #deps: StreamedDeps;
  readonly #endpoint: Endpoint;
  readonly #reader: AnswerFormReader;
  /** Undefined if the stream cannot outgrow its hold. */
  readonly #watch: StreamWatch | undefined;
  #filter: EventFilter | undefined;
  readonly #cutAtMaximum: Refusal | null;
  readonly #onOver: (() => void) | undefined;
  readonly #plain: boolean;
  readonly #memory: StreamAccount;
  #bytes = 0;
  #compressed: Buffer[] = [];
  #lastWritten: Buffer = Buffer.alloc(0);
  /** True after the client's answer was ended early. */
  #isCutOff = false;

  constructor(deps: StreamedDeps, { endpoint, dropUsageChunk, cutAtMaximum, watch, onOver }: StreamRules) {
    this.#deps = deps;
    this.#memory = deps.memory.open();
    this.#endpoint = endpoint;
    this.#watch = watch;
    this.#onOver = onOver;
    this.#reader = new AnswerFormReader(endpoint, "events", watch?.output);
    this.#plain = isPlain(deps.head.header("content-encoding"));
    this.#cutAtMaximum = cutAtMaximum;
    if (this.#plain && dropUsageChunk) this.#filter = new UsageChunkFilter();
    else if (this.#plain && cutAtMaximum !== null) this.#filter = new CutResponseFilter();
    // Remove the length, because Farebox may add an error event or remove a chunk.
    deps.exchange.begin(
      deps.head.status,
      deps.headers.filter(([name]) => name.toLowerCase() !== "content-length"),
    );
    if (!this.#plain) this.#watch?.cannotRead();
  }

  chunk(bytes: Buffer, isLast: boolean): void {
    this.#readOrKeep(bytes);
    this.#boundMemory();
    if (this.#isCutOff) return;
    const toForward = this.#filter === undefined ? bytes : this.#filter.pass(bytes);
    const isAccepted = toForward.length === 0 || this.#write(toForward);
    const { events, json } = this.#reader;
    if (this.#watch === undefined) return;
    if (json !== undefined) return this.#watch.whole(this.#bytes);
    if (events !== undefined && this.#watch.mustRead(events.unreadBytes, isLast && isAccepted)) events.read();
    this.#watch.onChunk();
  }

  async end(): Promise<Ending> {
    const { exchange } = this.#deps;
    const reader = await this.#wholeReader();
    const rest = this.#filter?.rest();
    if (rest !== undefined && rest.length > 0) this.#write(rest);
    if (reader?.events === undefined) {
      const answer = reader?.end();
      this.#deps.onTerms(answer ?? null);
      exchange.end();
      return wholeEnding(answer, this.#bytes, this.#deps.ranMs());
    }
    // The client gets the end of its answer before Farebox reads what the answer cost.
    const { isComplete, answer: stated } = reader.events.tail();
    if (isComplete) this.#endComplete();
    const answer = stated ?? (await this.#readAll(reader.events));
    this.#deps.onTerms(answer);
    if (answer.finished) {
      if (!isComplete) this.#endComplete();
      if (answer.failed === true) return this.#cutEnding(answer, "gateway_failed");
      return { kind: "whole", ...writtenIn(answer), ranMs: this.#deps.ranMs() };
    }
    // The stream ended without a finish reason. Without an error event, clients could believe that the answer is
    // complete.
    this.#endBroken({
      code: "gateway_stream_broken",
      message: "The gateway ended the stream before the answer was complete.",
    });
    return this.#cutEnding(answer, "gateway_cut");
  }

  #endComplete(): void {
    if (this.#cutAtMaximum !== null && this.#filter?.hasRemoved === true) this.#endBroken(this.#cutAtMaximum);
    else this.#deps.exchange.end();
  }

  /** Reads everything in pieces, so that other requests do not wait for it. */
  async #readAll(events: Transcript): Promise<StreamAnswer> {
    this.#onOver?.();
    while (events.readPiece()) await new Promise<void>((resolve) => this.#deps.clock.after(0, resolve));
    return events.everything();
  }

  cutOff(reason: string, refusal: Refusal): void {
    if (this.#isCutOff) return;
    this.#isCutOff = true;
    const message = stopMessages[reason] ?? "The gateway broke off in the middle of the stream.";
    // Nothing may follow the gateway's own error event.
    if (this.#plain && this.#reader.events?.statesError() === true) this.#deps.exchange.end();
    else this.#endBroken(reason === refusal.code ? refusal : { code: "gateway_stream_broken", message });
  }

  async broken(reason: string, refusal: Refusal, isUnread: boolean): Promise<Ending> {
    this.cutOff(reason, refusal);
    const reader = await this.#wholeReader();
    if (reader?.events === undefined) return { kind: "unknown", reason, unreadBytes: this.#bytes };
    const answer = await this.#readAll(reader.events);
    this.#deps.onTerms(answer);
    return this.#cutEnding(answer, reason, isUnread);
  }

  /** Returns the ending of a stream that broke off, or that states an error. */
  #cutEnding(answer: StreamAnswer, reason: string, isUnread = false): Ending {
    const { error, texts, uncountable } = answer;
    if (error !== undefined && isEmpty(answer)) return { kind: "error", error };
    // A model that failed before its first output wrote nothing unseen.
    const isBeforeOutput = error !== undefined && texts.length === 0 && uncountable === undefined;
    const ranMs = isBeforeOutput ? 0 : this.#deps.ranMs();
    return { kind: "cut", ...writtenIn(answer), reason, ranMs, ...(isUnread && { isUnread }) };
  }

  release(): void {
    this.#memory.set(0);
  }

  /** Reads the kept bytes at once if the streams of this process keep too many. */
  #boundMemory(): void {
    const { events } = this.#reader;
    if (events === undefined || this.#memory.set(events.keptBytes)) return;
    events.read();
    this.#memory.set(events.keptBytes);
  }

  #write(bytes: Buffer): boolean {
    this.#lastWritten = bytes;
    return passOn(this.#deps, bytes);
  }

  /**
   * Ends the stream with Farebox's error event. Aborts JSON and a compressed stream, to which no event can be added.
   */
  #endBroken(refusal: Refusal): void {
    const { exchange } = this.#deps;
    if (exchange.clientGone) return;
    if (!this.#plain || this.#reader.json !== undefined) {
      exchange.breakOff();
      return;
    }
    exchange.span?.note({ refusal: refusal.code });
    const gap = this.#lastWritten.length === 0 || endsEvent(this.#lastWritten) ? "" : "\n\n";
    exchange.write(Buffer.from(gap + this.#endpoint.breakEvent(refusal, exchange.id)));
    exchange.end();
  }

  #readOrKeep(bytes: Buffer): void {
    this.#bytes += bytes.length;
    if (!this.#plain) {
      if (this.#bytes <= compressedBytesMax) this.#compressed.push(bytes);
      return;
    }
    const wasJson = this.#reader.json !== undefined;
    this.#reader.push(bytes);
    if (!wasJson && this.#reader.json !== undefined) this.#passUnchanged();
  }

  /** Passes the rest of the answer on unchanged, because it is JSON. */
  #passUnchanged(): void {
    const rest = this.#filter?.rest();
    this.#filter = undefined;
    if (rest !== undefined && rest.length > 0 && !this.#isCutOff) this.#write(rest);
  }

  /** Returns the reader of all bytes; undefined if the answer cannot be decoded. */
  async #wholeReader(): Promise<AnswerFormReader | undefined> {
    const reader = this.#plain ? this.#reader : await this.#decoded();
    reader?.finish();
    return reader;
  }

  async #decoded(): Promise<AnswerFormReader | undefined> {
    if (this.#bytes > compressedBytesMax) return undefined;
    const encoding = this.#deps.head.header("content-encoding") ?? "";
    const reader = new AnswerFormReader(this.#endpoint, "events");
    const isRead = await decodeInto(Buffer.concat(this.#compressed), encoding, decodedBytesMax, (piece) =>
      reader.push(piece),
    );
    return isRead ? reader : undefined;
  }
}

function endsEvent(bytes: Buffer): boolean {
  const end = bytes.toString("latin1", Math.max(0, bytes.length - 4));
  return end.endsWith("\n\n") || end.endsWith("\r\n\r\n") || end.endsWith("\r\r");
}
