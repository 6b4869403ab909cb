import { changed, changedLimits, type Limits, type LimitsChange } from "./limits.ts";
import type { Scope } from "./budget.ts";
import type { PicoUsd } from "./money.ts";

/** An internal key. Only a digest of its secret is stored. Times are milliseconds since 1970 UTC. */
export interface Key {
  /** Short and public: the middle part of `sk-fb-<id>-<secret>`. */
  readonly id: string;
  readonly name: string;
  readonly team: string | null;
  /** SHA-256 of the whole key text, lower-case hex. */
  readonly digest: string;
  /** Wildcard patterns of the models it may use; null for all. */
  readonly models: readonly string[] | null;
  readonly limits: Limits;
  /** Most output tokens for each choice that a request may ask for; null for no cap of its own. */
  readonly outputCap: number | null;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
  /** Creation time of the current secret; null for the first one. */
  readonly rotatedAt: number | null;
  /** Secret before the last rotation, which stays valid up to this instant; null for none. */
  readonly previous: PreviousSecret | null;
}

interface PreviousSecret {
  readonly digest: string;
  readonly validUntil: number;
}

interface NewSecret {
  readonly digest: string;
  readonly madeAt: number;
  /** End of validity of the current secret; null to end it now. */
  readonly previousValidUntil: number | null;
}

/** Changes to a key; absent fields stay. */
export interface KeyChange {
  readonly team?: string | null | undefined;
  readonly models?: readonly string[] | null | undefined;
  readonly limits?: LimitsChange | undefined;
  readonly outputCap?: number | null | undefined;
  readonly expiresAt?: number | null | undefined;
  readonly secret?: NewSecret | undefined;
}

export function changedKey(key: Key, { team, models, limits, outputCap, expiresAt, secret }: KeyChange): Key {
  const after = changed(key, { team, models, limits: changedLimits(key.limits, limits), outputCap, expiresAt });
  if (secret === undefined) return after;
  const { digest, madeAt, previousValidUntil: validUntil } = secret;
  return {
    ...after,
    digest,
    rotatedAt: madeAt,
    previous: validUntil === null ? null : { digest: key.digest, validUntil },
  };
}

/** Pattern of the names of keys, teams and admins. */
export const namePattern = /^[a-z0-9][a-z0-9._-]{0,62}$/;

export const keyStates = ["live", "expired", "revoked"] as const;
export type KeyState = (typeof keyStates)[number];

/** Returns the state of a key or an admin at an instant. */
export function stateOf(who: Pick<Key, "revokedAt" | "expiresAt">, at: number): KeyState {
  if (who.revokedAt !== null) return "revoked";
  return isLive(who, at) ? "live" : "expired";
}

/** Reports that a key is valid at this instant. */
export function isLive(key: Pick<Key, "revokedAt" | "expiresAt">, at: number): boolean {
  return key.revokedAt === null && (key.expiresAt === null || at < key.expiresAt);
}

/**
 * Reports that a key or a team may use a model. `names` are all of the model's names; one match is enough. `*` in a
 * pattern matches any characters.
 */
export function mayUse({ models }: Pick<Key, "models">, ...names: readonly string[]): boolean {
  return models === null || models.some((pattern) => names.some((name) => matchesPattern(pattern, name)));
}

/** Reports that a name matches a pattern, in which `*` matches any characters. */
export function matchesPattern(pattern: string, text: string): boolean {
  const pieces = pattern.split("*");
  const first = pieces[0] ?? "";
  if (pieces.length === 1) return text === first;
  const last = pieces[pieces.length - 1] ?? "";
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length) return false;
  let position = first.length;
  for (const piece of pieces.slice(1, -1)) {
    const found = text.indexOf(piece, position);
    if (found === -1) return false;
    position = found + piece.length;
  }
  return position <= text.length - last.length;
}

/** Keys that share limits. Times are milliseconds since 1970 UTC. */
export interface Team {
  readonly name: string;
  /** Wildcard patterns of the models that its keys may use; null for all. */
  readonly models: readonly string[] | null;
  readonly limits: Limits;
  /** Most output tokens for each choice that a request of its keys may ask for; null for no cap. */
  readonly outputCap: number | null;
  readonly createdAt: number;
}

/** Changes to a team; absent fields stay. */
export interface TeamChange {
  readonly models?: readonly string[] | null | undefined;
  readonly limits?: LimitsChange | undefined;
  readonly outputCap?: number | null | undefined;
}

