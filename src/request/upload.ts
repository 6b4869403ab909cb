import type { Refusal } from "../core/refusals.ts";
import { type OpenBody, BodyBytes, type Exchange } from "../ports/exchange.ts";
import type { BodySink, StreamedBody } from "../ports/gateway.ts";
import type { Endpoint } from "../wire/endpoint.ts";
import { FormWatch, type FormReader, type FormSeal } from "../wire/form.ts";
import type { ModelRequestResult } from "../wire/model-request.ts";
import { boundaryOf, FormScanner } from "../wire/multipart.ts";

/** Number of bytes after which a body is priced, even if its observer does not have enough. */
const headBytesMax = 64 * 1024;

/** Receives every byte of an upload as it arrives. */
interface UploadObserver {
  push(bytes: Buffer): void;
  /** True once the request can be priced. */
  readonly isEnough: boolean;
}

/** Result of reading the first bytes. The refusal is null if the client has left. */
type UploadHead = { readonly ok: true } | { readonly ok: false; readonly refusal: Refusal | null };

/**
 * Request body that is passed on while it arrives. The first bytes (the head) are kept until the hold is placed. Later
 * bytes are passed on as they arrive, but no faster than the gateway accepts them.
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

  /** True once the whole body has been passed on. */
  get isComplete(): boolean {
    return this.#sentWhole;
  }

  /** Bytes that are kept until the request is sent. */
  get head(): Buffer {
    return Buffer.concat(this.#head);
  }

  /** True if the head is the whole body. */
  get isShort(): boolean {
    return this.#ended;
  }

  /** Reads until the observer has enough to price the request, or until `headBytesMax` bytes. */
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

  /** Sets the listener that is called once if the body cannot be completed; with null if the client has left. */
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

  /** Ends the upload with a refusal. */
  refuse(refusal: Refusal): void {
    this.#fail(refusal);
  }

  /** Discards the kept bytes, and reads and discards all later bytes. Called when the request has ended. */
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

/** Body of a request. Farebox holds it whole, or reads it while passing it on. */
export interface RequestBody {
  /**
   * Bytes that were read before the request is sent: the whole body, or its first bytes if it is passed on as it
   * arrives.
   */
  readonly seen: BodyBytes;
  /** Body to send. */
  readonly sent: BodyBytes | Upload | undefined;
  /** True if parts of a form may still arrive that could name another model. */
  readonly isOpen: boolean;
  read(): ModelRequestResult;
  /** Restricts the parts that may still arrive. Called once the hold is placed. */
  seal(seal: FormSeal): void;
  /** Names of unknown parts that arrived after `seal`. */
  readonly lateUnknown: readonly string[];
  /** True if a field that may ask for an answer as text arrived after `read`. */
  readonly hasLateFormat?: boolean;
  /** Returns the largest number of seconds of an uploaded recording; undefined if the body does not bound them. */
  soundSeconds?(): number | undefined;
  /** Frees the memory of the body. */
  release(): void;
}

export type RequestBodyResult =
  | { readonly ok: true; readonly body: RequestBody }
  /** `refusal` is null if the client has left. */
  | { readonly ok: false; readonly refusal: Refusal | null };

/** Opens a body of any kind, and reads its first bytes. */
export async function openAny(exchange: Exchange, endpoint: Endpoint): Promise<RequestBodyResult> {
  const opened = await exchange.openBody();
  if (!opened.ok) return opened;
  const upload = new Upload(opened.body, { push: () => undefined, isEnough: false });
  const head = await upload.readHead();
  if (!head.ok) return head;
  const seen = new BodyBytes([upload.head]);
  const sent = opened.body.length === 0 ? undefined : upload;
  return {
    ok: true,
    body: {
      seen,
      sent,
      isOpen: false,
      read: () => endpoint.readRequest(seen.whole),
      seal: () => undefined,
      lateUnknown: [],
      release: () => discard(upload),
    },
  };
}

function discard(upload: Upload): void {
  if (!upload.isComplete) upload.discard();
}

export async function openForm(exchange: Exchange, form: FormReader, contentType: string): Promise<RequestBodyResult> {
  const opened = await exchange.openBody();
  if (!opened.ok) return opened;
  const boundary = boundaryOf(contentType);
  const watch = new FormWatch(form);
  const scanner = boundary === undefined ? undefined : new FormScanner(boundary, watch);
  if (scanner === undefined) watch.unclear();
  const upload = new Upload(opened.body, {
    push: (bytes) => scanner?.push(bytes),
    get isEnough() {
      return watch.isEnough;
    },
  });
  const head = await upload.readHead();
  if (!head.ok) return head;
  const seen = new BodyBytes([upload.head]);
  const facts = watch.head({ isOpen: !upload.isShort, bytes: seen.length });
  return {
    ok: true,
    body: {
      seen,
      sent: upload,
      isOpen: facts.isOpen,
      read: () => form.read(facts),
      seal: (seal) => watch.seal(seal, (refusal) => upload.refuse(refusal)),
      get lateUnknown() {
        return watch.lateUnknown;
      },
      get hasLateFormat() {
        return watch.hasLateFormat;
      },
      // The gateway could read another recording if the form had fields that Farebox does not know.
      soundSeconds: () => (upload.isComplete && watch.lateUnknown.length === 0 ? watch.soundSeconds() : undefined),
      release: () => discard(upload),
    },
  };
}
