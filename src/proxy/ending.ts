import type { Usage } from "../core/usage.ts";
import type { AnswerTerms } from "../wire/answer-terms.ts";
import type { Written } from "../wire/output-walk.ts";

/** How the forwarding of a request ended, in bytes and statuses; the meter makes an outcome of it. */
export type Ending =
  /** Nothing of it reached the gateway. */
  | { readonly kind: "notSent"; readonly reason: string }
  /** The gateway answered with a status other than success. */
  | { readonly kind: "status"; readonly status: number }
  /** The answer is whole. `ranMs` from sending to its end. */
  | ({ readonly kind: "whole"; readonly ranMs: number } & Answered)
  /** A stream broke off after the gateway had it. `ranMs` from sending to the break. */
  | ({ readonly kind: "cut"; readonly reason: string; readonly ranMs: number } & Answered)
  /** Sent, and nothing tells what became of it. `unreadBytes`: of an answer that cannot be read. */
  | { readonly kind: "unknown"; readonly reason: string; readonly unreadBytes?: number };

/** `task`: the answer names a task that it made, which ends the charge. */
export type AnswerEnding = Ending | { readonly kind: "task" } | UsageRefused;

/** The gateway refused the usage that was asked for. Its answer was kept from the client, who has none yet. */
export interface UsageRefused {
  readonly kind: "usageRefused";
  readonly status: number;
}

/** What an answer reported and wrote. */
export interface Answered extends Written {
  readonly usage: Usage | undefined;
}

export function writtenIn({ usage, texts, uncountable }: Answered): Answered {
  return { usage, texts, ...(uncountable && { uncountable }) };
}

/** What else is known of a forwarded request, for its row. */
export interface Forwarded<How extends AnswerEnding = AnswerEnding> {
  readonly ending: How;
  /** What the answer states beside its content; null for nothing. */
  readonly terms: AnswerTerms | null;
  readonly gatewayRequestId: string | null;
  /** From arrival to the first byte of the answer's body; null when there was none. Milliseconds. */
  readonly firstTokenMs: number | null;
  /** From arrival to sending to the gateway. Milliseconds. */
  readonly overheadMs: number;
}
