/** Notifies of changes to keys, budgets or settings in the store, by this process or another. */
export interface Changes {
  /** Calls back within a second of a change. Returns a function that stops it. */
  onChange(listener: () => void): () => void;
}
