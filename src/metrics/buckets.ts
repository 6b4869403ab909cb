function doubling(from: number, steps: number): readonly number[] {
  return Array.from({ length: steps }, (_, step) => from * 2 ** step);
}

/** 0.01 s doubling to beyond 600 s: from a cached answer to the longest of models. */
export const secondsBuckets = doubling(0.01, 17);
/** 0.1 ms doubling to 0.8 s: Farebox itself normally takes a few milliseconds. */
export const overheadBuckets = doubling(0.0001, 14);
/** 0.05 ms doubling to 1.6 s: a transaction in memory, on a good disk, on a bad one. */
export const writeBuckets = doubling(0.00005, 16);
