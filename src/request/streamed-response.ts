import type { Refusal } from "../core/refusals.ts";
import { decodedBytesMax, decodeInto, isPlain } from "../wire/headers.ts";
import type { Endpoint } from "../wire/endpoint.ts";
import type { StreamAnswer, Transcript } from "../wire/stream-output.ts";
import { CutResponseFilter, UsageChunkFilter, type EventFilter } from "../wire/usage-chunk-filter.ts";
import { passOn, writtenIn, type Ending, type ResponseDeps, type ResponseMode } from "./response.ts";
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
}

/** Passes a stream on. Sends each piece in the same turn of the event loop in which it arrived. */
export class StreamedResponse implements ResponseMode {
  readonly #deps: ResponseDeps;
  readonly #endpoint: Endpoint;
  readonly #transcript: Transcript;
  /** Undefined if the stream cannot outgrow its hold. */
  readonly #watch: StreamWatch | undefined;
  readonly #filter: EventFilter | undefined;
  readonly #cutAtMaximum: Refusal | null;
  readonly #plain: boolean;
  #compressed: Buffer[] = [];
  #compressedBytes = 0;
  #last: Buffer = Buffer.alloc(0);

  constructor(deps: ResponseDeps, { endpoint, dropUsageChunk, cutAtMaximum, watch }: StreamRules) {
    this.#deps = deps;
    this.#endpoint = endpoint;
    this.#watch = watch;
    this.#transcript = endpoint.transcript(watch?.output);
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
    this.#remember(bytes);
    const leaving = this.#filter === undefined ? bytes : this.#filter.pass(bytes);
    const isTaken = leaving.length === 0 || this.#write(leaving);
    if (this.#watch === undefined) return;
    if (this.#plain && this.#watch.mustRead(this.#transcript.unreadBytes, isLast && isTaken)) this.#transcript.read();
    this.#watch.onChunk();
  }

  async end(): Promise<Ending> {
    const answer = this.#plain ? this.#transcript.end() : await this.#decodedAnswer();
    this.#deps.stated(answer ?? null);
    const rest = this.#filter?.rest();
    if (rest !== undefined && rest.length > 0) this.#write(rest);
    if (answer === undefined) {
      this.#deps.exchange.end();
      return { kind: "unknown", reason: "unreadable_answer", unreadBytes: this.#compressedBytes };
    }
    if (answer.finished) {
      if (this.#cutAtMaximum !== null && this.#filter?.hasRemoved === true) this.#endBroken(this.#cutAtMaximum);
      else this.#deps.exchange.end();
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

  async broken(reason: string, refusal: Refusal): Promise<Ending> {
    const message = stopMessages[reason] ?? "The gateway broke off in the middle of the stream.";
    this.#endBroken(reason === refusal.code ? refusal : { code: "gateway_stream_broken", message });
    const answer = this.#plain ? this.#transcript.everything() : await this.#decodedAnswer();
    if (answer === undefined) return { kind: "unknown", reason, unreadBytes: this.#compressedBytes };
    this.#deps.stated(answer);
    return this.#cutEnding(answer, reason);
  }

  #cutEnding(answer: StreamAnswer, reason: string): Ending {
    return { kind: "cut", ...writtenIn(answer), reason, ranMs: this.#deps.ranMs() };
  }

  #write(bytes: Buffer): boolean {
    this.#last = bytes;
    return passOn(this.#deps, bytes);
  }

  /** Ends the stream with Farebox's error event. Aborts a compressed stream, to which no event can be added. */
  #endBroken(refusal: Refusal): void {
    const { exchange } = this.#deps;
    if (exchange.clientGone) return;
    if (!this.#plain) {
      exchange.breakOff();
      return;
    }
    exchange.span?.note({ refusal: refusal.code });
    const gap = this.#last.length === 0 || endsEvent(this.#last) ? "" : "\n\n";
    exchange.write(Buffer.from(gap + this.#endpoint.breakEvent(refusal)));
    exchange.end();
  }

  #remember(bytes: Buffer): void {
    if (this.#plain) {
      this.#transcript.push(bytes);
      return;
    }
    this.#compressedBytes += bytes.length;
    if (this.#compressedBytes <= compressedBytesMax) this.#compressed.push(bytes);
  }

  async #decodedAnswer(): Promise<StreamAnswer | undefined> {
    if (this.#compressedBytes > compressedBytesMax) return undefined;
    const encoding = this.#deps.head.header("content-encoding") ?? "";
    const transcript = this.#endpoint.transcript();
    const isRead = await decodeInto(Buffer.concat(this.#compressed), encoding, decodedBytesMax, (piece) =>
      transcript.push(piece),
    );
    return isRead ? transcript.end() : undefined;
  }
}

function endsEvent(bytes: Buffer): boolean {
  const end = bytes.toString("latin1", Math.max(0, bytes.length - 4));
  return end.endsWith("\n\n") || end.endsWith("\r\n\r\n") || end.endsWith("\r\r");
}
