import { LRUCache } from "lru-cache";
import { hash, timingSafeEqual } from "node:crypto";
import type { Caller } from "../core/scope.ts";
import {
  type HostedToolPolicy,
  mayUse,
  sessionTag,
  stateOf,
  stateOfSession,
  validDigests,
  type Key,
  type KeyState,
  type RunSession,
  type TagHeader,
  type Team,
  type Values,
} from "../core/keys.ts";
import { smallestCap } from "../core/bounds.ts";
import { ceilingPrice } from "../core/price.ts";
import type { OrRefused, Refusal } from "../core/refusals.ts";
import { anthropicPaths, isRoutedBelow } from "../core/task-routes.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { Changes } from "../ports/changes.ts";
import type { Clock } from "../ports/clock.ts";
import { refuse, type Exchange, type Handler, type Summary } from "../ports/exchange.ts";
import type { CredentialHeader } from "../ports/gateway.ts";
import type { KeyStore, RunSessions, TeamStore } from "../ports/stores.ts";
import { isSigned, readCredential } from "../wire/run-credential.ts";
import { readPinnedTags, readUserHeader, withHeaderTags, type StoredUser } from "../wire/headers.ts";

/** Key, team and caller of a request. `key` is null if the request needs no key. */
export interface Authenticated {
  readonly key: Key | null;
  /** Team of the key; null for none. */
  readonly team: Team | null;
  readonly caller: Caller;
  /** Session of `farebox run` whose credential was sent; missing if the key itself was sent. */
  readonly session?: RunSession;
}

/** Result of an authentication. A refusal has `key` if the secret belongs to a known key, such as a revoked one. */
export type Authentication =
  | ({ readonly ok: true } & Authenticated)
  | { readonly ok: false; readonly refusal: Refusal; readonly key?: Key };

/** Known key with its team and caller. */
type Known = Extract<Authentication, { ok: true }> & { readonly key: Key };

/** Authenticates a request. Returns a promise only if the key is not cached. */
export type Authenticate = (exchange: Exchange) => Authentication | Promise<Authentication>;

const anonymous: Authentication = { ok: true, key: null, team: null, caller: { key: "", team: null } };

/** Largest number of keys in the cache. A change in the store empties the cache. */
const rememberedKeysMax = 20_000;

/** Largest number of accepted secrets in the cache. */
const rememberedSecretsMax = 1_000;

/** Form of a key: `sk-fb-<id>-<secret>`. */
const keyPattern = /^sk-fb-([a-z0-9]{1,32})-[A-Za-z0-9_-]{20,128}$/;

type KeyAuthentication = Known | Extract<Authentication, { ok: false }>;

/** Finds keys by their secrets. Caches the keys until the store changes. */
export interface Keyring {
  /** Returns the key with this secret; a refusal if no live key has it. */
  bySecret(secret: string): KeyAuthentication | Promise<KeyAuthentication>;
  /** Returns the key with this id if the SHA-256 of its secret is `digest`; a refusal otherwise. */
  byDigest(id: string, digest: Buffer): Promise<KeyAuthentication>;
  /**
   * Returns the key of the session with this credential; a refusal if the session or the key is not valid. Reads the
   * session each time, so its end is in force at once in every process.
   */
  bySession(credential: string): Promise<KeyAuthentication>;
  /**
   * Returns the session of a credential, even if it has ended. Returns undefined if this ledger did not sign the
   * credential or no longer has the session.
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
  /** Keys by current secret. A previous secret is not cached, so it is hashed again for each request. */
  const bySecret = new LRUCache<string, Known>({ max: rememberedSecretsMax });
  let generation = 0;
  deps.changes.onChange(() => {
    generation++;
    remembered.clear();
    bySecret.clear();
  });

  async function find(id: string): Promise<Known | undefined> {
    const startGeneration = generation;
    const key = await keys.findById(id);
    if (key === undefined) return undefined;
    const team = key.team === null ? undefined : await teams.find(key.team);
    const known: Known = {
      ok: true,
      key,
      team: team ?? null,
      caller: { key: key.id, team: key.team, labels: key.labels },
    };
    if (startGeneration === generation) remembered.set(id, known);
    return known;
  }

  async function byDigest(id: string, digest: Buffer): Promise<KeyAuthentication> {
    const known = remembered.get(id) ?? (await find(id));
    const now = clock.now();
    if (known === undefined || !hasDigest(known.key, digest, now)) return refused("This API key is unknown.");
    return liveOrRefused(known, now);
  }

