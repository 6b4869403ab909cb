/** Callback that Farebox requested from the gateway for a task. Its secrets are stored encrypted or as digests. */
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

/** Callbacks of tasks. Retention removes a callback with its charge. */
export interface TaskCallbacks {
  /** Stores a callback durably. Returns false if it could not be written. */
  put(callback: TaskCallback): Promise<boolean>;
  byDigest(digest: string): Promise<TaskCallback | undefined>;
  byCharge(charge: string): Promise<TaskCallback | undefined>;
}
