import type { Refusal } from "../core/refusals.ts";

/** A request's body, or why there is none. */
export type BodyResult =
  | { readonly ok: true; readonly bytes: Buffer; readonly release: () => void }
  | { readonly ok: false; readonly refusal: Refusal | null };

/** A body that is read as it comes. */
export interface OpenBody {
  /** As the client stated it, in bytes; null where it stated none. */
  readonly length: number | null;
  /** Begins to read, once. */
  read(receiver: BodyReceiver): void;
  /** Stops the client, and lets it go on. */
  pause(): void;
  resume(): void;
}

/** Receives any number of chunks, then exactly one of `end` and `fail`. */
export interface BodyReceiver {
  chunk(bytes: Buffer): void;
  end(): void;
  /** It is larger than it may be, or does not move, or, with null, its client has gone. */
  fail(refusal: Refusal | null): void;
}

export type BodyOpening =
  | { readonly ok: true; readonly body: OpenBody }
  | { readonly ok: false; readonly refusal: Refusal };

/** Name and value, in the order in which they leave. */
export type HeaderList = readonly (readonly [name: string, value: string])[];

/** One request of a client and the answer to it, without the web framework. */
export interface Exchange {
  /** Ours, time-ordered (UUID v7): `x-farebox-request-id`, and the charge's id. */
  readonly id: string;
  /** Arrival time on the clock's monotonic scale. */
  readonly startedAt: number;
  readonly method: string;
  /** Path without query, checked and with its prefix restored: "/v1/chat/completions". */
  readonly path: string;
  /** The query with its question mark, or "". */
  readonly query: string;
  /** Lower-case name; undefined when absent. Repeated values are joined as HTTP joins them. */
  header(name: string): string | undefined;
  headers(): Iterable<readonly [name: string, value: string]>;
  /** True if it came from this machine, under a loopback name and without a forwarder. */
  readonly isLocal: boolean;
  /** The address that the connection came from; "" where it is gone. */
  readonly remoteAddress: string;

  /** Reads the whole body once, within the limits. `refusal` is null when the client left meanwhile. */
  /** `limitBytes`: a limit of this path's own, below the one of all. */
  readBody(limitBytes?: number): Promise<BodyResult>;
  /** Opens the body for reading as it arrives, within the size limit of one request. Replaces `readBody`. */
  openBody(): BodyOpening | Promise<BodyOpening>;

  /** True if the client left before its answer was complete. */
  readonly clientGone: boolean;
  /** At most one listener; called once, when the client goes before its answer is complete. */
  onClientGone(listener: () => void): void;

  /**
   * Adds own headers to the answer, evaluated when its head is sent. If there are any, other headers whose lower-case
   * names begin with `prefix` are removed.
   */
  replaceHeaders(prefix: string, headers: () => HeaderList): void;
  /** Sends status and headers now, without waiting for a body. */
  begin(status: number, headers: HeaderList): void;
  /** Passes bytes on in this tick; false when the client is slow: wait for `onDrain`. */
  write(bytes: Uint8Array): boolean;
  /** Calls back once, when the client has taken what was written. */
  onDrain(listener: () => void): void;
  end(): void;
  /** The whole answer at once. */
  answer(status: number, headers: HeaderList, body: Uint8Array | string): void;
  /** Our own error in OpenAI's shape. */
  refuse(refusal: Refusal, extraHeaders?: HeaderList): void;
  /** Breaks the connection, so that the client cannot take a partial answer for a whole one. */
  breakOff(): void;
  /** Status sent so far; null before the head. */
  readonly status: number | null;
}
