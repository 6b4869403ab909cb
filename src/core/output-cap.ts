/** APIs whose answers are text with a length that the request can limit. */
export type TextApi = "chat" | "completions" | "responses";

/** The largest output cap: more tokens than any model writes. */
export const outputCapMax = 100_000_000;

/** The smallest of several caps; null for none. */
export function smallestCap(...caps: readonly (number | null | undefined)[]): number | null {
  const stated = caps.filter((cap) => cap != null);
  return stated.length === 0 ? null : Math.min(...stated);
}

/** Basis of a hold, for people. */
export interface HoldBasis {
  /**
   * Source of the output bound: a field of the request (`max_tokens`, or one that hides the output, such as
   * `thinking`), `unknown_field`, `output_cap`, `fitted`, `slice`, `default` (of the endpoint), `model` or
   * `request_price`.
   */
  readonly by: string;
  /** Output tokens of all choices; null where the price does not depend on tokens. */
  readonly outputTokens: number | null;
  /** The maximum for each choice that an output cap wrote into the request; null for none. */
  readonly outputCap: number | null;
  /** The maximum for each choice that was written so that the request fits its budget; null for none. */
  readonly fitted: number | null;
}
