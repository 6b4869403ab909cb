import type { LimitUse } from "../core/limits.ts";

/** The proxies that share one ledger, as one of them sees the others. A ledger with one proxy has none of this. */
export interface Fleet {
  readonly peers: Peers;
  readonly claims: JobClaims;
}

/** What a proxy tells the others with each of its beats. */
export interface News {
  /** The content id of the prices in force. */
  readonly catalogue: string;
  /** By whose limits they are: what was used. Only of those with limits who used something. */
  readonly used: Readonly<Record<string, LimitUse>>;
  readonly done: WorkDone;
}

/** Counts since the start: one that has grown is work for whoever does a job for all proxies. */
export interface WorkDone {
  /** Charges that were posted: the budgets are to be looked at. */
  readonly posted: number;
  /** Messages that were put into the outbox. */
  readonly queued: number;
  /** Tasks that are to be followed, or earlier than it was known. */
  readonly tasks: number;
}

/** Another proxy, as of its last beat. */
export interface Peer {
  /** One for each run of a proxy. */
  readonly epoch: number;
  /** A name for people: where it runs. */
  readonly instance: string;
  /** Null until it has told something that can be read. */
  readonly news: News | null;
}

/** Each proxy beats about twice a second; one that was silent for some seconds is not live any more. */
export interface Peers {
  /** Has each beat take along what `news` answers. */
  tell(news: () => News): void;
  /** Beats now: what changed should not wait. */
  beatNow(): void;
  /** The others that live, as of the last beat that came through. */
  live(): readonly Peer[];
  /** After each beat that came through. Returns the way to stop listening. */
  onBeat(listener: () => void): () => void;
}

/** What one proxy does for all that share the ledger. */
export const jobNames = ["tasks", "account", "alerts", "deliveries", "recovery"] as const;
export type JobName = (typeof jobNames)[number];

export interface JobClaims {
  /**
   * Claims what nobody has, and renews what this proxy has, for `forMs` by the ledger's clock, which begins no earlier than
   * the call. Those that are its own now; none where the ledger does not answer.
   */
  claim(jobs: readonly JobName[], forMs: number): Promise<readonly JobName[]>;
  /** Gives up all that this proxy has, so that another one need not wait. */
  release(): Promise<void>;
}
