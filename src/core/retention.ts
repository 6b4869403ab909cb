const dayMs = 86_400_000;

/** Age up to which quarter-hour sums are kept, in milliseconds. */
export const quartersKeptMs = 35 * dayMs;

/**
 * Smallest age at which charges are pruned, in milliseconds. The current windows of every period but `total`, and the
 * kept quarter hours, are then newer than what is pruned.
 */
export const pruneAgeMsMin = 36 * dayMs;
