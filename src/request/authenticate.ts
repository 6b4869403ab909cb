import { LRUCache } from "lru-cache";
import { hash, timingSafeEqual } from "node:crypto";
import type { Caller } from "../core/budget.ts";
import {
  isLive,
  isSecretReplaced,
  mayUse,
  stateOfSession,
  type Key,
  type RunSession,
  type Team,
} from "../core/keys.ts";
import { smallestCap } from "../core/bounds.ts";
import type { Refusal } from "../core/refusals.ts";
import type { Changes } from "../ports/changes.ts";
import type { Clock } from "../ports/clock.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { RunSessions } from "../ports/run-sessions.ts";
import type { TeamStore } from "../ports/team-store.ts";
import { isSigned, readCredential } from "../wire/run-credential.ts";

/** Key, team and caller of a request. `key` is null if the request needs no key. */
export interface Authenticated {
  readonly key: Key | null;
  /** Team of the key; null for none. */
  readonly team: Team | null;
  readonly caller: Caller;
  /** Session of `farebox run` whose credential was sent; missing if the key itself was sent. */
  readonly session?: RunSession;
}

type Authentication = ({ readonly ok: true } & Authenticated) | { readonly ok: false; readonly refusal: Refusal };

/** A key with its team, as it is cached for its requests. */
type Known = Extract<Authentication, { ok: true }> & { readonly key: Key };

/** Authenticates a request. Returns the result synchronously for a key that is cached. */
export type Authenticate = (exchange: Exchange) => Authentication | Promise<Authentication>;

const anonymous: Authentication = { ok: true, key: null, team: null, caller: { key: "", team: null } };

/** Largest number of keys in the cache. A change in the store empties the cache. */
const rememberedKeysMax = 20_000;

/** Largest number of cached secrets that were accepted for a key. */
const rememberedSecretsMax = 1_000;

/** Form of a key: `sk-fb-<id>-<secret>`. */
const keyPattern = /^sk-fb-([a-z0-9]{1,32})-[A-Za-z0-9_-]{20,128}$/;

type KeyAuthentication = Known | Extract<Authentication, { ok: false }>;

/** Finds keys by their secrets. Caches them until anything changes in the store. */
export interface Keyring {
  /** Returns the key with this secret. */
  bySecret(secret: string): KeyAuthentication | Promise<KeyAuthentication>;
  /** Returns the key by the SHA-256 of a secret that was seen before. */
  byDigest(id: string, digest: Buffer): Promise<KeyAuthentication>;
  /** Returns the key of the session with this credential. */
  bySession(credential: string): KeyAuthentication | Promise<KeyAuthentication>;
  /**
   * Returns the session of a credential, even if it has ended. Returns undefined if this ledger did not sign the credential
   * or no longer has the session.
   */
  sessionOf(credential: string): Promise<RunSession | undefined>;
}

export function createKeyring(deps: {
  readonly keys: Pick<KeyStore, "findById">;
  readonly teams: Pick<TeamStore, "find">;
  readonly sessions: Pick<RunSessions, "secret" | "find">;
  readonly changes: Changes;
  readonly clock: Clock;
  /** Largest number of keys in the cache, 20,000 by default. Memory for all of them is allocated at once. */
  readonly rememberedMax?: number | undefined;
}): Keyring {
  const { keys, teams, sessions, clock, rememberedMax = rememberedKeysMax } = deps;
  const remembered = new LRUCache<string, Known>({ max: rememberedMax });
  /**
   * Keys by present secrets and by credentials of sessions. A replaced secret is digested for each request during its
   * overlap.
   */
  const bySecret = new LRUCache<string, Known>({ max: rememberedSecretsMax });
  let generation = 0;
  deps.changes.onChange(() => {
    generation++;
    remembered.clear();
    bySecret.clear();
  });

  async function find(id: string): Promise<Known | undefined> {
    const askedIn = generation;
    const key = await keys.findById(id);
    if (key === undefined) return undefined;
    const team = key.team === null ? undefined : await teams.find(key.team);
    const known: Known = { ok: true, key, team: team ?? null, caller: { key: key.id, team: key.team } };
    if (askedIn === generation) remembered.set(id, known);
    return known;
  }

  async function byDigest(id: string, digest: Buffer): Promise<KeyAuthentication> {
    const known = remembered.get(id) ?? (await find(id));
    const now = clock.now();
    if (known === undefined || !opens(known.key, digest, now)) return refused("This API key is unknown.");
    return liveOrRefused(known, now);
  }

  async function firstSeen(secret: string): Promise<KeyAuthentication> {
    const id = keyPattern.exec(secret)?.[1];
    if (id === undefined) return notAKey;
    const digest = digestOfSecret(secret);
    const answer = await byDigest(id, digest);
    // If the store changed during the query, this key may be out of date and is not cached.
    if (answer.ok && remembered.peek(id) === answer && isDigest(answer.key.digest, digest))
      bySecret.set(secret, answer);
    return answer;
  }

  /** Secret that signs credentials of sessions. The ledger never changes it. */
  let runSecret: string | null = null;

  async function sessionOf(text: string): Promise<RunSession | undefined> {
    const credential = readCredential(text);
    if (credential === undefined) return undefined;
    runSecret ??= await sessions.secret();
    if (!isSigned(credential, runSecret)) return undefined;
    return sessions.find(credential.id);
  }

  async function sessionFirstSeen(text: string): Promise<KeyAuthentication> {
    const askedIn = generation;
    const session = await sessionOf(text);
    if (session === undefined) return refused("This is not the credential of a session, or the session is long over.");
    const known = remembered.get(session.key) ?? (await find(session.key));
    if (known === undefined) return refused("The key of this session is unknown.");
    const inSession: Known = { ...known, caller: { ...known.caller, session: session.id }, session };
    const answer = liveOrRefused(inSession, clock.now());
    if (answer.ok && askedIn === generation) bySecret.set(text, inSession);
    return answer;
  }

  return {
    byDigest,
    sessionOf,
    bySecret(secret) {
      const known = bySecret.get(secret);
      // A session's credential is not a key, and must not permit what requires a key.
      if (known?.session !== undefined) return notAKey;
      return known === undefined ? firstSeen(secret) : liveOrRefused(known, clock.now());
    },
    bySession(text) {
      const known = bySecret.get(text);
      return known === undefined ? sessionFirstSeen(text) : liveOrRefused(known, clock.now());
    },
  };
}

