/** Callback requested from the gateway when a task was created. Its secrets are stored as digests or encrypted. */
export interface TaskCallback {
  /** The task's charge. */
  readonly charge: string;
  /** SHA-256 of its token, hexadecimal. */
  readonly digest: string;
  /** Our endpoint and secret, and the client's. */
  readonly sealed: string;
  /** Milliseconds since 1970 UTC. */
  readonly createdAt: number;
}

/** Callbacks of tasks; each is pruned with its charge. A promise that resolves with true is durable. */
export interface TaskCallbacks {
  /** False where it could not be written. */
  put(callback: TaskCallback): Promise<boolean>;
  byDigest(digest: string): Promise<TaskCallback | undefined>;
  byCharge(charge: string): Promise<TaskCallback | undefined>;
}
