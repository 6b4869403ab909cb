import { createHash, randomBytes } from "node:crypto";
import { hourMs, minuteMs } from "../core/time.ts";
import type { Clock } from "../ports/clock.ts";
import { type DashboardSession, type DashboardSessions, dashboardSessionsMax } from "../ports/stores.ts";
import type { AdminCredential } from "./admin-gate.ts";

/**
 * Credential with which a session was begun. It is checked again for every request, so the session ends when the
 * credential becomes invalid.
 */
export type Holder =
  | { readonly kind: "admin"; readonly credential: AdminCredential }
  | { readonly kind: "key"; readonly id: string; readonly digest: Buffer };

export interface Session {
  readonly holder: Holder;
  /** Milliseconds since 1970 UTC. */
  readonly expiresAt: number;
}

/** Session in this process's cache. */
interface KnownSession {
  readonly session: Session;
  /** End on the monotonic scale, so that setting the clock back does not lengthen the session. */
  readonly endsAt: number;
  /** False if the ledger could not store the session: then only this process knows it. */
  readonly isStored: boolean;
}

/** Longest lifetime of a session, in milliseconds: a working day. */
export const sessionMs = 12 * hourMs;
/** Largest difference between the clocks of two proxies, in milliseconds. */
const skewMsMax = minuteMs;
/** Pattern of a session token: 256 bits in base64url. */
const tokenPattern = /^[\w-]{43}$/;

/**
 * Sessions of the dashboard. The ledger has only digests of their tokens. Each request reads its session from the
 * ledger, so the end of a session is in force at once in every process.
 */
export class Sessions {
  readonly #clock: Clock;
  readonly #stored: DashboardSessions;
  /** Cached sessions by token digest. The most recently read session is at the end. */
  readonly #known = new Map<string, KnownSession>();

  constructor({ clock, stored }: { clock: Clock; stored: DashboardSessions }) {
    this.#clock = clock;
    this.#stored = stored;
  }

  /**
   * Begins a session and returns its token, a text of 256 random bits. The session ends after twelve hours, or earlier if
   * the holder's token expires earlier. Ends the session with the token `replaced`.
   */
  async begin(
    holder: Holder,
    tokenExpiresAt: number | null,
    replaced: string | null = null,
  ): Promise<{ readonly token: string; readonly session: Session }> {
    const token = randomBytes(32).toString("base64url");
    const digest = digestOf(token);
    const createdAt = this.#clock.now();
    const session = { holder, expiresAt: Math.min(createdAt + sessionMs, tokenExpiresAt ?? Infinity) };
    const row = { digest, ...columnsOf(holder), createdAt, expiresAt: session.expiresAt };
    const result = await this.#stored.create(row, replaced === null ? null : digestOf(replaced));
    if (replaced !== null) this.#known.delete(digestOf(replaced));
    // If the ledger cannot be written, only this process knows the session. An operator can then still sign in.
    this.#remember(digest, session, result !== "unavailable");
    return { token, session };
  }

  /** Returns the session of a token; undefined if the session is unknown, ended or expired. */
  async find(token: string): Promise<Session | undefined> {
    if (!tokenPattern.test(token)) return undefined;
    const digest = digestOf(token);
    const known = this.#known.get(digest);
    const found = known?.isStored === false ? known : await this.#read(digest);
    if (found === undefined) return undefined;
    if (this.#clock.now() < found.session.expiresAt && this.#clock.monotonic() < found.endsAt) return found.session;
    return undefined;
  }

  /** Ends a session in every process. Throws `LedgerUnavailable` if the ledger cannot be written. */
  async end(token: string): Promise<void> {
    const digest = digestOf(token);
    this.#known.delete(digest);
    await this.#stored.end(digest);
  }

  async #read(digest: string): Promise<KnownSession | undefined> {
    const row = await this.#stored.find(digest);
    if (row === undefined) {
      this.#known.delete(digest);
      return undefined;
    }
    // After a restart, a start in the future shows that the clock was set back: the session would last too long.
    if (!this.#known.has(digest) && row.createdAt > this.#clock.now() + skewMsMax) return undefined;
    return this.#remember(digest, { holder: holderIn(row), expiresAt: row.expiresAt }, true);
  }

  #remember(digest: string, session: Session, isStored: boolean): KnownSession {
    const endsAt = this.#clock.monotonic() + session.expiresAt - this.#clock.now();
    const earlier = this.#known.get(digest)?.endsAt ?? Infinity;
    const known = { session, endsAt: Math.min(endsAt, earlier), isStored };
    this.#known.delete(digest);
    this.#known.set(digest, known);
    const [oldest] = this.#known.keys();
    if (this.#known.size > dashboardSessionsMax && oldest !== undefined) this.#known.delete(oldest);
    return known;
  }
}

function columnsOf(holder: Holder): Pick<DashboardSession, "kind" | "holder" | "secret"> {
  const { id, digest } = holder.kind === "admin" ? holder.credential : holder;
  return { kind: holder.kind, holder: id ?? "", secret: digest.toString("hex") };
}

function holderIn({ kind, holder: id, secret }: DashboardSession): Holder {
  const digest = Buffer.from(secret, "hex");
  if (kind === "key") return { kind, id, digest };
  return { kind, credential: { id: id === "" ? null : id, digest } };
}

function digestOf(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}
