const dayMs = 86_400_000;

/** The rollup by quarter hours is kept for this long. Milliseconds. */
export const quartersKeptMs = 35 * dayMs;

/**
 * Charges younger than this are never pruned: the current windows of every period but `total` then lie wholly after
 * what is pruned, and the quarter hours that are kept do too. Milliseconds.
 */
export const pruneAgeMsMin = 36 * dayMs;
