import type { Refusal } from "../core/refusals.ts";
import type { Exchange, HeaderList } from "../ports/exchange.ts";
import type { GatewayHead } from "../ports/gateway.ts";
import type { AnswerTerms } from "../wire/answer-terms.ts";
import type { AnswerEnding, Ending } from "./ending.ts";
import type { Pace } from "./pace.ts";

/** What every mode of an answer works with. */
export interface AnswerParts {
  readonly exchange: Exchange;
  readonly head: GatewayHead;
  /** The gateway's headers that the client gets. */
  readonly headers: HeaderList;
  /** Stops and resumes reading from the gateway, for a slow client. */
  readonly pace: Pace;
  /** Milliseconds since the request was sent. */
  ranMs(): number;
  /** Takes note of what the answer states beside its content; null for nothing. */
  stated(terms: AnswerTerms | null): void;
}

/** Passes bytes to the client; a slow one stops the reading from the gateway until it has taken them. */
export function passOn({ exchange, pace }: AnswerParts, bytes: Buffer): void {
  if (exchange.clientGone || exchange.write(bytes)) return;
  pace.pause();
  exchange.onDrain(() => pace.resume());
}

/** The part of a forwarding that depends on the kind of answer: held until whole, or passed as it comes. */
export interface AnswerMode {
  chunk(bytes: Buffer): void;
  /** The answer is complete by its framing. */
  end(): Promise<AnswerEnding> | AnswerEnding;
  /** The answer broke off; what the client is told is settled here too. */
  broken(reason: string, refusal: Refusal): Promise<Ending> | Ending;
}
