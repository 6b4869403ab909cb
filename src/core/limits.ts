/** How much a key or a team may do at once. Each a whole number from 1 to `limitMax`; null for no limit. */
export interface Limits {
  /** Requests in any 60 seconds. */
  readonly rpm: number | null;
  /** Tokens of the requests admitted in any 60 seconds. */
  readonly tpm: number | null;
  /** Requests that run at the same time. */
  readonly parallel: number | null;
}

export const noLimits: Limits = { rpm: null, tpm: null, parallel: null };

/** What may be changed of limits; what is left out stays. */
export type LimitsChange = { readonly [Kind in keyof Limits]?: Limits[Kind] | undefined };

export function changedLimits(limits: Limits, { rpm, tpm, parallel }: LimitsChange = {}): Limits {
  return {
    rpm: rpm === undefined ? limits.rpm : rpm,
    tpm: tpm === undefined ? limits.tpm : tpm,
    parallel: parallel === undefined ? limits.parallel : parallel,
  };
}

export const limitMax = 1_000_000_000;

/** Which limit of whom a request met. */
export interface LimitMet {
  /** `key:alice` or `team:research`. */
  readonly scope: string;
  readonly kind: keyof Limits;
  readonly limit: number;
  /** Tokens that the request needs by itself, where they are more than the limit; null otherwise. */
  readonly needed: number | null;
}

/** What is left of one limit. */
export interface LimitStatus {
  /** `key:alice` or `team:research`. */
  readonly scope: string;
  readonly kind: keyof Limits;
  readonly limit: number;
  /** Never below 0. */
  readonly remaining: number;
  /** Until nothing of the limit is used, by itself; null for parallel requests, which only end. Milliseconds. */
  readonly resetsInMs: number | null;
}

/** The standing of a kind with the least left, where a key and its team both have one; undefined for no limit. */
export function tightestLimit(kind: keyof Limits, standings: readonly LimitStatus[]): LimitStatus | undefined {
  return standings.filter((each) => each.kind === kind).toSorted((a, b) => a.remaining - b.remaining)[0];
}

/** What was used of the limits of a key or a team. */
export interface LimitUse {
  /** Over the last minute. */
  readonly requests: number;
  /** Over the last minute. */
  readonly tokens: number;
  /** At work now. */
  readonly running: number;
}

export const nothingUsed: LimitUse = { requests: 0, tokens: 0, running: 0 };

export function sumOfUse(a: LimitUse, b: LimitUse): LimitUse {
  return { requests: a.requests + b.requests, tokens: a.tokens + b.tokens, running: a.running + b.running };
}
