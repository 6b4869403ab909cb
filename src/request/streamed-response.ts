import type { Refusal } from "../core/refusals.ts";
import { decodedBytesMax, decodeInto, isPlain } from "../wire/headers.ts";
import type { Endpoint } from "../wire/endpoint.ts";
import type { StreamAnswer, Transcript } from "../wire/stream-output.ts";
import { CutResponseFilter, UsageChunkFilter, type EventFilter } from "../wire/usage-chunk-filter.ts";
import { passOn, writtenIn, type Ending, type ResponseDeps, type ResponseMode } from "./response.ts";
import type { StreamWatch } from "./stream-watch.ts";

/** Bytes of a compressed stream kept for metering; a longer one is settled at its hold. */
const compressedBytesMax = 8 * 1024 * 1024;

/** Messages for clients whose stream Farebox ended, by the reason in the charge's row. */
const brokenByUs: Readonly<Record<string, string>> = {
  shutdown: "Farebox is shutting down.",
  time_limit: "The answer took longer than FAREBOX_STREAM_LIMIT allows.",
};

/** Passes a stream: each chunk leaves in the tick in which it arrived, headers before the first. */
export class StreamedResponse implements ResponseMode {
  readonly #deps: ResponseDeps & { readonly endpoint: Endpoint };
  readonly #transcript: Transcript;
  /** Set where the stream could outgrow its hold. */
  readonly #watch: StreamWatch | undefined;
  readonly #filter: EventFilter | undefined;
  readonly #cutAtMaximum: Refusal | null;
  readonly #plain: boolean;
  #compressed: Buffer[] = [];
  #compressedBytes = 0;
  #last: Buffer = Buffer.alloc(0);

  constructor(
    deps: ResponseDeps & {
      readonly endpoint: Endpoint;
      readonly dropUsageChunk: boolean;
      readonly cutAtMaximum: Refusal | null;
      readonly watch: StreamWatch | undefined;
    },
  ) {
    this.#deps = deps;
    this.#watch = deps.watch;
    this.#transcript = deps.endpoint.transcript(deps.watch?.output, deps.watch?.unreadBytes);
    this.#plain = isPlain(deps.head.header("content-encoding"));
    this.#cutAtMaximum = deps.cutAtMaximum;
    if (this.#plain && deps.dropUsageChunk) this.#filter = new UsageChunkFilter();
    else if (this.#plain && deps.cutAtMaximum !== null) this.#filter = new CutResponseFilter();
    // A stated length would leave no room for an error event of ours at the end.
    deps.exchange.begin(
      deps.head.status,
      deps.headers.filter(([name]) => name.toLowerCase() !== "content-length"),
    );
    if (!this.#plain) this.#watch?.cannotRead();
  }

  chunk(bytes: Buffer): void {
    this.#remember(bytes);
    const leaving = this.#filter === undefined ? bytes : this.#filter.pass(bytes);
    if (leaving.length > 0) this.#write(leaving);
    this.#watch?.onChunk();
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
      if (this.#cutAtMaximum !== null && this.#filter?.hasDropped === true) this.#endBroken(this.#cutAtMaximum);
      else this.#deps.exchange.end();
      if (answer.failed === true) return this.#cut(answer, "gateway_failed");
      return { kind: "whole", ...writtenIn(answer), ranMs: this.#deps.ranMs() };
    }
    // A clean end without a finish reason: clients would take the piece for a whole answer.
    this.#endBroken({
      code: "gateway_stream_broken",
      message: "The gateway ended the stream before the answer was complete.",
    });
    return this.#cut(answer, "gateway_cut");
  }

  async broken(reason: string, refusal: Refusal): Promise<Ending> {
    const message = brokenByUs[reason] ?? "The gateway broke off in the middle of the stream.";
    this.#endBroken(reason === refusal.code ? refusal : { code: "gateway_stream_broken", message });
    const answer = this.#plain ? this.#transcript.everything() : await this.#decodedAnswer();
    if (answer === undefined) return { kind: "unknown", reason, unreadBytes: this.#compressedBytes };
    this.#deps.stated(answer);
    return this.#cut(answer, reason);
  }

  #cut(answer: StreamAnswer, reason: string): Ending {
    return { kind: "cut", ...writtenIn(answer), reason, ranMs: this.#deps.ranMs() };
  }

  #write(bytes: Buffer): void {
    this.#last = bytes;
    passOn(this.#deps, bytes);
  }

  /** Ends the stream with an event of our own; breaks off a compressed one, which takes none. */
  #endBroken(refusal: Refusal): void {
    const { exchange, endpoint } = this.#deps;
    if (exchange.clientGone) return;
    if (!this.#plain) {
      exchange.breakOff();
      return;
    }
    const gap = this.#last.length === 0 || endsEvent(this.#last) ? "" : "\n\n";
    exchange.write(Buffer.from(gap + endpoint.breakEvent(refusal)));
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
    const transcript = this.#deps.endpoint.transcript();
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