  async function findBySecret(secret: string): Promise<KeyAuthentication> {
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

  async function bySession(text: string): Promise<KeyAuthentication> {
    const session = await sessionOf(text);
    if (session === undefined)
      return refused("This is not the credential of a session, or the session ended long ago.");
    const cached = remembered.get(session.key);
    // The secret of a session may be newer than a cached key.
    const known =
      cached !== undefined && beganWithSecretOf(cached.key, session, clock.now()) ? cached : await find(session.key);
    if (known === undefined) return refused("The key of this session is unknown.");
    const inSession: Known = { ...known, caller: { ...known.caller, tags: { [sessionTag]: session.id } }, session };
    return liveOrRefused(inSession, clock.now());
  }

  return {
    byDigest,
    bySession,
    sessionOf,
    bySecret(secret) {
      const known = bySecret.get(secret);
      return known === undefined ? findBySecret(secret) : liveOrRefused(known, clock.now());
    },
  };
}

function liveOrRefused(known: Known, now: number): KeyAuthentication {
  const { key, session } = known;
  const reason = reasonToRefuse(key, session, now);
  return reason === null ? known : { ...refused(reason), key };
}

function reasonToRefuse(key: Key, session: RunSession | undefined, now: number): string | null {
  if (session !== undefined && stateOfSession(session, now) !== "open")
    return session.endedAt === null ? "This session has expired." : "This session has ended.";
  if (session !== undefined && !beganWithSecretOf(key, session, now))
    return "The key of this session has a new secret; begin another session.";
  return keyFaults[stateOf(key, now)];
}

const keyFaults: Readonly<Record<KeyState, string | null>> = {
  live: null,
  suspended: "This API key is suspended; an administrator can resume it.",
  expired: "This API key has expired.",
  revoked: "This API key has been revoked.",
};

/** Returns the SHA-256 of a key's secret. */
export function digestOfSecret(secret: string): Buffer {
  return hash("sha256", secret, "buffer");
}

/** Creates the step that authenticates requests. In mode `open`, clients on this machine need no key. */
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

/**
 * Returns true if the key and its team both permit a model under a name. `id`: its catalogue id; undefined if the
 * catalogue does not know the model.
 */
export function mayUseModel(
  who: Pick<Authenticated, "key" | "team">,
  { name, id }: { readonly name: string; readonly id: string | undefined },
  catalogue: Pick<Catalogue, "statedName">,
): boolean {
  if (!hasModelList(who)) return true;
  const isKnown = id !== undefined && id !== ceilingPrice;
  const meant = isKnown ? { id, statedName: catalogue.statedName(name) ?? id } : null;
  const isStated = (pattern: string) => !pattern.includes("*") && catalogue.statedName(pattern) === pattern;
  return [who.key, who.team].every((list) => list === null || mayUse(list, name, meant, isStated));
}

/** Returns the smallest output cap among those of the key, its team and all keys (`ofAll`); null if none is set. */
export function outputCapOf({ key, team }: Pick<Authenticated, "key" | "team">, ofAll: number | null): number | null {
  return smallestCap(key?.outputCap, team?.outputCap, ofAll);
}

/** Returns the policy for hosted tools that nothing bounds: the key's, else its team's, else that of all (`ofAll`). */
export function hostedToolPolicyOf(
  { key, team }: Pick<Authenticated, "key" | "team">,
  ofAll: HostedToolPolicy,
): HostedToolPolicy {
  return key?.hostedTools ?? team?.hostedTools ?? ofAll;
}

/** Returns true if the key or its team has a list of permitted models. */
export function hasModelList({ key, team }: Pick<Authenticated, "key" | "team">): boolean {
  return key?.models != null || team?.models != null;
}

/** Returns true if `sent` is the digest of a secret that opens the key now. */
function hasDigest(key: Key, sent: Buffer, now: number): boolean {
  return validDigests(key, now).some((valid) => isDigest(valid, sent));
}

/** Returns true if the secret that began the session opens the key now. */
function beganWithSecretOf(key: Key, { secret }: RunSession, now: number): boolean {
  return hasDigest(key, Buffer.from(secret, "hex"), now);
}

function isDigest(hex: string, digest: Buffer): boolean {
  const stored = Buffer.from(hex, "hex");
  return stored.length === digest.length && timingSafeEqual(stored, digest);
}

/** Returns true if the request has a credential in one of the headers for keys. */
export function hasCredential(exchange: Exchange): boolean {
  return credentialOf(exchange) !== undefined;
}

/**
 * Returns the credential of a request; undefined if it has none; "two" if its headers have different credentials. A
 * repeated header is read as a list.
 */
export function credentialOf(exchange: Exchange): string | undefined {
  let found: string | undefined;
  for (const name of credentialHeaders) {
    for (const credential of credentialsIn(exchange, name)) {
      if (credential === found) continue;
      if (found !== undefined) return "two";
      found = credential;
    }
  }
  return found;
}

/** Returns the credentials in one header; none if it is missing. */
function credentialsIn(
  exchange: Pick<Exchange, "header">,
  name: (typeof credentialHeaders)[number],
): readonly string[] {
  return (exchange.header(name)?.split(",") ?? []).flatMap((text) => {
    const credential = name === "authorization" ? /^\s*Bearer\s+(\S+)\s*$/i.exec(text)?.[1] : text.trim();
    return credential === undefined || credential === "" ? [] : [credential];
  });
}

/**
 * Returns the headers for the gateway's credential: those in which the client sent its own. Gateways read Anthropic's
 * interface with either. Returns undefined if the client used neither, or for another interface.
 */
export function credentialHeadersOf(
  exchange: Pick<Exchange, "header" | "path">,
): readonly CredentialHeader[] | undefined {
  // Every request is checked here, and `isBelow` takes 3 µs.
  if (!isRoutedBelow(exchange.path, anthropicPaths)) return undefined;
  const used = gatewayCredentials.filter((name) => credentialsIn(exchange, name).length > 0);
  return used.length === 0 ? undefined : used;
}

const gatewayCredentials: readonly CredentialHeader[] = ["authorization", "x-api-key"];

const credentialHeaders = ["authorization", "x-api-key", "api-key"] as const;

function refused(message: string): Extract<Authentication, { ok: false }> {
  return { ok: false, refusal: { code: "invalid_api_key", message } };
}

const notAKey = refused(
  "This is not a Farebox key. Farebox keys begin with sk-fb-; create one with 'farebox keys create NAME'.",
);

/** Tags and user of a request. Budgets and reports group requests by these values, in addition to key and model. */
export interface Sender {
  readonly tags: Values;
  /** Stored form of the user's name; null for none. */
  readonly user: string | null;
}

type SenderResult = OrRefused<Sender>;

/** Settings that decide what is read of a sender. */
export interface SenderRules {
  /** Returns the stored form of a user's name; null if users are not read. */
  readonly storedUser: StoredUser | null;
  /** Headers whose values become tags. */
  readonly tagHeaders: readonly TagHeader[];
}

/**
 * Reads the tags and the user of a request. Values that the key pins take precedence. `inBody`: user in the body; null
 * for none. Returns a refusal if a value is not valid, or if one that the key requires is missing.
 */
export function readSender(
  exchange: Pick<Exchange, "header">,
  { key, session }: Pick<Authenticated, "key" | "session">,
  inBody: string | null,
  { storedUser: stored, tagHeaders }: SenderRules,
): SenderResult {
  const tagged = readPinnedTags(exchange.header("x-farebox-tag"), session, key?.tags);
  if (!tagged.ok) return tagged;
  const tags = withHeaderTags(tagged.tags, tagHeaders, exchange);
  let user: string | null = null;
  if (stored !== null) {
    const pinned = key?.user ?? null;
    const stated = pinned === null ? readUserHeader(exchange.header("x-farebox-user")) : noHeader;
    if (!stated.ok) return stated;
    const name = pinned ?? stated.user ?? inBody;
    user = name === null ? null : stored(name);
  }
  const missing = key?.requires.find((name) =>
    name === "user" ? user === null && stored !== null : !Object.hasOwn(tags, name.slice(tagPrefix.length)),
  );
  return missing === undefined ? { ok: true, tags, user } : { ok: false, refusal: missingValue(missing) };
}

const noHeader = { ok: true, user: null } as const;

const tagPrefix = "tag:";

function missingValue(name: string): Refusal {
  const tag = name.slice(tagPrefix.length);
  const message =
    name === "user"
      ? "this key requires requests to name a user: send the header x-farebox-user, or 'safety_identifier' or 'user' in the body"
      : `this key requires requests to have the tag ${tag}: send the header x-farebox-tag: ${tag}=VALUE`;
  return { code: "invalid_request", param: name === "user" ? "user" : null, message };
}

/** Marks a request so that a refusal of it is recorded under its key and route. */
export function recordRefusals(exchange: Exchange, route: string, { key }: Pick<Authentication, "key">): void {
  exchange.recordAs = { key: key ? { id: key.id, name: key.name, team: key.team } : null, route, model: null };
}

/**
 * Returns a handler that refuses requests without a valid key, unless the settings permit them. `route`: name under
 * which refusals are recorded. Null for paths that do not concern the gateway: their refusals are not recorded.
 */
export function withKey(
  authenticate: Authenticate,
  route: string | null,
  handle: (exchange: Exchange, who: Authenticated) => Promise<Summary>,
): Handler {
  return async (exchange) => {
    const who = await authenticate(exchange);
    if (route !== null) recordRefusals(exchange, route, who);
    return who.ok ? handle(exchange, who) : refuse(exchange, who.refusal);
  };
}
