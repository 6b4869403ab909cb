import type { PicoUsd } from "../core/money.ts";

/**
 * `live`: it sends heartbeats. `silent`: it sends none, and has not been ended. `ended`: it has ended with open holds.
 */
export type ProxyState = "live" | "silent" | "ended";

/** One run of a proxy on a ledger that several share. */
export interface ProxyRun {
  /** Unique among all runs; a proxy that starts again, or wakes after it was ended, is another run. */
  readonly run: number;
  /** Host and process. */
  readonly name: string;
  /** Null where it is not known yet. */
  readonly version: string | null;
  readonly state: ProxyState;
  /** Milliseconds since 1970 UTC. */
  readonly startedAt: number;
  /** Since its last heartbeat, by the ledger's clock. Milliseconds. */
  readonly silentMs: number;
  /** Open holds that end with it, and their sum. Those of known tasks are not among them: any proxy follows a task. */
  readonly holds: number;
  readonly held: PicoUsd;
  /** Budget windows in which it has a lease. */
  readonly leases: number;
}

export type ProxyEnding =
  /** Those that were ended, as they were before: their holds are posted as `assumed`. */
  | { readonly ok: true; readonly ended: readonly ProxyRun[] }
  | { readonly ok: false; readonly reason: "unknown" }
  /** All of that name beat. */
  | { readonly ok: false; readonly reason: "live"; readonly silentMs: number };

/** The proxies of a shared ledger, for its administrator. */
export interface ProxyRuns {
  /** Those that have not ended, and those that left holds open; oldest first. */
  list(): Promise<readonly ProxyRun[]>;
  /**
   * Ends the runs of a name, or the run of a number, that do not beat: posts their open holds and gives back their leases. What
   * such a proxy settles later becomes a correction.
   */
  end(nameOrRun: string, at: number, by: string): Promise<ProxyEnding>;
}

/**
 * Longest silence of a live proxy, in milliseconds. It sends heartbeats twice a second; a longer silence makes it
 * `silent`, not yet dead.
 */
export const liveMs = 5_000;
