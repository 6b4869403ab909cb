import type { Refusal } from "../core/refusals.ts";

/** A request's body, or the reason why it could not be read. */
export type BodyResult =
  | { readonly ok: true; readonly bytes: Buffer; readonly release: () => void }
  | { readonly ok: false; readonly refusal: Refusal | null };

/** A body that is read while it arrives. */
export interface OpenBody {
  /** Length that the client stated, in bytes; null if it stated none. */
  readonly length: number | null;
  /** Starts reading. Called once. */
  read(receiver: BodyReceiver): void;
  /** Stops reading from the client until `resume`. */
  pause(): void;
  resume(): void;
}

/** Receives any number of chunks, then exactly one of `end` and `fail`. */
export interface BodyReceiver {
  chunk(bytes: Buffer): void;
  end(): void;
  /** Reports a body that is too large or has stalled. With null, the client has disconnected. */
  fail(refusal: Refusal | null): void;
}

export type BodyOpening =
  | { readonly ok: true; readonly body: OpenBody }
  | { readonly ok: false; readonly refusal: Refusal };

/** Names and values of headers, in the order in which they are sent. */
export type HeaderList = readonly (readonly [name: string, value: string])[];

/** One request of a client and its answer, independent of the web framework. */
export interface Exchange {
  /** Farebox's id of the request, ordered by time (UUID v7). Sent as `x-farebox-request-id`; also the charge's id. */
  readonly id: string;
  /** Arrival time on the clock's monotonic scale. */
  readonly startedAt: number;
  readonly method: string;
  /** Path without query, checked and with its prefix restored, such as "/v1/chat/completions". */
  readonly path: string;
  /** Query with its question mark, or "". */
  readonly query: string;
  /** Returns a header by its lower-case name; undefined if absent. Repeated values are joined as HTTP defines. */
  header(name: string): string | undefined;
  headers(): Iterable<readonly [name: string, value: string]>;
  /** True if the request came from this machine, under a loopback name and without a forwarder. */
  readonly isLocal: boolean;
  /** Remote address of the connection; "" after it has closed. */
  readonly remoteAddress: string;

  /**
   * Reads the whole body once, within the limits. `refusal` is null if the client disconnects meanwhile. `limitBytes`: limit
   * for this path, below the general limit.
   */
  readBody(limitBytes?: number): Promise<BodyResult>;
  /** Opens the body for reading as it arrives, within the size limit of one request. Replaces `readBody`. */
  openBody(): BodyOpening | Promise<BodyOpening>;

  /** True if the client disconnected before its answer was complete. */
  readonly clientGone: boolean;
  /** Calls back once if the client disconnects before its answer is complete. Allows one listener. */
  onClientGone(listener: () => void): void;

  /**
   * Adds headers to the answer. `headers` is called when the head is sent. If it returns any, other headers whose
   * lower-case names begin with `prefix` are removed.
   */
  replaceHeaders(prefix: string, headers: () => HeaderList): void;
  /** Sends status and headers now, without waiting for a body. */
  begin(status: number, headers: HeaderList): void;
  /** Passes bytes on in this tick. Returns false if the client is slow: wait for `onDrain`. */
  write(bytes: Uint8Array): boolean;
  /** Calls back once, when the client has received the written bytes. */
  onDrain(listener: () => void): void;
  end(): void;
  /** Sends the whole answer at once. */
  answer(status: number, headers: HeaderList, body: Uint8Array | string): void;
  /** Answers with an error of Farebox in OpenAI's format. */
  refuse(refusal: Refusal, extraHeaders?: HeaderList): void;
  /** Breaks the connection, so that the client cannot mistake a partial answer for a complete one. */
  breakOff(): void;
  /** Status that was sent; null before the head is sent. */
  readonly status: number | null;
}
