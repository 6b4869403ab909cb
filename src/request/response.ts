import type { Refusal } from "../core/refusals.ts";
import type { Outcome } from "../core/settlement.ts";
import type { Usage } from "../core/usage.ts";
import type { Exchange, HeaderList } from "../ports/exchange.ts";
import type { GatewayHead } from "../ports/gateway.ts";
import type { AnswerTerms } from "../wire/model-answer.ts";
import type { Written } from "../wire/output-walk.ts";
import type { Pace } from "./stream-watch.ts";

/** End of a forwarded request, in bytes and statuses. The meter derives an outcome from it. */
export type Ending =
  /** No complete request reached the gateway. */
  | { readonly kind: "notSent"; readonly reason: string }
  /** The gateway answered with a status other than success. */
  | { readonly kind: "status"; readonly status: number }
  /** The answer is complete. `ranMs`: milliseconds from sending to its end. */
  | ({ readonly kind: "whole"; readonly ranMs: number } & Answered)
  /** A stream broke off after the request was sent. `ranMs`: milliseconds from sending to the break. */
  | ({ readonly kind: "cut"; readonly reason: string; readonly ranMs: number } & Answered)
  /** The answer itself states the outcome of the charge. */
  | { readonly kind: "judged"; readonly outcome: Outcome }
  /** The request was sent, but its result is not known. `unreadBytes`: size of an answer that cannot be read. */
  | { readonly kind: "unknown"; readonly reason: string; readonly unreadBytes?: number };

/** End of an answer. `task`: the answer names a new task, which settles the charge. */
export type ResponseEnding = Ending | { readonly kind: "task" } | UsageRefused;

/** The gateway refused the request because Farebox asked for stream usage. The client has no answer yet. */
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

/** Forwarded request, with data for its charge. */
export interface Forwarded<How extends ResponseEnding = ResponseEnding> {
  readonly ending: How;
  /** Terms that the answer states in addition to its content; null for none. */
  readonly terms: AnswerTerms | null;
  readonly gatewayRequestId: string | null;
  /** Time from arrival to the first byte of the answer's body, in milliseconds; null if there was none. */
  readonly firstTokenMs: number | null;
  /** Time from arrival to the call to the gateway, in milliseconds; null if nothing was sent. */
  readonly overheadMs: number | null;
}

/** Dependencies of every mode of a response. */
export interface ResponseDeps {
  readonly exchange: Exchange;
  readonly head: GatewayHead;
  /** Headers that the client gets. */
  readonly headers: HeaderList;
  /** Stops and resumes reading from the gateway, for a slow client. */
  readonly pace: Pace;
  /** Milliseconds since the request was sent. */
  ranMs(): number;
  /** Receives the terms that the answer states in addition to its content; null for none. */
  stated(terms: AnswerTerms | null): void;
}

/** Changes a complete answer for its client. Returns the same object if there is nothing to change. */
export type Shown = (bytes: Buffer) => Buffer;

export const unchangedAnswer: Shown = (bytes) => bytes;

/** Decision on a complete answer before its client gets it. */
export interface Verdict {
  readonly ending: ResponseEnding;
  /** Changes to the answer. Null if the client does not get it, because it gets a refusal or another answer. */
  readonly show: Shown | null;
}

/** Sends a refusal instead of an answer that the client must not get. */
export function withhold(exchange: Exchange, refusal: Refusal, ending: ResponseEnding): Verdict {
  if (!exchange.clientGone) exchange.refuse(refusal);
  return { ending, show: null };
}

/** Passes bytes to the client. If the client is slow, pauses reading from the gateway until it has accepted them. */
export function passOn({ exchange, pace }: ResponseDeps, bytes: Buffer): void {
  if (exchange.clientGone || exchange.write(bytes)) return;
  pace.pause();
  exchange.onDrain(() => pace.resume());
}

/** Treatment of an answer. It is held until it is complete, or passed on as it arrives. */
export interface ResponseMode {
  chunk(bytes: Buffer): void;
  /** Ends an answer that is complete by its framing. */
  end(): Promise<ResponseEnding> | ResponseEnding;
  /** Ends an answer that broke off, also for the client. */
  broken(reason: string, refusal: Refusal): Promise<Ending> | Ending;
}

/** Passes sound, images and other media on without reading them. Sends each chunk in the tick in which it arrived. */
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
