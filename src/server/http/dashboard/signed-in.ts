import type { AdminCaller, AdminGate } from "../../../admin/admin-gate.ts";
import { FailedAttempts } from "../../../admin/failed-attempts.ts";
import { Sessions, type Holder, type Session } from "../../../admin/sessions.ts";
import { SignInCodes } from "../../../admin/sign-in-codes.ts";
import type { Refusal } from "../../../core/refusals.ts";
import type { Exchange } from "../../../ports/exchange.ts";
import {
  digestOfSecret,
  hasCredential,
  type Authenticate,
  type Authenticated,
  type Keyring,
} from "../../../request/authenticate.ts";
import { sessionToken } from "./cookie.ts";

/** The signed-in admin or key, with its current rights. */
export type SignedIn = { readonly expiresAt: number } & (
  | { readonly kind: "admin"; readonly caller: AdminCaller }
  | { readonly kind: "key"; readonly who: Authenticated }
);

type SignIn =
  | { readonly ok: true; readonly token: string; readonly signedIn: SignedIn }
  | { readonly ok: false; readonly message: string; readonly retryAfterSeconds: number | null };

/** Result of checking a request's session. `refusal` is null if the request has no valid session. */
type Admitted<T> = { readonly ok: true; readonly by: T } | { readonly ok: false; readonly refusal: Refusal | null };

/** Sessions of the dashboard. A session starts with an admin token or a key, and ends no later than this credential. */
export class BrowserSessions {
  readonly #gate: AdminGate;
  readonly #keyring: Keyring;
  readonly #sessions: Sessions;
  readonly #codes: SignInCodes;
  readonly #attempts: FailedAttempts;

  constructor(
    deps: { readonly gate: AdminGate; readonly keyring: Keyring } & ConstructorParameters<typeof Sessions>[0],
  ) {
    this.#gate = deps.gate;
    this.#keyring = deps.keyring;
    this.#sessions = new Sessions(deps);
    this.#codes = new SignInCodes(deps.clock);
    this.#attempts = new FailedAttempts(deps.clock);
  }

  /**
   * Begins a session with an admin token, a key, or a code from `code`. Ends the session that the request already has.
   */
  signIn(exchange: Exchange, text: string): Promise<SignIn> {
    const token = this.#codes.use(text) ?? text;
    return token.startsWith("sk-fb-") ? this.#signInWithKey(exchange, token) : this.#signInAsAdmin(exchange, token);
  }

  /** Returns a code that signs a browser in once, so that the browser does not receive the token. */
  code(token: string): string {
    return this.#codes.create(token);
  }

  /** Returns the holder of a request's session; undefined if it has no valid session. */
  async signedIn(exchange: Exchange): Promise<SignedIn | undefined> {
    const token = sessionToken(exchange);
    const session = token === undefined ? undefined : await this.#sessions.find(token);
    return session && this.#currentHolder(session);
  }

  async signOut(exchange: Exchange): Promise<void> {
    const token = sessionToken(exchange);
    if (token !== undefined) await this.#sessions.end(token);
  }

  /** Returns the admin whose session a request may use. */
  async admin(exchange: Exchange): Promise<Admitted<AdminCaller>> {
    const found = await this.#admitted(exchange);
    if (!found.ok) return found;
    return found.by.kind === "admin" ? { ok: true, by: found.by.caller } : { ok: false, refusal: keySessionRefusal };
  }

  /** Returns an authentication that accepts a key or the session of a key. */
  acceptKeySessions(authenticate: Authenticate): Authenticate {
    return async (exchange) => {
      const found = hasCredential(exchange) ? null : await this.#admitted(exchange);
      if (found === null || (!found.ok && found.refusal === null)) return authenticate(exchange);
      if (!found.ok) return { ok: false, refusal: found.refusal ?? adminSessionRefusal };
      return found.by.kind === "key" ? { ok: true, ...found.by.who } : { ok: false, refusal: adminSessionRefusal };
    };
  }

  async #currentHolder({ holder, expiresAt }: Session): Promise<SignedIn | undefined> {
    if (holder.kind === "admin") {
      const caller = await this.#gate.currentCaller(holder.credential);
      return caller && { kind: "admin", caller, expiresAt };
    }
    const who = await this.#keyring.byDigest(holder.id, holder.digest);
    return who.ok ? { kind: "key", who, expiresAt } : undefined;
  }

  #begin(exchange: Exchange, holder: Holder, tokenExpiresAt: number | null) {
    return this.#sessions.begin(holder, tokenExpiresAt, sessionToken(exchange) ?? null);
  }

  async #signInAsAdmin(exchange: Exchange, text: string): Promise<SignIn> {
    const admission = await this.#gate.admit(`Bearer ${text}`, exchange.remoteAddress);
    if (!admission.ok) return admission;
    const { caller, credential } = admission;
    const { token, session } = await this.#begin(exchange, { kind: "admin", credential }, caller.expiresAt);
    return { ok: true, token, signedIn: { kind: "admin", caller, expiresAt: session.expiresAt } };
  }

  /** Signs in with a key. Wrong keys are delayed like wrong admin tokens. */
  async #signInWithKey(exchange: Exchange, text: string): Promise<SignIn> {
    const who = await this.#keyring.bySecret(text);
    if (!who.ok) {
      const delayed = await this.#attempts.delay(exchange.remoteAddress);
      if (!delayed.ok)
        return {
          ok: false,
          message: "There were too many attempts with wrong keys from this address; try again later.",
          retryAfterSeconds: delayed.retryAfterSeconds,
        };
      return {
        ok: false,
        message: "message" in who.refusal ? who.refusal.message : "This API key is not valid.",
        retryAfterSeconds: null,
      };
    }
    const { id, expiresAt } = who.key;
    const { token, session } = await this.#begin(
      exchange,
      { kind: "key", id, digest: digestOfSecret(text) },
      expiresAt,
    );
    return { ok: true, token, signedIn: { kind: "key", who, expiresAt: session.expiresAt } };
  }

  /** Returns the holder of the session in a request's cookie, if the request may use it. */
  async #admitted(exchange: Exchange): Promise<Admitted<SignedIn>> {
    const found = await this.signedIn(exchange);
    if (found === undefined) return { ok: false, refusal: null };
    const isRead = exchange.method === "GET" || exchange.method === "HEAD";
    if (!isRead && !isOwnPage(exchange)) {
      return { ok: false, refusal: { code: "cross_site", origin: exchange.header("origin") ?? null, session: true } };
    }
    return { ok: true, by: found };
  }
}

/**
 * Returns true if the request comes from the dashboard's own page. Writes with a cookie are accepted only from this
 * page.
 */
export function isOwnPage(exchange: Exchange): boolean {
  const origin = exchange.header("origin");
  if (origin === undefined || exchange.header("x-farebox-dashboard") !== "1") return false;
  // The browser states here that the page has the same origin. This is valid even if another proxy changes the host.
  if (exchange.header("sec-fetch-site") === "same-origin") return true;
  return URL.parse(origin)?.host === exchange.header("host");
}

const keySessionRefusal: Refusal = {
  code: "admin_refused",
  message: "A key's session shows only that key's figures, at /v1/farebox; sign in with an admin token.",
  retryAfterSeconds: null,
};

const adminSessionRefusal: Refusal = {
  code: "invalid_api_key",
  message: "An admin's session has no key; /admin/v1 has the figures of all keys.",
};
