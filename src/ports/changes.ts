/** Tells that keys, budgets or settings in the store were changed, by this process or another. */
export interface Changes {
  /** Within a second of the change. Returns the way to stop listening. */
  onChange(listener: () => void): () => void;
}
