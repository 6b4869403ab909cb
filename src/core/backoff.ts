/** The longest pause between two tries, in milliseconds. */
export const pauseMsMax = 3_600_000;
const firstPauseMs = 5_000;
/** A message that could not be delivered for this long is given up. Milliseconds. */
export const tryingMsMax = 86_400_000;

export interface FailedTry {
  readonly createdAt: number;
  /** This one included: at least 1. */
  readonly tries: number;
  readonly now: number;
  /** How long the receiver asked to be left alone, in milliseconds; null where it did not. */
  readonly retryAfterMs: number | null;
  /** At least 0, below 1. */
  readonly random: number;
}

/**
 * When a message is tried again; null when it is given up. Pauses double from 5 s up to an hour, each shortened by up to
 * half of itself, so that receivers are not met by all senders at once.
 */
export function nextTryAt({ createdAt, tries, now, retryAfterMs, random }: FailedTry): number | null {
  const wholeMs = Math.min(firstPauseMs * 2 ** Math.min(tries - 1, 30), pauseMsMax);
  const pauseMs = Math.max(Math.round(wholeMs * (1 - random / 2)), Math.min(retryAfterMs ?? 0, pauseMsMax));
  return now + pauseMs - createdAt > tryingMsMax ? null : now + pauseMs;
}
