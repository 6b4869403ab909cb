import type { Refusal } from "../core/refusals.ts";
import type { Outcome } from "../core/settlement.ts";
import type { Usage } from "../core/usage.ts";
import type { Exchange, HeaderList } from "../ports/exchange.ts";
import type { GatewayHead } from "../ports/gateway.ts";
import type { AnswerTerms } from "../wire/model-answer.ts";
import type { Written } from "../wire/output-walk.ts";
import type { Pace } from "./stream-watch.ts";

/** The end of a forwarded request, in bytes and statuses; the meter makes an outcome of it. */
export type Ending =
  /** Nothing of it reached the gateway. */
  | { readonly kind: "notSent"; readonly reason: string }
  /** The gateway answered with a status other than success. */
  | { readonly kind: "status"; readonly status: number }
  /** The answer is whole. `ranMs` from sending to its end. */
  | ({ readonly kind: "whole"; readonly ranMs: number } & Answered)
  /** A stream broke off after the gateway had it. `ranMs` from sending to the break. */
  | ({ readonly kind: "cut"; readonly reason: string; readonly ranMs: number } & Answered)
  /** The answer itself says how the charge ends. */
  | { readonly kind: "judged"; readonly outcome: Outcome }
  /** Sent, with an unknown result. `unreadBytes`: of an answer that cannot be read. */
  | { readonly kind: "unknown"; readonly reason: string; readonly unreadBytes?: number };

/** `task`: the answer names a task that it made, which ends the charge. */
export type ResponseEnding = Ending | { readonly kind: "task" } | UsageRefused;

/** The gateway refused the usage that was asked for. The client has no answer yet. */
export interface UsageRefused {
  readonly kind: "usageRefused";
  readonly status: number;
}

/** Usage and output of an answer. */
export interface Answered extends Written {
  readonly usage: Usage | undefined;
}

export function writtenIn({ usage, texts, uncountable }: Answered): Answered {
  return { usage, texts, ...(uncountable && { uncountable }) };
}

/** A forwarded request, with facts for its row. */
export interface Forwarded<How extends ResponseEnding = ResponseEnding> {
  readonly ending: How;
  /** Terms that the answer states next to its content; null for none. */
  readonly terms: AnswerTerms | null;
  readonly gatewayRequestId: string | null;
  /** From arrival to the first byte of the answer's body; null when there was none. Milliseconds. */
  readonly firstTokenMs: number | null;
  /** From arrival to sending to the gateway; null where nothing was sent. Milliseconds. */
  readonly overheadMs: number | null;
}

/** Dependencies of every mode of a response. */
export interface ResponseDeps {
  readonly exchange: Exchange;
  readonly head: GatewayHead;
  /** The gateway's headers that the client gets. */
  readonly headers: HeaderList;
  /** Stops and resumes reading from the gateway, for a slow client. */
  readonly pace: Pace;
  /** Milliseconds since the request was sent. */
  ranMs(): number;
  /** Receives terms that the answer states next to its content; null for none. */
  stated(terms: AnswerTerms | null): void;
}

/** Changes a whole answer for its client. The same bytes where there is nothing to change. */
export type Shown = (bytes: Buffer) => Buffer;

export const unchangedAnswer: Shown = (bytes) => bytes;

/** Decision on a whole answer before its client sees it. */
export interface Verdict {
  readonly ending: ResponseEnding;
  /** Null where the client gets nothing of the answer: it has a refusal, or will have another answer. */
  readonly show: Shown | null;
}

/** Refuses an answer that its client must not see. */
export function withhold(exchange: Exchange, refusal: Refusal, ending: ResponseEnding): Verdict {
  if (!exchange.clientGone) exchange.refuse(refusal);
  return { ending, show: null };
}

/** Passes bytes to the client; a slow one stops the reading from the gateway until it has taken them. */
export function passOn({ exchange, pace }: ResponseDeps, bytes: Buffer): void {
  if (exchange.clientGone || exchange.write(bytes)) return;
  pace.pause();
  exchange.onDrain(() => pace.resume());
}

/** Treatment of an answer by its kind: held until whole, or passed as it arrives. */
export interface ResponseMode {
  chunk(bytes: Buffer): void;
  /** The answer is complete by its framing. */
  end(): Promise<ResponseEnding> | ResponseEnding;
  /** The answer broke off. Also ends the client's answer. */
  broken(reason: string, refusal: Refusal): Promise<Ending> | Ending;
}

/** Passes sound, images and other media unread: each chunk leaves in the tick in which it arrived. */
export class PassthroughResponse implements ResponseMode {
  readonly #deps: ResponseDeps;

  constructor(deps: ResponseDeps) {
    this.#deps = deps;
    deps.exchange.begin(deps.head.status, deps.headers);
  }

  chunk(bytes: Buffer): void {
    passOn(this.#deps, bytes);
  }

  end(): Ending {
    this.#deps.exchange.end();
    return { kind: "whole", usage: undefined, texts: [], ranMs: this.#deps.ranMs() };
  }

  broken(reason: string, _refusal: Refusal): Ending {
    this.#deps.exchange.breakOff();
    return { kind: "unknown", reason };
  }
}
