/** Returns the value below which `share` of the sorted values lie; 0 if there are no values. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

export function sortedCopy(values: Iterable<number>): number[] {
  return [...values].sort((a, b) => a - b);
}

export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** Returns the median and the extremes. The median of an even number of values is the mean of the middle two. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = sortedCopy(values);
  const middle = sorted.length / 2;
  const pair = [sorted[Math.ceil(middle) - 1] ?? 0, sorted[Math.floor(middle)] ?? 0] as const;
  return { median: (pair[0] + pair[1]) / 2, min: sorted[0] ?? 0, max: sorted.at(-1) ?? 0 };
}

/** Divides values of the same round, because a drift over the rounds then cancels out. */
export function pairedRatios(values: readonly number[], others: readonly number[]): number[] {
  return values.map((value, round) => value / (others[round] ?? Number.NaN));
}

export function pairedDifferences(values: readonly number[], others: readonly number[]): number[] {
  return values.map((value, round) => value - (others[round] ?? Number.NaN));
}
