/** Callback requested from the gateway when a task was created. Its secrets are stored as digests or encrypted. */
export interface TaskCallback {
  /** Id of the task's charge. */
  readonly charge: string;
  /** SHA-256 of the callback's token, in hexadecimal. */
  readonly digest: string;
  /** Endpoints and secrets of Farebox and of the client, encrypted. */
  readonly sealed: string;
  /** Milliseconds since 1970 UTC. */
  readonly createdAt: number;
}

/** Callbacks of tasks. Each is pruned with its charge. A result of true is durable. */
export interface TaskCallbacks {
  /** Stores a callback. Returns false if it could not be written. */
  put(callback: TaskCallback): Promise<boolean>;
  byDigest(digest: string): Promise<TaskCallback | undefined>;
  byCharge(charge: string): Promise<TaskCallback | undefined>;
}
