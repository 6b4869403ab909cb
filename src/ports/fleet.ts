import type { RateLimitUse } from "../core/rate-limits.ts";

/** Peers of a proxy, and its jobs, on a ledger that several proxies can share. */
export interface Fleet {
  readonly peers: Peers;
  readonly claims: JobClaims;
}

/** Data that a proxy sends to its peers with each heartbeat. */
export interface PeerReport {
  /** Digest of the loaded prices. */
  readonly catalogue: string;
  /** Usage of each key and team that has limits; those without usage are left out. */
  readonly used: Readonly<Record<string, RateLimitUse>>;
  readonly done: WorkDone;
}

/** Counts since the proxy started. An increase is new work for the proxy that has the job. */
export interface WorkDone {
  /** Number of posted charges. After an increase, the alerts job checks the budgets. */
  readonly posted: number;
  /** Number of messages added to the outbox. */
  readonly queued: number;
  /** Number of tasks that are new or need an earlier poll. */
  readonly tasks: number;
}

/** A peer, as of its last heartbeat. */
export interface Peer {
  /** Unique number of the proxy's run. */
  readonly epoch: number;
  /** Host and process of the peer, for display. */
  readonly instance: string;
  /** Null until the peer has sent a readable report. */
  readonly report: PeerReport | null;
}

/**
 * Live peers. Proxies send about two heartbeats per second. A proxy that is silent for some seconds is no longer live.
 */
export interface Peers {
  /** Sends the result of `report` with each heartbeat. */
  publish(report: () => PeerReport): void;
  /** Sends a heartbeat now, for a change that should not wait. */
  beatNow(): void;
  /** Returns live peers, as of the last successful heartbeat. */
  live(): readonly Peer[];
  /** Calls the listener after each successful heartbeat. Returns a function that removes the listener. */
  onBeat(listener: () => void): () => void;
}

/** Jobs that one proxy does for all proxies on the ledger. */
export const jobNames = ["tasks", "account", "alerts", "deliveries", "recovery"] as const;
export type JobName = (typeof jobNames)[number];

export interface JobClaims {
  /**
   * Claims free jobs and renews this proxy's jobs for `forMs` by the ledger's clock, starting at the call or later.
   * Returns this proxy's jobs; none if the ledger does not answer.
   */
  claim(jobs: readonly JobName[], forMs: number): Promise<readonly JobName[]>;
  /** Releases all jobs of this proxy, so that another proxy can claim them without a wait. */
  release(): Promise<void>;
}
