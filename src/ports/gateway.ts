import type { BodyBytes } from "./exchange.ts";

/** Header in which a credential is sent: as a bearer token, or alone. */
export type CredentialHeader = "authorization" | "x-api-key";

/** One request to the gateway. `headers` never contains the gateway's credential; the adapter adds it. */
export interface GatewayRequest {
  readonly method: string;
  /** Path from the root and query as the gateway expects them, such as "/v1/chat/completions". */
  readonly path: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** Headers for the gateway's credential; by default, the one that the gateway documents for the path. */
  readonly credential?: readonly CredentialHeader[] | undefined;
  /** The exact bytes to send; undefined for a request without a body. */
  readonly body: BodyBytes | undefined;
  /** Longest time without a byte before the call fails as `silent`, in milliseconds. */
  readonly silenceMs: number;
}

export interface GatewayHead {
  readonly status: number;
  readonly statusText: string;
  /** Names and values in turn, as received. Repeated headers are not joined. */
  readonly rawHeaders: readonly string[];
  /** Returns the value of a header by its lower-case name. Returns the last value of a repeated header. */
  header(name: string): string | undefined;
}

export type GatewayFailure =
  /** No connection was made, so not a single byte was sent. */
  | { readonly kind: "unreachable"; readonly message: string }
  /**
   * A proxy of the network made no connection to the gateway, so not a single byte was sent. `message` names the proxy
   * and continues a sentence.
   */
  | { readonly kind: "proxy_failed"; readonly message: string }
  /**
   * A connection that had carried another request before broke, before the first byte of an answer. Probably the gateway
   * had closed it for being idle, but it may have read the request.
   */
  | { readonly kind: "reset_reused"; readonly message: string }
  /** The connection broke otherwise, before or after the head. */
  | { readonly kind: "reset"; readonly message: string }
  /** No byte arrived for `silenceMs`. */
  | { readonly kind: "silent" }
  /** A redirect that must not be followed: to another origin, or too many. */
  | { readonly kind: "redirect"; readonly status: number };

/**
 * Receives one answer, in this order: at most one `head`, any number of `chunk`, then exactly one of `end` and `fail`.
 */
export interface GatewayReceiver {
  head(head: GatewayHead): void;
  /**
   * Receives all bytes of one read from the connection, in the same turn of the event loop. The receiver may keep them.
   * `isLast`: true if these bytes are known to complete the answer.
   */
  chunk(bytes: Uint8Array, isLast: boolean): void;
  /** Reports that the answer is complete according to its HTTP framing. */
  end(): void;
  fail(failure: GatewayFailure): void;
}

export interface GatewayCall {
  /** True if bytes of the request may have reached the gateway. */
  readonly sent: boolean;
  /**
   * Stops reading from the gateway until `resume`, and delays `end`. Silence during the pause does not fail the call.
   */
  pause(): void;
  resume(): void;
  /** Ends the call at the gateway immediately. The receiver gets nothing afterwards. */
  abort(): void;
}

/**
 * The paid gateway. A request is sent once: a POST is never retried. Only a request of which not a single byte could be
 * written is sent on another connection.
 */
export interface Gateway {
  send(request: GatewayRequest, receiver: GatewayReceiver): GatewayCall;
}