function liveOrRefused(known: Known, now: number): KeyAuthentication {
  const { key, session } = known;
  if (session !== undefined && stateOfSession(session, now) !== "open")
    return refused(session.endedAt === null ? "This session has expired." : "This session has ended.");
  if (session !== undefined && isSecretReplaced(session, key, now))
    return refused("The key of this session has a new secret; begin another session.");
  if (isLive(key, now)) return known;
  return refused(key.revokedAt === null ? "This API key has expired." : "This API key has been revoked.");
}

/** SHA-256 of a key's text. */
export function digestOfSecret(secret: string): Buffer {
  return hash("sha256", secret, "buffer");
}

/** Creates the step that authenticates requests. `open` asks no client on this machine for a key. */
export function createAuthenticator({
  keyring,
  mode,
}: {
  readonly keyring: Keyring;
  readonly mode: "keys" | "open";
}): Authenticate {
  return (exchange) => {
    const credential = credentialOf(exchange);
    if (credential === "two") return refused("Authorization, x-api-key and api-key carry different keys; send one.");
    if (credential !== undefined && keyPattern.test(credential)) return keyring.bySecret(credential);
    if (credential !== undefined && readCredential(credential) !== undefined) return keyring.bySession(credential);
    if (mode === "open" && exchange.isLocal) return anonymous;
    if (credential !== undefined) return notAKey;
    return refused("No API key was sent. Send a Farebox key as 'Authorization: Bearer sk-fb-…', x-api-key or api-key.");
  };
}

/** Returns true if the key and its team both permit the model under any of its names. */
export function mayUseModel({ key, team }: Authenticated, ...names: readonly string[]): boolean {
  return (key === null || mayUse(key, ...names)) && (team === null || mayUse(team, ...names));
}

/** Returns the smallest output cap of the key, its team and all keys; null for none. */
export function outputCapOf({ key, team }: Pick<Authenticated, "key" | "team">, ofAll: number | null): number | null {
  return smallestCap(key?.outputCap, team?.outputCap, ofAll);
}

/** Returns true if the key or its team has a list of permitted models. */
export function hasModelList({ key, team }: Authenticated): boolean {
  return key?.models != null || team?.models != null;
}

/** Returns true if the digest is of the key's secret, or of its previous secret during the overlap after a rotation. */
function opens({ digest, previous }: Key, sent: Buffer, now: number): boolean {
  return isDigest(digest, sent) || (previous !== null && now < previous.validUntil && isDigest(previous.digest, sent));
}

function isDigest(hex: string, digest: Buffer): boolean {
  const stored = Buffer.from(hex, "hex");
  return stored.length === digest.length && timingSafeEqual(stored, digest);
}

/** Returns true if any of the headers for keys has a credential. */
export function hasCredential(exchange: Exchange): boolean {
  return credentialOf(exchange) !== undefined;
}

/**
 * Returns the credential of a request, or "two" if its headers have different credentials. A repeated header is read as a
 * list.
 */
export function credentialOf(exchange: Exchange): string | undefined {
  let found: string | undefined;
  for (const name of credentialHeaders) {
    for (const text of exchange.header(name)?.split(",") ?? []) {
      const credential = name === "authorization" ? /^\s*Bearer\s+(\S+)\s*$/i.exec(text)?.[1] : text.trim();
      if (credential === undefined || credential === "" || credential === found) continue;
      if (found !== undefined) return "two";
      found = credential;
    }
  }
  return found;
}

const credentialHeaders = ["authorization", "x-api-key", "api-key"] as const;

function refused(message: string): Extract<Authentication, { ok: false }> {
  return { ok: false, refusal: { code: "invalid_api_key", message } };
}

const notAKey = refused("This is not a Farebox key; they look like sk-fb-…, and 'farebox keys create NAME' makes one.");
