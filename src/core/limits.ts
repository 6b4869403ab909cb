/** Limits of a key or a team: whole numbers from 1 to `limitMax`; null for no limit. */
export interface Limits {
  /** Largest number of requests in any 60 seconds. */
  readonly rpm: number | null;
  /** Largest number of tokens in the requests that are admitted in any 60 seconds. */
  readonly tpm: number | null;
  /** Largest number of requests in flight at the same time. */
  readonly parallel: number | null;
}

export const noLimits: Limits = { rpm: null, tpm: null, parallel: null };

/** Changes to limits. Absent fields keep their values. */
export type LimitsChange = { readonly [Kind in keyof Limits]?: Limits[Kind] | undefined };

/** Returns a copy of a value with the changed fields. Fields that are undefined in the change keep their values. */
export function changed<Value extends object>(
  value: Value,
  change: { readonly [Name in keyof Value]?: Value[Name] | undefined },
): Value {
  return { ...value, ...Object.fromEntries(Object.entries(change).filter(([, field]) => field !== undefined)) };
}

export function changedLimits(limits: Limits, { rpm, tpm, parallel }: LimitsChange = {}): Limits {
  return changed(limits, { rpm, tpm, parallel });
}

export const limitMax = 1_000_000_000;

/** A limit that a request would exceed. */
export interface ExceededLimit {
  /** `key:alice` or `team:research`. */
  readonly scope: string;
  readonly kind: keyof Limits;
  readonly limit: number;
  /** Number of tokens in the request, if this request alone exceeds the limit; null otherwise. */
  readonly needed: number | null;
}

/** State of one limit: how much of it is available. */
export interface LimitStatus {
  /** `key:alice` or `team:research`. */
  readonly scope: string;
  readonly kind: keyof Limits;
  readonly limit: number;
  /** Never below 0. */
  readonly remaining: number;
  /** Time until the limit is fully available again, in milliseconds; null for parallel requests. */
  readonly resetsInMs: number | null;
}

/** Returns the status with the smallest `remaining` among limits of this kind; undefined if there is none. */
export function tightestLimit(kind: keyof Limits, statuses: readonly LimitStatus[]): LimitStatus | undefined {
  return statuses.filter((status) => status.kind === kind).toSorted((a, b) => a.remaining - b.remaining)[0];
}

/** Usage of the limits of a key or a team. */
export interface LimitUse {
  /** Number of requests in the last minute. */
  readonly requests: number;
  /** Number of tokens in the last minute. */
  readonly tokens: number;
  /** Number of requests in flight. */
  readonly running: number;
}

export const nothingUsed: LimitUse = { requests: 0, tokens: 0, running: 0 };

export function sumOfUse(a: LimitUse, b: LimitUse): LimitUse {
  return { requests: a.requests + b.requests, tokens: a.tokens + b.tokens, running: a.running + b.running };
}
