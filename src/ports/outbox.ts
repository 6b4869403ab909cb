/** What a message is. `task_webhook`: a payload of the gateway for the client that made the task, sealed. */
export const messageKinds = ["alert", "task_webhook"] as const;
export type MessageKind = (typeof messageKinds)[number];

/** Messages that hold what clients and the gateway say to each other: their payload is forgotten once they have ended. */
export const privateKinds: readonly MessageKind[] = ["task_webhook"];

export type MessageState =
  | "waiting"
  | "delivered"
  /** TryResult for as long as it is worth it, or its target is gone. */
  | "given_up"
  /** Nobody was to be told: it is kept for the record. */
  | "unsent";

/** A message as it is put in. Times are milliseconds since 1970 UTC. */
export interface NewMessage {
  /** The receiver may get a message more than once, always with this id. */
  readonly id: string;
  readonly kind: MessageKind;
  /** The name of whom it goes to, never an address or a secret; null for nobody. Messages of one target go in their order. */
  readonly target: string | null;
  /** Of messages with the same key only the first one is taken. */
  readonly dedupeKey: string;
  /** How long the key is remembered at least, beyond the message itself; null for ever. */
  readonly keyUntil: number | null;
  /** What is sent; of a private kind sealed, and "" once it has ended. */
  readonly payload: string;
  readonly createdAt: number;
}

export interface Message extends NewMessage {
  readonly state: MessageState;
  /** Tries that have ended. */
  readonly tries: number;
  /** Null unless it waits. */
  readonly nextTryAt: number | null;
  /** Null while it waits. */
  readonly endedAt: number | null;
  /** Why the last try failed, in a few words without address or secret. */
  readonly lastError: string | null;
}

/** What became of one try. */
export type TryResult =
  | { readonly kind: "delivered"; readonly at: number }
  | { readonly kind: "failed"; readonly error: string; readonly nextTryAt: number }
  | { readonly kind: "given_up"; readonly at: number; readonly error: string };

export interface DueMessages {
  /** The first waiting one of each target, where its time has come; in the order in which they were put in. */
  readonly messages: readonly Message[];
  /** When the next of the others may be tried; null where none waits. */
  readonly nextTryAt: number | null;
}

/**
 * Messages to the outside, kept durably until they are delivered or given up. Whoever delivers does so alone: the one
 * `serve` of the ledger. A promise that resolves with true, or with what was added, is durable.
 */
export interface Outbox {
  /** Adds all of them, at most 200, in one transaction, without those whose key is known. The ids of the new ones; undefined when nothing could be written. */
  put(messages: readonly NewMessage[]): Promise<readonly string[] | undefined>;
  /**
   * What is to be tried now, at most `limit`, but nothing for the targets `except`. A time further ahead than
   * `pauseMsMax` is none: the clock was set back since.
   */
  due(query: {
    readonly now: number;
    readonly except: readonly string[];
    readonly limit: number;
    readonly pauseMsMax: number;
  }): Promise<DueMessages>;
  /** Writes down what became of a try; a message that does not wait stays as it is. False when it could not be written. */
  tried(id: string, tried: TryResult): Promise<boolean>;
  /** How many wait. */
  waiting(): Promise<number>;
  /** Newest first, at most `limit` (1 to 1001), those before the message `after`; none where that is not known. */
  list(query: {
    readonly kind: MessageKind;
    readonly limit: number;
    readonly after?: string;
  }): Promise<readonly Message[]>;
  /** Removes some of those that ended before the instant and whose key need not be remembered `now`; how many, 0 when all are gone. */
  remove(endedBefore: number, now: number): Promise<number>;
}
