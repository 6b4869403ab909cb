import type { AddressRule } from "../core/addresses.ts";

export interface WebhookRequest {
  readonly url: string;
  /** Restriction on the destination, checked against the address actually connected to. */
  readonly rule: AddressRule;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export type SendResult =
  | { readonly ok: true }
  /** `error`: a few words without address or secret. `retryAfterMs`: what the receiver asked for; null where it did not. */
  | { readonly ok: false; readonly error: string; readonly retryAfterMs: number | null };

/** Sends one webhook. Follows no redirect and discards the response body. */
export interface WebhookSender extends AsyncDisposable {
  /** Takes 10 s at most and never rejects; undefined when it was broken off by the sender's disposal. */
  send(request: WebhookRequest): Promise<SendResult | undefined>;
}

/**
 * Returns why webhooks may not be sent to an address, in words that follow its name; null if they may. Takes at most 2
 * s and never rejects.
 */
export type JudgeEndpoint = (endpoint: string) => Promise<string | null>;
