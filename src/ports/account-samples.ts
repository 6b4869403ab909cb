import type { AccountSample } from "../core/account.ts";

/** Samples of the gateway's account, stored next to the charges. They contain only figures, never secrets. */
export interface AccountSamples {
  /** Adds a sample, unless one with the same `askedAt` exists. Returns false if it could not be written. */
  add(sample: AccountSample): Promise<boolean>;
  /** Returns the samples whose `askedAt` is in the half-open span, oldest first. */
  list(since: number, until: number): Promise<readonly AccountSample[]>;
  /** Returns the newest sample; undefined if there are no samples. */
  latest(): Promise<AccountSample | undefined>;
  /** Removes samples by their `askedAt`. */
  remove(askedAts: readonly number[]): Promise<void>;
}
