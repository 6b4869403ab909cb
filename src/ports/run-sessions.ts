import type { RunSession } from "../core/keys.ts";

export type RunSessionCreation = "ok" | "no_such_key" | "too_many";

/** Sessions of `farebox run` in the ledger. */
export interface RunSessions {
  /** The key of the HMAC in credentials: 64 hexadecimal digits. For the check of credentials alone. */
  secret(): Promise<string>;
  find(id: string): Promise<RunSession | undefined>;
  /**
   * Begins a session, with its budget, where its key is live and has room for another one. `by`: who does so with the ledger
   * instead of the key, for the audit; null for the key itself.
   */
  create(session: RunSession, by: string | null): Promise<RunSessionCreation>;
  /** Ends a session, once, and returns it; undefined where there is none. */
  end(id: string, at: number): Promise<RunSession | undefined>;
  /** Removes the budgets of sessions that are over, and later the sessions; returns how many it found. */
  tidy(at: number): Promise<number>;
}
