import type { RunSession } from "../core/keys.ts";

export type RunSessionCreation = "ok" | "no_such_key" | "too_many";

/** Sessions of `farebox run` in the ledger. */
export interface RunSessions {
  /** Returns the key of the HMAC in credentials: 64 hexadecimal digits. Only for checking credentials. */
  secret(): Promise<string>;
  find(id: string): Promise<RunSession | undefined>;
  /**
   * Creates a session with its budget, if its key is live and may have another session. `by`: author for the audit, who has
   * access to the ledger; null if the key itself creates the session.
   */
  create(session: RunSession, by: string | null): Promise<RunSessionCreation>;
  /** Ends a session once and returns it; undefined if it does not exist. */
  end(id: string, at: number): Promise<RunSession | undefined>;
  /** Removes the budgets of ended sessions, and later the sessions. Returns the number of sessions found. */
  tidy(at: number): Promise<number>;
}
