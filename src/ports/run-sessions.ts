import type { RunSession } from "../core/keys.ts";

export type RunSessionCreation = "ok" | "no_such_key" | "too_many";

/** Sessions of `farebox run` in the ledger. */
export interface RunSessions {
  /**
   * Returns the secret of the ledger, as 64 hexadecimal digits. It is the key for signatures of session credentials and
   * for hashes of user names.
   */
  secret(): Promise<string>;
  find(id: string): Promise<RunSession | undefined>;
  /**
   * Creates a session with its budget, if its key is live and may have another session. `by`: author for the audit log
   * if a person with access to the ledger creates the session; null if its key does.
   */
  create(session: RunSession, by: string | null): Promise<RunSessionCreation>;
  /** Ends a session once and returns it; undefined if it does not exist. */
  end(id: string, at: number): Promise<RunSession | undefined>;
  /**
   * Removes the budgets of ended sessions, and later the sessions. Returns the number of sessions that lost their
   * budget or were removed.
   */
  tidy(at: number): Promise<number>;
}
