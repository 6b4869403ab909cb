import type { PicoUsd } from "../core/money.ts";

/**
 * `live`: sends heartbeats. `silent`: sends no heartbeats, but has not ended. `ended`: has ended and still has open
 * holds.
 */
export type ProxyState = "live" | "silent" | "ended";

/** One run of a proxy on a shared ledger. */
export interface ProxyRun {
  /** Unique number. A proxy that restarts, or continues after it was ended, gets a new run. */
  readonly run: number;
  /** Host and process. */
  readonly name: string;
  /** Null until it is known. */
  readonly version: string | null;
  readonly state: ProxyState;
  /** Milliseconds since 1970 UTC. */
  readonly startedAt: number;
  /** Time since the last heartbeat by the ledger's clock, in milliseconds. */
  readonly silentMs: number;
  /** Number of open holds of the run. Excludes holds of known tasks, which any proxy can poll. */
  readonly holds: number;
  readonly held: PicoUsd;
}

export type ProxyEnding =
  /** The ended runs, in their state before the end. Their holds are posted as `assumed`. */
  | { readonly ok: true; readonly ended: readonly ProxyRun[] }
  | { readonly ok: false; readonly reason: "unknown" }
  /** Every run with this name still sends heartbeats. */
  | { readonly ok: false; readonly reason: "live"; readonly silentMs: number };

/** The proxies of a shared ledger, for its administrator. */
export interface ProxyRuns {
  /** Returns the runs that have not ended or have open holds, oldest first. */
  list(): Promise<readonly ProxyRun[]>;
  /**
   * Ends runs, given by name or number, that send no heartbeats. Posts their open holds. If such a proxy settles a charge
   * later, the settlement becomes a correction.
   */
  end(nameOrRun: string, at: number, by: string): Promise<ProxyEnding>;
}

/**
 * Longest time between two heartbeats of a live proxy, in milliseconds. Proxies send two heartbeats a second. After
 * this time a proxy is `silent`, but it may still run.
 */
export const liveMs = 5_000;
