import type { AddressRule } from "../core/addresses.ts";

export interface WebhookRequest {
  readonly url: string;
  /** Rule for the destination, checked against the address of the actual connection. */
  readonly rule: AddressRule;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export type SendResult =
  | { readonly ok: true }
  /**
   * `error`: a few words without address or secret. `retryAfterMs`: pause that the receiver requested; null if none.
   */
  | { readonly ok: false; readonly error: string; readonly retryAfterMs: number | null };

/** Sends one webhook. Follows no redirect and discards the response body. */
export interface WebhookSender extends AsyncDisposable {
  /** Sends a webhook within 10 s and never rejects. Returns undefined if disposal of the sender interrupts it. */
  send(request: WebhookRequest): Promise<SendResult | undefined>;
}

/**
 * Returns the reason why webhooks may not be sent to an address; null if they may. The text continues a sentence that
 * begins with the name of the field. Takes at most 2 s and never rejects.
 */
export type CheckEndpoint = (endpoint: string) => Promise<string | null>;
