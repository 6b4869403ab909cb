/** One request to the gateway. `headers` never contains the gateway's credential; the adapter adds it. */
export interface GatewayRequest {
  readonly method: string;
  /** Path from the root and query as the gateway expects them, such as "/v1/chat/completions". */
  readonly path: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** The exact bytes to send; undefined for a request without a body. */
  readonly body: Uint8Array | StreamedBody | undefined;
  /** Longest time without a byte before the call fails as `silent`, in milliseconds. */
  readonly silenceMs: number;
}

/** A body that is sent while it arrives and is never buffered whole. It cannot be sent again, so redirects are not followed. */
export interface StreamedBody {
  /** Number of bytes; null if unknown until the end. */
  readonly length: number | null;
  /** Starts writing. Called at most once. If the body cannot be completed, nothing is written or ended: the call is aborted. */
  start(sink: BodySink): void;
  /** Continues after a `write` that returned false. */
  resume(): void;
}

export interface BodySink {
  /** Returns false if the gateway is slow: nothing more is written until `resume`. */
  write(bytes: Uint8Array): boolean;
  end(): void;
}

export interface GatewayHead {
  readonly status: number;
  readonly statusText: string;
  /** As received: name, value, name, value …, repeated headers kept apart. */
  readonly rawHeaders: readonly string[];
  /** Returns a header by its lower-case name; the last value of a repeated header. */
  header(name: string): string | undefined;
}

export type GatewayFailure =
  /** No connection was made, so not a single byte was sent. */
  | { readonly kind: "unreachable"; readonly message: string }
  /** The connection broke, before or after the head. */
  | { readonly kind: "reset"; readonly message: string }
  /** No byte arrived for `silenceMs`. */
  | { readonly kind: "silent" }
  /** A redirect that must not be followed: to another origin, or too many. */
  | { readonly kind: "redirect"; readonly status: number };

/** Receives one answer, in this order: at most one `head`, any number of `chunk`, then exactly one of `end` and `fail`. */
export interface GatewayReceiver {
  head(head: GatewayHead): void;
  /** Receives bytes in the tick in which they arrive. The receiver may keep them. */
  chunk(bytes: Uint8Array): void;
  /** Reports that the answer is complete by its own framing. */
  end(): void;
  fail(failure: GatewayFailure): void;
}

export interface GatewayCall {
  /** True if bytes of the request may have reached the gateway. */
  readonly sent: boolean;
  /** Stops reading from the gateway until `resume`. Silence during the pause does not fail the call. */
  pause(): void;
  resume(): void;
  /** Ends the call at the gateway at once. Nothing is received afterwards. */
  abort(): void;
}

/** The paid gateway. A request is sent once: a POST is never retried. */
export interface Gateway {
  send(request: GatewayRequest, receiver: GatewayReceiver): GatewayCall;
}
