/** Reports changes to keys, teams and budgets, and corrections of charges, by this process or another. */
export interface Changes {
  /** Calls the listener within a second of each change. Returns a function that removes the listener. */
  onChange(listener: () => void): () => void;
}