export function changedTeam(team: Team, { models, limits, outputCap }: TeamChange): Team {
  return changed(team, { models, limits: changedLimits(team.limits, limits), outputCap });
}

/** Viewers only read; editors also change. */
export const adminRoles = ["viewer", "editor"] as const;
export type AdminRole = (typeof adminRoles)[number];

/** A token of the admin API. Only a digest of its secret is stored. */
export interface Admin extends Pick<Key, "id" | "name" | "digest" | "createdAt" | "expiresAt" | "revokedAt"> {
  readonly role: AdminRole;
}

/** The name under which `FAREBOX_ADMIN_TOKEN` makes changes. */
export const settingsAdmin = "env";

/** The name under which farebox itself makes changes, as in its demo. */
export const fareboxAdmin = "farebox";

/** Names in the audit log that no admin can have. */
export const reservedAdminNames: readonly string[] = [settingsAdmin, fareboxAdmin];

/**
 * Reasons to refuse a call of the admin API. `too_many`: refused at once, because too many failed attempts are waiting.
 */
export const adminFailures = ["missing", "unknown", "expired", "revoked", "too_many"] as const;
export type AdminFailure = (typeof adminFailures)[number];

/**
 * Tags attribute a charge: `name=value` pairs that the client chooses. They are stored with it and are never metric
 * labels.
 */

/** Most tags of a request. */
export const tagsMax = 8;

/** The length of a value, in bytes of UTF-8. */
export const tagValueBytesMax = 128;

/** Names as keys and teams have them. */
export function isTagName(text: string): boolean {
  return namePattern.test(text);
}

/** The tag that names the session of `farebox run` in which a request was made. */
export const sessionTag = "session";

/** Reports that a value of the session tag belongs to `farebox run`: only its credential may use it. */
export function isRunSession(value: string): boolean {
  return /^run_[a-z0-9]{1,40}$/.test(value);
}

/** Returns the session of `farebox run` that tags name; null for none. */
export function runSessionOf(tags: Readonly<Record<string, string>>): string | null {
  const value = Object.hasOwn(tags, sessionTag) ? tags[sessionTag] : undefined;
  return value !== undefined && isRunSession(value) ? value : null;
}

/** A session of `farebox run`, created by a key. Times are milliseconds since 1970 UTC. */
export interface RunSession {
  /** `run_` and a unique part: the value of the tag `session` of its charges. */
  readonly id: string;
  /** The id of the key that it belongs to. */
  readonly key: string;
  /** Tags that all its requests carry, in addition to its own. */
  readonly tags: Readonly<Record<string, string>>;
  /** Hard limit of what it may spend; null for none of its own. */
  readonly budget: PicoUsd | null;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly endedAt: number | null;
}

/** Longest life of a session, in milliseconds. */
export const runSessionMsMax = 12 * 3_600_000;

/** Open sessions that a key may have. */
export const runSessionsMax = 100;

/** Most sessions of a key that are open or ended within `runBudgetKeptMs`; also its most session budgets. */
export const runSessionsKeptMax = 1_000;

/**
 * Time that a session's budget is kept after its end, in milliseconds: longer than an admitted request takes to place
 * its hold.
 */
export const runBudgetKeptMs = 3_600_000;

/** Reports that a key with this many sessions may create another one. */
export function hasRoomForSession({ open, kept }: { readonly open: number; readonly kept: number }): boolean {
  return open < runSessionsMax && kept < runSessionsKeptMax;
}

export const runSessionStates = ["open", "ended", "expired"] as const;
type RunSessionState = (typeof runSessionStates)[number];

export function stateOfSession({ endedAt, expiresAt }: RunSession, at: number): RunSessionState {
  if (endedAt !== null) return "ended";
  return at < expiresAt ? "open" : "expired";
}

/** Reports that the secret which created the session was rotated and is no longer valid. */
export function isSecretReplaced({ createdAt }: RunSession, { rotatedAt, previous }: Key, at: number): boolean {
  if (rotatedAt === null || createdAt >= rotatedAt) return false;
  return previous === null || at >= previous.validUntil;
}

/** The scope of a session's budget. */
export function scopeOfSession({ key, id }: Pick<RunSession, "key" | "id">): Scope & { readonly kind: "key" } {
  return { kind: "key", key, session: id };
}
