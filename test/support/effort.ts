/** Returns the number of random cases of a property: `npm test` tries a tenth of those under TEST_EFFORT=all. */
export function runs(count: number): number {
  return isThorough ? count : Math.ceil(count / 10);
}

/** Returns the size of a load: the first figure under TEST_EFFORT=all, otherwise the second, which proves the same with less. */
export function size(thorough: number, quick: number): number {
  return isThorough ? thorough : quick;
}

export const isThorough = process.env["TEST_EFFORT"] === "all";

/** True if a ledger that is open as in `serve` has threads of its own: it takes a quarter of a second to start and end them. */
export const ledgerThreads = process.env["TEST_LEDGER_THREADS"] !== "0";
