import type { Refusal } from "../core/refusals.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { Authenticate, Authenticated } from "./authenticate.ts";

/** Facts about an answered exchange, for the request's metrics and its log line. */
export interface Summary {
  /** The catalogue's id, `other` for a model that it does not know; null where none was asked for. */
  readonly model: string | null;
  readonly stream: boolean;
  /** From arrival to the first byte of the answer. Milliseconds; null where there was none. */
  readonly firstTokenMs: number | null;
  /** From arrival to sending to the gateway. Milliseconds; null where nothing was sent. */
  readonly overheadMs: number | null;
  /** Its route, if that is not the path of its registration. */
  readonly route?: string;
  /** A bug that stopped it after it was admitted; undefined for none. */
  readonly error?: unknown;
}

/** Answers one exchange. Resolves when its answer is complete. */
export type Handler = (exchange: Exchange) => Promise<Summary>;

/** The summary of an exchange that never reached the gateway. */
export const notForwarded: Summary = { model: null, stream: false, firstTokenMs: null, overheadMs: null };

/** Answers with our own error. */
export function refuse(exchange: Exchange, refusal: Refusal): Summary {
  exchange.refuse(refusal);
  return notForwarded;
}

/** Handles requests with a valid key; without one, if the settings allow it. */
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
