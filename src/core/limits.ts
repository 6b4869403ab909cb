/** Limits of a key or a team: whole numbers from 1 to `limitMax`; null for no limit. */
export interface Limits {
  /** Requests in any 60 seconds. */
  readonly rpm: number | null;
  /** Tokens of the requests admitted in any 60 seconds. */
  readonly tpm: number | null;
  /** Requests in flight at the same time. */
  readonly parallel: number | null;
}

export const noLimits: Limits = { rpm: null, tpm: null, parallel: null };

/** Changes to limits; absent fields stay. */
export type LimitsChange = { readonly [Kind in keyof Limits]?: Limits[Kind] | undefined };

/** Returns a value with the stated fields of a change; undefined ones stay. */
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

/** Limit that a request exceeded. */
export interface LimitMet {
  /** `key:alice` or `team:research`. */
  readonly scope: string;
  readonly kind: keyof Limits;
  readonly limit: number;
  /** Tokens of the request if they exceed the limit on their own; null otherwise. */
  readonly needed: number | null;
}

/** Remaining part of one limit. */
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

/** Returns the limit of a kind with the least remaining, of a key and its team; undefined for none. */
export function tightestLimit(kind: keyof Limits, standings: readonly LimitStatus[]): LimitStatus | undefined {
  return standings.filter((each) => each.kind === kind).toSorted((a, b) => a.remaining - b.remaining)[0];
}

/** Usage of the limits of a key or a team. */
export interface LimitUse {
  /** Over the last minute. */
  readonly requests: number;
  /** Over the last minute. */
  readonly tokens: number;
  /** Requests in flight. */
  readonly running: number;
}

export const nothingUsed: LimitUse = { requests: 0, tokens: 0, running: 0 };

export function sumOfUse(a: LimitUse, b: LimitUse): LimitUse {
  return { requests: a.requests + b.requests, tokens: a.tokens + b.tokens, running: a.running + b.running };
}
