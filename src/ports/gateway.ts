/** One request for the gateway. The adapter adds the gateway's credential; it is never in `headers`. */
export interface GatewayRequest {
  readonly method: string;
  /** Path and query as the gateway wants it, from the root: "/v1/chat/completions". */
  readonly path: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** The exact bytes to send; undefined for none. */
  readonly body: Uint8Array | StreamedBody | undefined;
  /** Milliseconds without a byte after which the call fails as `silent`. */
  readonly silenceMs: number;
}

/** A body that is sent as it comes and never held whole. It comes once, so that its request follows no redirect. */
export interface StreamedBody {
  /** All its bytes, where that is known; null where it ends when it ends. */
  readonly length: number | null;
  /** Begins to write; called at most once. A body that cannot come to its end neither writes nor ends: its call is aborted. */
  start(sink: BodySink): void;
  /** Goes on after a write that was answered with false. */
  resume(): void;
}

export interface BodySink {
  /** False where the gateway is slow: nothing more is written until `resume`. */
  write(bytes: Uint8Array): boolean;
  end(): void;
}

export interface GatewayHead {
  readonly status: number;
  readonly statusText: string;
  /** As received: name, value, name, value …, repeated headers kept apart. */
  readonly rawHeaders: readonly string[];
  /** Lower-case names; the last of a repeated header. */
  header(name: string): string | undefined;
}

export type GatewayFailure =
  /** No connection came about: not a byte was sent. */
  | { readonly kind: "unreachable"; readonly message: string }
  /** The connection broke, before or after the head. */
  | { readonly kind: "reset"; readonly message: string }
  /** Nothing came for `silenceMs`. */
  | { readonly kind: "silent" }
  /** A redirect that must not be followed: to another origin, or too many. */
  | { readonly kind: "redirect"; readonly status: number };

/** Receives one answer, in this order: at most one `head`, any number of `chunk`, then exactly one of `end` and `fail`. */
export interface GatewayReceiver {
  head(head: GatewayHead): void;
  /** In the tick in which it arrived. The bytes may be kept. */
  chunk(bytes: Uint8Array): void;
  /** The answer is complete by its own framing. */
  end(): void;
  fail(failure: GatewayFailure): void;
}

export interface GatewayCall {
  /** True if bytes of the request may have reached the gateway. */
  readonly sent: boolean;
  /** Stops reading from the gateway until `resume`; silence does not count meanwhile. */
  pause(): void;
  resume(): void;
  /** Ends the call at the gateway at once. Nothing is received afterwards. */
  abort(): void;
}

/** The paid generation gateway. A request is sent once: a POST is never retried. */
export interface Gateway {
  send(request: GatewayRequest, receiver: GatewayReceiver): GatewayCall;
}
