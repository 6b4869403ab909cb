import { functionsDigest } from "./schema.ts";

/**
 * When proxies hold in leases. A lease is the slice of a budget's window that one proxy fills without touching the window's own
 * row; how large a slice is, and when it is worth it, says farebox_slice (functions.sql), beside the rows.
 */
export type LeasePolicy =
  /** While more than one proxy lives: a proxy alone never waits for a row, and knows each sum to the last digit. */
  "auto" | "always" | "never";

/** How a batch is to be carried out: the options of farebox_apply. */
export interface LeaseOptions {
  readonly leases: boolean;
  /** Among how many a window is shared. */
  readonly sharers: number;
  /** Whether the idle parts of all leases are taken back first. */
  readonly collect: boolean;
  /** The digest of the functions that this side was written for. */
  readonly functions: string;
}

/** `live`: how many proxies live, as far as this one knows. `collect`: for claims that found others to have something left. */
export function leaseOptions(policy: LeasePolicy, live: number, collect: boolean): LeaseOptions {
  const leases = policy === "always" || (policy === "auto" && live > 1);
  return { leases, sharers: Math.max(1, live), collect, functions: functionsDigest() };
}
