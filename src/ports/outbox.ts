/** Kinds of messages. `task_webhook`: an encrypted gateway payload for the client that created the task. */
export const messageKinds = ["alert", "task_webhook"] as const;
export type MessageKind = (typeof messageKinds)[number];

/** Kinds whose payload comes from clients or the gateway. The payload is deleted when the message ends. */
export const privateKinds: readonly MessageKind[] = ["task_webhook"];

type MessageState =
  | "waiting"
  | "delivered"
  /** Abandoned after failed attempts, or because its target no longer exists. */
  | "given_up"
  /** Recorded without a receiver, and never sent. */
  | "unsent";

/** A message to add. Times are in milliseconds since 1970 UTC. */
export interface NewMessage {
  /** Id that the receiver gets with every attempt, because it may get a message more than once. */
  readonly id: string;
  readonly kind: MessageKind;
  /**
   * Name of the receiver, never an address or a secret; null if there is none. Messages to one target are sent in
   * order.
   */
  readonly target: string | null;
  /** Only the first message with a key is accepted. */
  readonly dedupeKey: string;
  /** Earliest time at which the key may be deleted; null for never. */
  readonly keyUntil: number | null;
  /** Body to send. The body of a private kind is encrypted, and it is "" after the message has ended. */
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

interface DueMessages {
  /** The first waiting message of each target, if it is due. In the order of creation. */
  readonly messages: readonly Message[];
  /** Earliest time at which another message is due; null if no other message is waiting. */
  readonly nextTryAt: number | null;
}

/**
 * Outgoing messages, stored until they are delivered or abandoned. Only one proxy of a ledger delivers messages. A
 * write that succeeded is durable.
 */
export interface Outbox {
  /**
   * Adds at most 200 messages in one transaction. Skips messages with a known key. Returns the ids of added messages;
   * undefined if nothing could be written.
   */
  put(messages: readonly NewMessage[]): Promise<readonly string[] | undefined>;
  /**
   * Returns at most `limit` due messages, except those to the targets `except`. A message that is scheduled more than
   * `pauseMsMax` ahead also counts as due, because the clock was set back.
   */
  due(query: {
    readonly now: number;
    readonly except: readonly string[];
    readonly limit: number;
    readonly pauseMsMax: number;
  }): Promise<DueMessages>;
  /**
   * Stores the result of an attempt. Ignores a message that is not waiting. Returns false if it could not be written.
   */
  tried(id: string, tried: TryResult): Promise<boolean>;
  /** Returns which of at most 1,000 keys are known. */
  known(dedupeKeys: readonly string[]): Promise<readonly string[]>;
  /** Returns the number of waiting messages. */
  waiting(): Promise<number>;
  /**
   * Returns at most `limit` (1 to 1001) messages older than `after`, newest first. Returns none if `after` is unknown.
   */
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
