import type { LimitUse } from "../core/limits.ts";

/** Proxies that share a ledger, seen from one of them. A ledger with one proxy has none. */
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

/** Counts since the start. A grown count is work for the proxy that does the job. */
export interface WorkDone {
  /** Posted charges: budgets need a check. */
  readonly posted: number;
  /** Messages added to the outbox. */
  readonly queued: number;
  /** Tasks to poll, new or earlier than known. */
  readonly tasks: number;
}

/** A peer, as of its last heartbeat. */
export interface Peer {
  /** One for each run of a proxy. */
  readonly epoch: number;
  /** A name for people: where it runs. */
  readonly instance: string;
  /** Null until it has sent readable data. */
  readonly report: PeerReport | null;
}

/** Proxies beat about twice a second; one that is silent for some seconds is no longer live. */
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
   * Claims free jobs and renews this proxy's jobs for `forMs` by the ledger's clock, from the call at the earliest.
   * Returns its jobs; none if the ledger does not answer.
   */
  claim(jobs: readonly JobName[], forMs: number): Promise<readonly JobName[]>;
  /** Releases all jobs of this proxy, so that another need not wait. */
  release(): Promise<void>;
}
