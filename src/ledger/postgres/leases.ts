import { functionsDigest } from "./schema.ts";

/**
 * Policy for leases. A lease is the slice of a budget's window that one proxy fills without touching the window's own
 * row. farebox_slice (functions.sql) decides its size and when it is worth it.
 */
export type LeasePolicy =
  /** `auto`: only while several proxies are live. A lone proxy never waits for a row and knows each sum exactly. */
  "auto" | "always" | "never";

/** Options of farebox_apply. */
export interface LeaseOptions {
  readonly leases: boolean;
  /** Number of proxies that share a window. */
  readonly sharers: number;
  /** True if the idle parts of all leases are taken back first. */
  readonly collect: boolean;
  /** Digest of the functions that this release was written for. */
  readonly functions: string;
}

/** `live`: known number of live proxies. `collect`: for claims that other proxies' leases still have room for. */
export function leaseOptions(policy: LeasePolicy, live: number, collect: boolean): LeaseOptions {
  const leases = policy === "always" || (policy === "auto" && live > 1);
  return { leases, sharers: Math.max(1, live), collect, functions: functionsDigest() };
}
