import type { LimitUse } from "../core/limits.ts";

/** Operations of a proxy on a shared ledger. A ledger with one proxy has no fleet. */
export interface Fleet {
  readonly peers: Peers;
  readonly claims: JobClaims;
}

/** Data that a proxy sends to its peers with each heartbeat. */
export interface PeerReport {
  /** The content id of the prices in force. */
  readonly catalogue: string;
  /** Usage by owner of limits, only where there are limits and usage. */
  readonly used: Readonly<Record<string, LimitUse>>;
  readonly done: WorkDone;
}

/** Counts since the start. An increase means work for the proxy that does the job. */
export interface WorkDone {
  /** Number of posted charges. An increase means that budgets need a check. */
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
  /** Null until the peer has sent readable data. */
  readonly report: PeerReport | null;
}

/** Live peers. Proxies send about two heartbeats per second. A proxy that is silent for some seconds is no longer live. */
export interface Peers {
  /** Sends the result of `report` with each heartbeat. */
  publish(report: () => PeerReport): void;
  /** Sends a heartbeat now, for a change that should not wait. */
  beatNow(): void;
  /** Returns live peers, as of the last successful heartbeat. */
  live(): readonly Peer[];
  /** Calls back after each successful heartbeat. Returns a function that stops it. */
  onBeat(listener: () => void): () => void;
}

/** Jobs that one proxy does for all that share the ledger. */
export const jobNames = ["tasks", "account", "alerts", "deliveries", "recovery"] as const;
export type JobName = (typeof jobNames)[number];

export interface JobClaims {
  /**
   * Claims free jobs and renews this proxy's jobs for `forMs` by the ledger's clock, starting at the call or later.
   * Returns this proxy's jobs; none if the ledger does not answer.
   */
  claim(jobs: readonly JobName[], forMs: number): Promise<readonly JobName[]>;
  /** Releases all jobs of this proxy, so that another need not wait. */
  release(): Promise<void>;
}
