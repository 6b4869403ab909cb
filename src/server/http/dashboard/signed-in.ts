import type { AdminCaller, AdminGate } from "../../../admin/admin-gate.ts";
import { FailedTries } from "../../../admin/failed-tries.ts";
import { Sessions, type Session } from "../../../admin/sessions.ts";
import type { Refusal } from "../../../core/refusals.ts";
import type { Clock } from "../../../ports/clock.ts";
import type { Exchange } from "../../../ports/exchange.ts";
import {
  digestOfSecret,
  hasCredential,
  type Authenticate,
  type Authenticated,
  type Keyring,
} from "../../../request/authenticate.ts";
import { sessionToken } from "./cookie.ts";

/** The signed-in admin or key, with its present rights. */
export type SignedIn = { readonly expiresAt: number } & (
  | { readonly kind: "admin"; readonly caller: AdminCaller }
  | { readonly kind: "key"; readonly who: Authenticated }
);

export type SignIn =
  | { readonly ok: true; readonly token: string; readonly signedIn: SignedIn }
  | { readonly ok: false; readonly message: string; readonly retryAfterSeconds: number | null };

/** Result of checking a request's session. `refusal` is null if the request has no valid session. */
export type Admitted<T> =
  | { readonly ok: true; readonly by: T }
  | { readonly ok: false; readonly refusal: Refusal | null };

/** Sessions of the dashboard. A session starts with a token and ends when the token does. */
export interface DashboardSessions {
  signIn(token: string, address: string): Promise<SignIn>;
  /** Returns the holder of a request's session; undefined if it has no valid session. */
  signedIn(exchange: Exchange): Promise<SignedIn | undefined>;
  signOut(exchange: Exchange): void;
  /** Returns true if the request comes from the dashboard's own page. Writes with a cookie are accepted only from there. */
  isOwnPage(exchange: Exchange): boolean;
  /** Returns the admin whose session a request may use. */
  admin(exchange: Exchange): Promise<Admitted<AdminCaller>>;
  /** Returns an authentication that accepts a key or the session of a key. */
  own(authenticate: Authenticate): Authenticate;
}

export function createDashboardSessions(deps: {
  readonly gate: AdminGate;
  readonly keyring: Keyring;
  readonly clock: Clock;
}): DashboardSessions {
  const { gate, keyring, clock } = deps;
  const sessions = new Sessions(clock);
  const tries = new FailedTries(clock);

  async function holderNow({ holder, expiresAt }: Session): Promise<SignedIn | undefined> {
    if (holder.kind === "admin") {
      const caller = await gate.stillOpens(holder.credential);
      return caller && { kind: "admin", caller, expiresAt };
    }
    const who = await keyring.byDigest(holder.id, holder.digest);
    return who.ok ? { kind: "key", who, expiresAt } : undefined;
  }

  async function signedIn(exchange: Exchange): Promise<SignedIn | undefined> {
    const token = sessionToken(exchange);
    const session = token === undefined ? undefined : sessions.find(token);
    if (token === undefined || session === undefined) return undefined;
    const holder = await holderNow(session);
    if (holder === undefined) sessions.end(token);
    return holder;
  }

  async function signInAsAdmin(text: string, address: string): Promise<SignIn> {
    const admission = await gate.admit(`Bearer ${text}`, address);
    if (!admission.ok) return admission;
    const { caller, credential } = admission;
    const { token, session } = sessions.begin({ kind: "admin", credential }, caller.expiresAt);
    return { ok: true, token, signedIn: { kind: "admin", caller, expiresAt: session.expiresAt } };
  }

  /** Signs in with a key. Wrong keys are delayed like wrong admin tokens. */
  async function signInWithKey(text: string, address: string): Promise<SignIn> {
    const who = await keyring.bySecret(text);
    if (!who.ok) {
      const slowed = await tries.slow(address);
      if (!slowed.ok)
        return {
          ok: false,
          message: "Too many tries with wrong keys came from this address.",
          retryAfterSeconds: slowed.retryAfterSeconds,
        };
      return {
        ok: false,
        message: "message" in who.refusal ? who.refusal.message : "This API key is not valid.",
        retryAfterSeconds: null,
      };
    }
    const { id, expiresAt } = who.key;
    const { token, session } = sessions.begin({ kind: "key", id, digest: digestOfSecret(text) }, expiresAt);
    return { ok: true, token, signedIn: { kind: "key", who, expiresAt: session.expiresAt } };
  }

  function isOwnPage(exchange: Exchange): boolean {
    const origin = exchange.header("origin");
    if (origin === undefined || exchange.header("x-farebox-dashboard") !== "1") return false;
    // The browser's statement that the page has the same origin is valid even if a proxy changes the host.
    if (exchange.header("sec-fetch-site") === "same-origin") return true;
    return URL.parse(origin)?.host === exchange.header("host");
  }

  /** Returns the holder of the session in a request's cookie, if the request may use it. */
  async function admitted(exchange: Exchange): Promise<Admitted<SignedIn>> {
    const found = await signedIn(exchange);
    if (found === undefined) return { ok: false, refusal: null };
    const isRead = exchange.method === "GET" || exchange.method === "HEAD";
    if (!isRead && !isOwnPage(exchange)) {
      return { ok: false, refusal: { code: "cross_site", origin: exchange.header("origin") ?? null, session: true } };
    }
    return { ok: true, by: found };
  }

  return {
    signedIn,
    isOwnPage,
    signIn: (text, address) =>
      text.startsWith("sk-fb-") ? signInWithKey(text, address) : signInAsAdmin(text, address),
    signOut(exchange) {
      const token = sessionToken(exchange);
      if (token !== undefined) sessions.end(token);
    },
    async admin(exchange) {
      const found = await admitted(exchange);
      if (!found.ok) return found;
      return found.by.kind === "admin" ? { ok: true, by: found.by.caller } : { ok: false, refusal: keysSession };
    },
    own: (authenticate) => async (exchange) => {
      const found = hasCredential(exchange) ? null : await admitted(exchange);
      if (found === null || (!found.ok && found.refusal === null)) return authenticate(exchange);
      if (!found.ok) return { ok: false, refusal: found.refusal ?? adminsSession };
      return found.by.kind === "key" ? { ok: true, ...found.by.who } : { ok: false, refusal: adminsSession };
    },
  };
}

const keysSession: Refusal = {
  code: "admin_refused",
  message: "A session of a key sees only that key's figures, at /v1/farebox; sign in with an admin token.",
  retryAfterSeconds: null,
};

const adminsSession: Refusal = {
  code: "invalid_api_key",
  message: "A session of an admin has no key of its own; /admin/v1 has the figures of all keys.",
};
