import type { Refusal } from "../../core/refusals.ts";
import { type Exchange, type HeaderList, notForwarded, type Summary } from "../../ports/exchange.ts";

const uncached: HeaderList = [["cache-control", "no-store"]];

/** Answers with JSON that no cache may keep. */
export function answerJson(
  exchange: Exchange,
  json: unknown,
  { status = 200, headers = [] }: { readonly status?: number; readonly headers?: HeaderList } = {},
): Summary {
  exchange.answer(status, [["content-type", "application/json"], ...uncached, ...headers], JSON.stringify(json));
  return notForwarded;
}

/** Refuses a request with an answer that no cache may keep. */
export function refuseUncached(exchange: Exchange, refusal: Refusal): Summary {
  exchange.refuse(refusal, uncached);
  return notForwarded;
}
