import type { AccountSample } from "../core/account.ts";

/** Samples of the gateway's account, kept beside the ledger. They hold figures only, never a key or another secret. */
export interface AccountSamples {
  /** A second sample of the same instant changes nothing. False when it could not be written. */
  add(sample: AccountSample): Promise<boolean>;
  /** Those asked for in the half-open span, oldest first. */
  list(since: number, until: number): Promise<readonly AccountSample[]>;
  /** The newest of all; undefined when there is none. */
  latest(): Promise<AccountSample | undefined>;
  /** Removes samples by when they were asked for. */
  remove(askedAts: readonly number[]): Promise<void>;
}
