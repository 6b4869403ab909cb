import type { RunSession } from "../core/keys.ts";

/** `invalid_key`: the key is not live, or the session's secret no longer opens it. */
export type RunSessionCreation = "ok" | "invalid_key" | "too_many";

/** Session to create. Its secret is null if it begins without the key's text: the key's current secret then counts. */
export type NewRunSession = Omit<RunSession, "secret"> & { readonly secret: string | null };

/** Sessions of `farebox run` in the ledger. */
export interface RunSessions {
  /**
   * Returns the secret of the ledger, as 64 hexadecimal digits. It is the key for signatures of session credentials and
   * for hashes of user names.
   */
  secret(): Promise<string>;
  find(id: string): Promise<RunSession | undefined>;
  /**
   * Creates a session with its budget, if its secret opens its key, and the key is live and may have another session.
   * `by`: author for the audit log if a person with access to the ledger creates the session; null if its key does.
   */
  create(session: NewRunSession, by: string | null): Promise<RunSessionCreation>;
  /** Ends a session once and returns it; undefined if it does not exist. */
  end(id: string, at: number): Promise<RunSession | undefined>;
  /**
   * Removes the budgets of ended sessions, and later the sessions. Returns the number of sessions that lost their
   * budget or were removed.
   */
  tidy(at: number): Promise<number>;
}
