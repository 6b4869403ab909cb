/** Kinds of messages. `task_webhook`: an encrypted gateway payload for the client that created the task. */
export const messageKinds = ["alert", "task_webhook"] as const;
export type MessageKind = (typeof messageKinds)[number];

/** Kinds with content of clients or the gateway. The payload of an ended message is deleted. */
export const privateKinds: readonly MessageKind[] = ["task_webhook"];

export type MessageState =
  | "waiting"
  | "delivered"
  /** Abandoned after failed attempts, or because its target no longer exists. */
  | "given_up"
  /** Kept for the record without a receiver. */
  | "unsent";

/** A message to add. Times are in milliseconds since 1970 UTC. */
export interface NewMessage {
  /** Id that the receiver gets with every attempt. It may receive a message more than once. */
  readonly id: string;
  readonly kind: MessageKind;
  /** Name of the receiver, never an address or a secret; null if there is none. Messages to one target are sent in order. */
  readonly target: string | null;
  /** Only the first message with a key is accepted. */
  readonly dedupeKey: string;
  /** Earliest time at which the key may be forgotten; null for never. */
  readonly keyUntil: number | null;
  /** Body to send. For a private kind, it is encrypted, and "" after the message has ended. */
  readonly payload: string;
  readonly createdAt: number;
}

export interface Message extends NewMessage {
  readonly state: MessageState;
  /** Number of completed attempts. */
  readonly tries: number;
  /** Null unless the message is waiting. */
  readonly nextTryAt: number | null;
  /** Null while the message is waiting. */
  readonly endedAt: number | null;
  /** Short reason why the last attempt failed, without address or secret. */
  readonly lastError: string | null;
}

/** Result of one delivery attempt. */
export type TryResult =
  | { readonly kind: "delivered"; readonly at: number }
  | { readonly kind: "failed"; readonly error: string; readonly nextTryAt: number }
  | { readonly kind: "given_up"; readonly at: number; readonly error: string };

export interface DueMessages {
  /** First waiting message of each target, if due, in the order of creation. */
  readonly messages: readonly Message[];
  /** Time of the next attempt of the other messages; null if none is waiting. */
  readonly nextTryAt: number | null;
}

/**
 * Outgoing messages, stored until they are delivered or abandoned. Only one proxy of a ledger delivers messages. A result
 * of true, or of ids, is durable.
 */
export interface Outbox {
  /**
   * Adds at most 200 messages in one transaction. Skips messages with a known key. Returns the ids of added messages;
   * undefined if nothing could be written.
   */
  put(messages: readonly NewMessage[]): Promise<readonly string[] | undefined>;
  /**
   * Returns at most `limit` due messages, except those to the targets `except`. A message scheduled more than
   * `pauseMsMax` ahead is due, because the clock was set back.
   */
  due(query: {
    readonly now: number;
    readonly except: readonly string[];
    readonly limit: number;
    readonly pauseMsMax: number;
  }): Promise<DueMessages>;
  /** Stores the result of an attempt. Ignores a message that is not waiting. Returns false if it could not be written. */
  tried(id: string, tried: TryResult): Promise<boolean>;
  /** Returns the number of waiting messages. */
  waiting(): Promise<number>;
  /** Returns at most `limit` (1 to 1001) messages older than `after`, newest first. Returns none if `after` is unknown. */
  list(query: {
    readonly kind: MessageKind;
    readonly limit: number;
    readonly after?: string;
  }): Promise<readonly Message[]>;
  /**
   * Removes some messages that ended before the instant and whose key is not needed at `now`. Returns the number of
   * removed messages; 0 if none are left.
   */
  remove(endedBefore: number, now: number): Promise<number>;
}
