import type { GatewayHead } from "../src/ports/gateway.ts";

/** The gateway's ways to treat a request. */
export type Manner =
  /** Whole, with its usage; or without, with a nonsensical one, or with more than was allowed. */
  | { readonly kind: "answers"; readonly usage: "reported" | "none" | "nonsense" | "beyond" }
  | { readonly kind: "unreadable" }
  /** `billed`: whether it costs all the same. */
  | { readonly kind: "status"; readonly status: number; readonly billed: boolean; readonly words?: string }
  | { readonly kind: "redirect"; readonly home: boolean }
  | { readonly kind: "unreachable" }
  | { readonly kind: "never_connects" }
  /** Nothing comes, or the connection breaks: before the head, after it, or in the middle. */
  | { readonly kind: "silent" | "reset"; readonly when: "at_once" | "after_head" | "midway"; readonly billed: boolean }
  /** Ends its framing before the answer is complete. */
  | { readonly kind: "cut" }
  /** The engine tells of things twice, or of what comes after the end. */
  | { readonly kind: "repeats" }
  /** The last events come in another order. */
  | { readonly kind: "reordered" };

/** Something that the gateway writes into a connection. `read` is called when the proxy has taken it. */
export type Piece =
  | { readonly kind: "head"; readonly head: GatewayHead }
  | { readonly kind: "chunk"; readonly bytes: Buffer; readonly read?: () => void }
  | { readonly kind: "end" }
  | { readonly kind: "broken" };

/** Connection that the gateway writes to. */
export interface Wire {
  write(...pieces: readonly Piece[]): void;
  /** Bytes that were written and are not read yet. */
  readonly unread: number;
  /** Calls back once, when something of it has been read. */
  onRead(callback: () => void): void;
}

export function headOf(status: number, contentType: string, more: readonly string[] = []): GatewayHead {
  const rawHeaders = ["Content-Type", contentType, "X-Request-Id", "gw-1", ...more];
  const header = (name: string): string | undefined => {
    const place = rawHeaders.findIndex((text, index) => index % 2 === 0 && text.toLowerCase() === name);
    return place < 0 ? undefined : rawHeaders[place + 1];
  };
  return { status, statusText: "", rawHeaders, header };
}

export function chunk(text: string): Piece {
  return { kind: "chunk", bytes: Buffer.from(text) };
}

export function event(value: object): Buffer {
  return Buffer.from(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", ...value })}\n\n`);
}
