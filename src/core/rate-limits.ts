/** Limits of a key or a team: whole numbers from 1 to `rateLimitMax`; null for no limit. */
export interface RateLimits {
  /** Largest number of requests in any 60 seconds. */
  readonly rpm: number | null;
  /** Largest number of tokens in the requests that are admitted in any 60 seconds. */
  readonly tpm: number | null;
  /** Largest number of requests in flight at the same time. */
  readonly parallel: number | null;
}

export const noRateLimits: RateLimits = { rpm: null, tpm: null, parallel: null };

/** Changes to limits. Absent fields keep their values. */
export type RateLimitsChange = { readonly [Kind in keyof RateLimits]?: RateLimits[Kind] | undefined };

/** Returns a copy of a value with the changed fields. Fields that are undefined in the change keep their values. */
export function changed<Value extends object>(
  value: Value,
  change: { readonly [Name in keyof Value]?: Value[Name] | undefined },
): Value {
  return { ...value, ...Object.fromEntries(Object.entries(change).filter(([, field]) => field !== undefined)) };
}

export function changedRateLimits(limits: RateLimits, { rpm, tpm, parallel }: RateLimitsChange = {}): RateLimits {
  return changed(limits, { rpm, tpm, parallel });
}

export const rateLimitMax = 1_000_000_000;

/** Largest number of free requests of a key in any 60 seconds. They do not count toward its other limits. */
export const freeRpm = 600;

/** A limit that a request would exceed. */
export interface ExceededRateLimit {
  /** `key:alice` or `team:research`. */
  readonly scope: string;
  readonly kind: keyof RateLimits | "free_rpm";
  readonly limit: number;
  /** Number of tokens in the request, if this request alone exceeds the limit; null otherwise. */
  readonly needed: number | null;
}

/** State of one limit: how much of it is available. */
export interface RateLimitStatus {
  /** `key:alice` or `team:research`. */
  readonly scope: string;
  readonly kind: keyof RateLimits;
  readonly limit: number;
  /** Never below 0. */
  readonly remaining: number;
  /** Time until the limit is fully available again, in milliseconds; null for parallel requests. */
  readonly resetsInMs: number | null;
}

/** Returns the status with the smallest `remaining` among limits of this kind; undefined if there is none. */
export function tightestRateLimit(
  kind: keyof RateLimits,
  statuses: readonly RateLimitStatus[],
): RateLimitStatus | undefined {
  return statuses.filter((status) => status.kind === kind).toSorted((a, b) => a.remaining - b.remaining)[0];
}

/** Usage of the limits of a key or a team. */
export interface RateLimitUse {
  /** Number of requests in the last minute. */
  readonly requests: number;
  /** Number of tokens in the last minute. */
  readonly tokens: number;
  /** Number of requests in flight. */
  readonly running: number;
}

export const nothingUsed: RateLimitUse = { requests: 0, tokens: 0, running: 0 };

export function sumOfUse(a: RateLimitUse, b: RateLimitUse): RateLimitUse {
  return { requests: a.requests + b.requests, tokens: a.tokens + b.tokens, running: a.running + b.running };
}
