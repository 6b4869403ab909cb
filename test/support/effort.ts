/** Returns the number of random cases of a property: `count` under TEST_EFFORT=all, otherwise a tenth of it. */
export function runs(count: number): number {
  return isThorough ? count : Math.ceil(count / 10);
}

/**
 * Returns the size of a load: the first number under TEST_EFFORT=all, otherwise the second, which suffices to prove
 * the same.
 */
export function size(thorough: number, quick: number): number {
  return isThorough ? thorough : quick;
}

export const isThorough = process.env["TEST_EFFORT"] === "all";

/** True if a ledger opened as in `serve` has its own threads, which take a quarter of a second to start and end. */
export const ledgerThreads = process.env["TEST_LEDGER_THREADS"] !== "0";
