import { createHash, randomBytes } from "node:crypto";
import type { Clock } from "../ports/clock.ts";
import type { AdminCredential } from "./admin-gate.ts";

/** Credential of a session. It is checked again with every request, so that the session ends with its token. */
export type Holder =
  | { readonly kind: "admin"; readonly credential: AdminCredential }
  | { readonly kind: "key"; readonly id: string; readonly digest: Buffer };

export interface Session {
  readonly holder: Holder;
  /** Milliseconds since 1970 UTC. */
  readonly expiresAt: number;
}

/** `overAt` is on the monotonic scale, so that a clock that is set back does not lengthen a session. */
interface TimedSession extends Session {
  readonly overAt: number;
}

/** Lifetime of a session: a working day. */
export const sessionMs = 12 * 3_600_000;
/** Sessions of one token; with another one its oldest ends. */
const perHolderMax = 20;
/** Sessions of all; with another one the oldest ends. */
const sessionsMax = 10_000;

/** Sessions of the dashboard, in memory alone: a restart ends them all. Their tokens are kept as digests. */
export class Sessions {
  readonly #clock: Clock;
  /** By their tokens' digests, in the order of their beginning. */
  readonly #sessions = new Map<string, TimedSession>();
  /** The names of each holder's, in the same order. */
  readonly #ofHolder = new Map<string, Set<string>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Begins a session, which ends after twelve hours or, where that is earlier, with its token; the text of 256 random bits is its key. */
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

/** One text for all sessions of a token. */
function nameOf(holder: Holder): string {
  return (holder.kind === "admin" ? holder.credential.digest : holder.digest).toString("base64");
}

function digestOf(token: string): string {
  return createHash("sha256").update(token).digest("base64");
}
