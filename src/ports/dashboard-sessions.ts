/** Session of a browser that is signed in to the dashboard. Times are in milliseconds since 1970 UTC. */
export interface DashboardSession {
  /** SHA-256 of the session's token, hexadecimal. */
  readonly digest: string;
  readonly kind: "admin" | "key";
  /** Id of the admin or the key; "" for `FAREBOX_ADMIN_TOKEN`. */
  readonly holder: string;
  /** SHA-256 of the token or key that began the session, hexadecimal. */
  readonly secret: string;
  readonly createdAt: number;
  readonly expiresAt: number;
}

/** Largest number of sessions that one token or key has. A further session ends the oldest one. */
export const sessionsOfSecretMax = 20;
/** Largest number of sessions in total. A further session ends the oldest one. */
export const dashboardSessionsMax = 10_000;

/** Sessions of the dashboard. The ledger stores them, so each proxy accepts them, even after a restart. */
export interface DashboardSessions {
  find(digest: string): Promise<DashboardSession | undefined>;
  /**
   * Stores a session. Ends the session with the digest `replaced`, and the oldest sessions above the two maximums.
   * Removes expired sessions. Returns "unavailable" if the ledger cannot be written.
   */
  create(session: DashboardSession, replaced: string | null): Promise<"stored" | "unavailable">;
  /** Ends a session. Returns false if it does not exist. */
  end(digest: string): Promise<boolean>;
}
