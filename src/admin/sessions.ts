import { createHash, randomBytes } from "node:crypto";
import type { Clock } from "../ports/clock.ts";
import type { AdminCredential } from "./admin-gate.ts";

/** Credential of a session. It is checked again for every request, so that the session ends with its token. */
export type Holder =
  | { readonly kind: "admin"; readonly credential: AdminCredential }
  | { readonly kind: "key"; readonly id: string; readonly digest: Buffer };

export interface Session {
  readonly holder: Holder;
  /** Milliseconds since 1970 UTC. */
  readonly expiresAt: number;
}

/** A session with its end. `overAt` is on the monotonic scale, so that setting the clock back does not lengthen a session. */
interface TimedSession extends Session {
  readonly overAt: number;
}

/** Longest lifetime of a session, in milliseconds: a working day. */
export const sessionMs = 12 * 3_600_000;
/** Largest number of sessions of one token. A further session ends the token's oldest one. */
const perHolderMax = 20;
/** Largest number of sessions in total. A further session ends the oldest one. */
const sessionsMax = 10_000;

/** Sessions of the dashboard. They are kept only in memory, so a restart ends them all. Their tokens are stored as digests. */
export class Sessions {
  readonly #clock: Clock;
  /** Sessions by the digests of their tokens, oldest first. */
  readonly #sessions = new Map<string, TimedSession>();
  /** Digests of each holder's sessions, oldest first. */
  readonly #ofHolder = new Map<string, Set<string>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Begins a session and returns its token, a text of 256 random bits. The session ends after twelve hours, or earlier if
   * the holder's token expires earlier.
   */
  begin(holder: Holder, tokenExpiresAt: number | null): { readonly token: string; readonly session: Session } {
    const own = this.#ofHolder.get(nameOf(holder)) ?? new Set();
    const [oldestOwn] = own;
    const [oldest] = this.#sessions.keys();
    if (own.size >= perHolderMax) this.#end(oldestOwn);
    else if (this.#sessions.size >= sessionsMax) this.#end(oldest);
    const token = randomBytes(32).toString("base64url");
    const now = this.#clock.now();
    const expiresAt = Math.min(now + sessionMs, tokenExpiresAt ?? Infinity);
    const session = { holder, expiresAt, overAt: this.#clock.monotonic() + expiresAt - now };
    const name = digestOf(token);
    this.#sessions.set(name, session);
    this.#ofHolder.set(nameOf(holder), own.add(name));
    return { token, session };
  }

  find(token: string): Session | undefined {
    const name = digestOf(token);
    const session = this.#sessions.get(name);
    if (session === undefined) return undefined;
    if (this.#clock.now() < session.expiresAt && this.#clock.monotonic() < session.overAt) return session;
    this.#end(name);
    return undefined;
  }

  end(token: string): void {
    this.#end(digestOf(token));
  }

  get size(): number {
    return this.#sessions.size;
  }

  #end(name: string | undefined): void {
    const session = name === undefined ? undefined : this.#sessions.get(name);
    if (name === undefined || session === undefined) return;
    this.#sessions.delete(name);
    const holder = nameOf(session.holder);
    const own = this.#ofHolder.get(holder);
    own?.delete(name);
    if (own?.size === 0) this.#ofHolder.delete(holder);
  }
}

/** Returns the same text for all sessions of a token. */
function nameOf(holder: Holder): string {
  return (holder.kind === "admin" ? holder.credential.digest : holder.digest).toString("base64");
}

function digestOf(token: string): string {
  return createHash("sha256").update(token).digest("base64");
}
