import type { Refusal } from "../core/refusals.ts";
import type { OpenBody } from "../ports/exchange.ts";
import type { BodySink, StreamedBody } from "../ports/gateway.ts";

/** Bytes of a body that are read before it is priced. */
const headBytesMax = 64 * 1024;

/** Reads every byte of an upload as it passes. */
interface UploadObserver {
  push(bytes: Buffer): void;
  /** True when enough was seen to price the request. */
  readonly isEnough: boolean;
}

/** Result of reading the first bytes. A refusal of null: the client has gone. */
type UploadHead = { readonly ok: true } | { readonly ok: false; readonly refusal: Refusal | null };

/**
 * A request body that passes through. Its first bytes are kept until the request is held for; the rest follows as it
 * arrives, no faster than the gateway accepts it.
 */
export class Upload implements StreamedBody {
  readonly length: number | null;
  readonly #body: OpenBody;
  readonly #observer: UploadObserver;
  #head: Buffer[] = [];
  #headBytes = 0;
  #headRead: ((head: UploadHead) => void) | undefined;
  #sink: BodySink | undefined;
  #onBroken: ((refusal: Refusal | null) => void) | undefined;
  #ended = false;
  #sentWhole = false;
  #discarding = false;

  constructor(body: OpenBody, observer: UploadObserver) {
    this.length = body.length;
    this.#body = body;
    this.#observer = observer;
  }

  /** True when all of it has been passed on. */
  get isComplete(): boolean {
    return this.#sentWhole;
  }

  /** Bytes that are kept, once its head has been read. */
  get head(): Buffer {
    return Buffer.concat(this.#head);
  }

  /** True where the head is all of it. */
  get isShort(): boolean {
    return this.#ended;
  }

  /** Reads until the observer has seen enough, at most `headBytesMax`. */
  readHead(): Promise<UploadHead> {
    const { promise, resolve } = Promise.withResolvers<UploadHead>();
    this.#headRead = resolve;
    this.#body.read({
      chunk: (bytes) => this.#chunk(bytes),
      end: () => this.#end(),
      fail: (refusal) => this.#fail(refusal),
    });
    return promise;
  }

  /** Sets the listener for a body that cannot come to its end: called once, with null where its client has gone. */
  onBroken(listener: (refusal: Refusal | null) => void): void {
    this.#onBroken = listener;
  }

  start(sink: BodySink): void {
    this.#sink = sink;
    const head = this.#head;
    this.#head = [];
    let isTaken = true;
    for (const bytes of head) isTaken = sink.write(bytes);
    if (this.#ended) this.#endSink();
    else if (isTaken) this.#body.resume();
  }

  resume(): void {
    if (this.#sink !== undefined) this.#body.resume();
  }

  /** Ends it with a refusal. */
  refuse(refusal: Refusal): void {
    this.#fail(refusal);
  }

  /** Discards the bytes that are still to come: the answer is there already. */
  discard(): void {
    this.#discarding = true;
    this.#head = [];
    this.#body.resume();
  }

  #chunk(bytes: Buffer): void {
    if (this.#discarding) return;
    this.#observer.push(bytes);
    if (this.#discarding) return;
    if (this.#sink !== undefined) {
      if (!this.#sink.write(bytes)) this.#body.pause();
      return;
    }
    this.#head.push(bytes);
    this.#headBytes += bytes.length;
    if (this.#headBytes < headBytesMax && !this.#observer.isEnough) return;
    this.#body.pause();
    this.#endHead({ ok: true });
  }

  #end(): void {
    this.#ended = true;
    this.#endHead({ ok: true });
    if (this.#sink !== undefined && !this.#discarding) this.#endSink();
  }

  #endSink(): void {
    this.#sentWhole = true;
    this.#sink?.end();
  }

  #fail(refusal: Refusal | null): void {
    if (this.#discarding || this.#sentWhole) return;
    this.#discarding = true;
    this.#endHead({ ok: false, refusal });
    this.#onBroken?.(refusal);
  }

  #endHead(head: UploadHead): void {
    this.#headRead?.(head);
    this.#headRead = undefined;
  }
}
