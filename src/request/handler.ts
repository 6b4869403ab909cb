import type { Refusal } from "../core/refusals.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { Authenticate, Authenticated } from "./authenticate.ts";

/** Facts about an answered exchange, for the request's metrics and its log line. */
export interface Summary {
  /** Id of the model in the catalogue, or `other` for an unknown model. Null if the request needs no model. */
  readonly model: string | null;
  readonly stream: boolean;
  /** Time from arrival to the first byte of the answer, in milliseconds; null if there was no answer. */
  readonly firstTokenMs: number | null;
  /** Time from arrival to the call to the gateway, in milliseconds; null if nothing was sent. */
  readonly overheadMs: number | null;
  /** Route of the exchange, if it differs from the registered path. */
  readonly route?: string;
  /** Error of a bug that stopped the request after its admission; undefined for none. */
  readonly error?: unknown;
}

/** Answers one exchange. Resolves when its answer is complete. */
export type Handler = (exchange: Exchange) => Promise<Summary>;

/** Summary of an exchange that never reached the gateway. */
export const notForwarded: Summary = { model: null, stream: false, firstTokenMs: null, overheadMs: null };

/** Answers with an error of Farebox. */
export function refuse(exchange: Exchange, refusal: Refusal): Summary {
  exchange.refuse(refusal);
  return notForwarded;
}

/** Returns a handler that refuses requests without a valid key, unless the settings permit them. */
export function withKey(
  authenticate: Authenticate,
  handle: (exchange: Exchange, who: Authenticated) => Promise<Summary>,
): Handler {
  return async (exchange) => {
    const known = authenticate(exchange);
    const who = known instanceof Promise ? await known : known;
    return who.ok ? handle(exchange, who) : refuse(exchange, who.refusal);
  };
}
