import type { Usage } from "../core/usage.ts";

/** How the forwarding of a request ended, in bytes and statuses; the meter makes an outcome of it. */
export type Ending =
  /** Nothing of it reached the gateway. */
  | { readonly kind: "notSent"; readonly reason: string }
  /** The gateway answered with a status other than success. */
  | { readonly kind: "status"; readonly status: number }
  /** The answer is whole. `ranMs` from sending to its end. */
  | { readonly kind: "whole"; readonly usage: Usage | undefined; readonly texts: readonly string[]; readonly ranMs: number }
  /** A stream broke off after the gateway had it. `ranMs` from sending to the break. */
  | {
      readonly kind: "cut";
      readonly usage: Usage | undefined;
      readonly texts: readonly string[];
      readonly reason: string;
      readonly ranMs: number;
    }
  /** Sent, and nothing tells what became of it. */
  | { readonly kind: "unknown"; readonly reason: string };

/** What else is known of a forwarded request, for its row. */
export interface Forwarded {
  readonly ending: Ending;
  readonly servedModel: string | null;
  readonly gatewayRequestId: string | null;
  /** From arrival to the first byte of the answer's body; null when there was none. Milliseconds. */
  readonly firstTokenMs: number | null;
  /** From arrival to sending to the gateway. Milliseconds. */
  readonly overheadMs: number;
}
