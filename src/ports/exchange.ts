import type { Refusal } from "../core/refusals.ts";
import type { RefusedRequest } from "./events.ts";
import type { RequestSpan } from "./tracing.ts";
import { LedgerUnavailable } from "./ledger.ts";

/** Bytes of a body. They stay in the pieces in which they arrived until `whole` is read. */
export class BodyBytes {
  readonly length: number;
  #pieces: readonly Buffer[];

  constructor(pieces: readonly Buffer[]) {
    this.#pieces = pieces;
    this.length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  }

  get pieces(): readonly Buffer[] {
    return this.#pieces;
  }

  /** The bytes in one piece. The first read joins the pieces. */
  get whole(): Buffer {
    const [first] = this.#pieces;
    if (this.#pieces.length === 1 && first !== undefined) return first;
    const whole = Buffer.concat(this.#pieces, this.length);
    this.#pieces = [whole];
    return whole;
  }
}

/**
 * A request's body, or the reason why it could not be read. `release` frees the memory that the body occupies; calling
 * it again has no effect.
 */
export type BodyResult =
  | { readonly ok: true; readonly bytes: BodyBytes; readonly release: () => void }
  | { readonly ok: false; readonly refusal: Refusal | null };

/** Names and values of headers, in the order in which they are sent. */
export type HeaderList = readonly (readonly [name: string, value: string])[];

/** One request of a client and its answer, independent of the web framework. */
export interface Exchange {
  /** Farebox's id of the request, ordered by time (UUID v7). Sent as `x-farebox-request-id`; also the charge's id. */
  readonly id: string;
  /** Arrival time on the clock's monotonic scale. */
  readonly startedAt: number;
  readonly method: string;
  /** Checked path without query, such as "/v1/chat/completions". If the client left out `/v1`, it is added. */
  readonly path: string;
  /** Query with its question mark, or "". */
  readonly query: string;
  /** Returns a header by its lower-case name; undefined if absent. Repeated values are joined as HTTP defines. */
  header(name: string): string | undefined;
  headers(): Iterable<readonly [name: string, value: string]>;
  /** True if the request came from this machine, for a loopback host name and not through another proxy. */
  readonly isLocal: boolean;
  /** Remote address of the connection; "" after it has closed. */
  readonly remoteAddress: string;
  /** True if the body has not arrived completely, and its rest may be large. */
  readonly hasLargeRemainder: boolean;

  /**
   * Reads the whole body once, decoded. `limitBytes`: size limit of this path, below the general limit. The body's memory
   * counts for the key of `recordAs`. In the result, `refusal` is null if the client disconnected.
   */
  readBody(limitBytes?: number): Promise<BodyResult>;

  /** True if the client disconnected before its answer was complete. */
  readonly clientGone: boolean;
  /** Calls back once if the client disconnects before its answer is complete. Allows one listener. */
  onClientGone(listener: () => void): void;

  /**
   * Adds headers to the answer. `headers` is called when the head is sent. If the call returns any headers, they
   * replace all headers of the answer whose lower-case names begin with `prefix`.
   */
  replaceHeaders(prefix: string, headers: () => HeaderList): void;
  /** Sends status and headers now, without waiting for a body. */
  begin(status: number, headers: HeaderList): void;
  /** Sends bytes in this turn. Returns false if the client is slow: callers then wait for `onDrain`. */
  write(bytes: Uint8Array): boolean;
  /** Calls back once, when the connection accepts more bytes. */
  onDrain(listener: () => void): void;
  end(): void;
  /** Sends the whole answer at once. */
  answer(status: number, headers: HeaderList, body: Uint8Array | string): void;
  /** Answers with a refusal, in the error format of the client's interface. */
  refuse(refusal: Refusal, extraHeaders?: HeaderList): void;
  /** Breaks the connection, so that the client cannot mistake a partial answer for a complete one. */
  breakOff(): void;
  /** Status that was sent; null before the head is sent. */
  readonly status: number | null;
  /** Request to record with a refusal, as far as it is known; null if refusals of this request are not recorded. */
  recordAs: RefusedRequest | null;
  /** Span of the request; null if it is not traced. */
  span: RequestSpan | null;
}

/** Data about an answered exchange, for its metrics and its log line. */
export interface Summary {
  /** Id of the model in the catalogue, or `other` for an unknown model. Null if the request needs no model. */
  readonly model: string | null;
  readonly stream: boolean;
  /** Time from arrival to the first byte of the answer, in milliseconds; null if there was no answer. */
  readonly firstTokenMs: number | null;
  /** Time from arrival to the call to the gateway, in milliseconds; null if nothing was sent. */
  readonly overheadMs: number | null;
  /** Route of the exchange, if it differs from the registered path. */
  readonly route?: string;
  /** Error thrown by a bug after the request was admitted; undefined for none. */
  readonly error?: unknown;
}

/** Answers one exchange. Resolves when its answer is complete. */
export type Handler = (exchange: Exchange) => Promise<Summary>;

/** Summary of an exchange that never reached the gateway. */
export const notForwarded: Summary = { model: null, stream: false, firstTokenMs: null, overheadMs: null };

/** Answers with a refusal. Returns the summary of the exchange. */
export function refuse(exchange: Exchange, refusal: Refusal): Summary {
  exchange.refuse(refusal);
  return notForwarded;
}

/** Returns the refusal code for a request that ended with an exception. */
export function faultCode(error: unknown): "ledger_unavailable" | "internal_error" {
  return error instanceof LedgerUnavailable ? "ledger_unavailable" : "internal_error";
}
