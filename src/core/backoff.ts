import { dayMs, hourMs } from "./time.ts";

/** Longest pause between two attempts, in milliseconds. */
export const pauseMsMax = hourMs;
const firstPauseMs = 5_000;
/** Time after which an undelivered message is abandoned, in milliseconds. */
export const abandonAfterMs = dayMs;

export interface FailedTry {
  readonly createdAt: number;
  /** Number of attempts including this one; at least 1. */
  readonly tries: number;
  readonly now: number;
  /** Pause that the receiver requested, in milliseconds; null if it requested none. */
  readonly retryAfterMs: number | null;
  /** Random number of at least 0 and below 1. */
  readonly random: number;
}

/**
 * Returns the time of the next attempt; null to stop retrying. Pauses double from 5 seconds to an hour. A random
 * part, at most half, shortens each pause so that senders do not all retry at the same time. The receiver may request a
 * longer pause, of at most an hour.
 */
export function nextTryAt({ createdAt, tries, now, retryAfterMs, random }: FailedTry): number | null {
  const wholeMs = Math.min(firstPauseMs * 2 ** Math.min(tries - 1, 30), pauseMsMax);
  const pauseMs = Math.max(Math.round(wholeMs * (1 - random / 2)), Math.min(retryAfterMs ?? 0, pauseMsMax));
  return now + pauseMs - createdAt > abandonAfterMs ? null : now + pauseMs;
}
