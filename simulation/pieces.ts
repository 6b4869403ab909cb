import type { GatewayHead } from "../src/ports/gateway.ts";

/** Response of the gateway to a request. */
export type Behavior =
  /** A complete answer. Its usage is correct, missing, nonsensical, or above the requested maximum. */
  | { readonly kind: "answers"; readonly usage: "reported" | "none" | "nonsense" | "excessive" }
  | { readonly kind: "unreadable" }
  /** `billed`: the gateway bills the request although it fails. */
  | { readonly kind: "status"; readonly status: number; readonly billed: boolean; readonly message?: string }
  | { readonly kind: "redirect"; readonly isSameOrigin: boolean }
  | { readonly kind: "unreachable" }
  | { readonly kind: "never_connects" }
  /** Goes silent or resets the connection: before the head, after it, or in the middle of the body. */
  | { readonly kind: "silent" | "reset"; readonly when: "at_once" | "after_head" | "midway"; readonly billed: boolean }
  /** Ends the body before the answer is complete. */
  | { readonly kind: "cut" }
  /** The engine reports some events twice, and some after the end. */
  | { readonly kind: "repeats" }
  /** Sends the usage before the finish reason. */
  | { readonly kind: "reordered" }
  /** The model refuses a message, or the gateway states an error, before or after the first output. */
  | { readonly kind: "refuses" | "errors"; readonly when: "before" | "after" };

/** Part of an answer on a connection. `read` is called when the proxy has read it. */
export type Piece =
  | { readonly kind: "head"; readonly head: GatewayHead }
  | { readonly kind: "chunk"; readonly bytes: Buffer; readonly read?: () => void }
  | { readonly kind: "end" }
  | { readonly kind: "broken" };

/** The gateway's end of a connection. */
export interface Wire {
  write(...pieces: readonly Piece[]): void;
  /** Number of pieces that the proxy has not read yet. */
  readonly unread: number;
  /** Calls back once, when the proxy has read a piece. */
  onRead(callback: () => void): void;
}

export function headOf(status: number, contentType: string, more: readonly string[] = []): GatewayHead {
  const rawHeaders = ["Content-Type", contentType, "X-Request-Id", "gw-1", ...more];
  const header = (name: string): string | undefined => {
    const at = rawHeaders.findIndex((text, index) => index % 2 === 0 && text.toLowerCase() === name);
    return at < 0 ? undefined : rawHeaders[at + 1];
  };
  return { status, statusText: "", rawHeaders, header };
}

export function chunk(text: string): Piece {
  return { kind: "chunk", bytes: Buffer.from(text) };
}

export function event(value: object): Buffer {
  return Buffer.from(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", ...value })}\n\n`);
}

/** Returns an event of the Messages API. */
export function namedEvent(type: string, members: object): Buffer {
  return Buffer.from(`event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`);
}
