/** Kind of a message. `task_webhook`: a gateway payload for the client that created the task, sealed. */
export const messageKinds = ["alert", "task_webhook"] as const;
export type MessageKind = (typeof messageKinds)[number];

/** Kinds with content of clients and the gateway: their payload is deleted once they have ended. */
export const privateKinds: readonly MessageKind[] = ["task_webhook"];

export type MessageState =
  | "waiting"
  | "delivered"
  /** TryResult for as long as it is worth it, or its target is gone. */
  | "given_up"
  /** Kept for the record without a receiver. */
  | "unsent";

/** A message as it is put in. Times are milliseconds since 1970 UTC. */
export interface NewMessage {
  /** The receiver may get a message more than once, always with this id. */
  readonly id: string;
  readonly kind: MessageKind;
  /** Name of the receiver, never an address or a secret; null for none. Messages of one target are sent in order. */
  readonly target: string | null;
  /** Only the first message with a key is accepted. */
  readonly dedupeKey: string;
  /** Least time for which the key is stored, beyond the message itself; null for ever. */
  readonly keyUntil: number | null;
  /** Body to send; sealed for a private kind, and "" once it has ended. */
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

/** Result of one attempt. */
export type TryResult =
  | { readonly kind: "delivered"; readonly at: number }
  | { readonly kind: "failed"; readonly error: string; readonly nextTryAt: number }
  | { readonly kind: "given_up"; readonly at: number; readonly error: string };

export interface DueMessages {
  /** First waiting message of each target that is due, in order of creation. */
  readonly messages: readonly Message[];
  /** Time of the next attempt of the others; null where none waits. */
  readonly nextTryAt: number | null;
}

/**
 * Outgoing messages, stored until they are delivered or abandoned. Only one proxy of a ledger delivers. A promise that
 * resolves with true, or with ids, is durable.
 */
export interface Outbox {
  /**
   * Adds at most 200 messages in one transaction, without those with a known key. Returns the new ids; undefined when
   * nothing could be written.
   */
  put(messages: readonly NewMessage[]): Promise<readonly string[] | undefined>;
  /**
   * Returns at most `limit` due messages, without the targets `except`. A time further ahead than `pauseMsMax` counts
   * as due: the clock was set back.
   */
  due(query: {
    readonly now: number;
    readonly except: readonly string[];
    readonly limit: number;
    readonly pauseMsMax: number;
  }): Promise<DueMessages>;
  /** Stores the result of an attempt; ignores a message that does not wait. False when it could not be written. */
  tried(id: string, tried: TryResult): Promise<boolean>;
  /** Returns the number of waiting messages. */
  waiting(): Promise<number>;
  /** Newest first, at most `limit` (1 to 1001), those before the message `after`; none where that is not known. */
  list(query: {
    readonly kind: MessageKind;
    readonly limit: number;
    readonly after?: string;
  }): Promise<readonly Message[]>;
  /**
   * Removes some messages that ended before the instant and whose key is no longer needed at `now`. Returns their
   * number, 0 when all are gone.
   */
  remove(endedBefore: number, now: number): Promise<number>;
}
