import { changed, changedRateLimits, type RateLimits, type RateLimitsChange } from "./rate-limits.ts";
import { bareName, fold } from "./model-names.ts";
import type { PicoUsd } from "./money.ts";
import { hourMs } from "./time.ts";

/** Values by their names. */
export type Values = Readonly<Record<string, string>>;

/** Changes to values by their names. Null removes a value. Absent names keep their values. */
export type ValuesChange = Readonly<Record<string, string | null>>;

/**
 * Treatment of hosted tools that nothing bounds, in requests under a hard budget. `refuse`: Farebox refuses the request.
 * `remove`: Farebox takes the tools out of the request. `allow`: the request passes, and may cost more than its hold.
 */
export const hostedToolPolicies = ["refuse", "remove", "allow"] as const;
export type HostedToolPolicy = (typeof hostedToolPolicies)[number];

/** A Farebox key. Only a digest of its secret is stored. Times are milliseconds since 1970 UTC. */
export interface Key {
  /** Short public id: the middle part of `sk-fb-<id>-<secret>`. */
  readonly id: string;
  readonly name: string;
  readonly team: string | null;
  /** SHA-256 of the whole key text, lower-case hex. */
  readonly digest: string;
  /** Wildcard patterns of the models that the key may use; null for all. */
  readonly models: readonly string[] | null;
  readonly limits: RateLimits;
  /** Largest number of output tokens for each choice that a request may ask for; null if the key has no cap. */
  readonly outputCap: number | null;
  /** Policy for hosted tools that nothing bounds; null for the team's policy, or else that of the settings. */
  readonly hostedTools: HostedToolPolicy | null;
  /**
   * Labels by which budgets and reports group keys. Each charge stores the labels of its key at the time of the
   * request.
   */
  readonly labels: Values;
  /** Tags of all requests of the key, even if a request states other values. */
  readonly tags: Values;
  /** User of all requests of the key, even if a request names another user; null if each request names its user. */
  readonly user: string | null;
  /** Values that each request must name: `user` and `tag:NAME`, in alphabetical order. */
  readonly requires: readonly string[];
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
  /** Time since which all requests of the key are refused; null unless the key is suspended. */
  readonly suspendedAt: number | null;
  /** Creation time of the current secret; null for the first one. */
  readonly rotatedAt: number | null;
  /** The secret before the last rotation, which stays valid until its `validUntil`; null if there is none. */
  readonly previous: PreviousSecret | null;
}

interface PreviousSecret {
  readonly digest: string;
  readonly validUntil: number;
}

interface NewSecret {
  readonly digest: string;
  readonly madeAt: number;
  /** Time until which the current secret stays valid; null to make it invalid now. */
  readonly previousValidUntil: number | null;
}

/**
 * Returns the digests of the secrets that open a key at an instant: the current secret, and the previous one during the
 * overlap after a rotation. A session that a secret began lives while this secret opens its key.
 */
export function validDigests({ digest, previous }: Pick<Key, "digest" | "previous">, at: number): readonly string[] {
  return previous !== null && at < previous.validUntil ? [digest, previous.digest] : [digest];
}

/** Changes to a key. Absent fields keep their values. */
export interface KeyChange {
  readonly team?: string | null | undefined;
  readonly models?: readonly string[] | null | undefined;
  readonly limits?: RateLimitsChange | undefined;
  readonly outputCap?: number | null | undefined;
  readonly hostedTools?: HostedToolPolicy | null | undefined;
  readonly labels?: ValuesChange | undefined;
  readonly tags?: ValuesChange | undefined;
  readonly user?: string | null | undefined;
  readonly requires?: readonly string[] | undefined;
  readonly expiresAt?: number | null | undefined;
  readonly suspendedAt?: number | null | undefined;
  readonly secret?: NewSecret | undefined;
}

export function changedKey(key: Key, { limits, labels, tags, requires, secret, ...fields }: KeyChange): Key {
  const after = changed(key, {
    ...fields,
    limits: changedRateLimits(key.limits, limits),
    labels: changedValues(key.labels, labels),
    tags: changedValues(key.tags, tags),
    requires: requires && [...new Set(requires)].sort(),
  });
  if (secret === undefined) return after;
  const { digest, madeAt, previousValidUntil: validUntil } = secret;
  return {
    ...after,
    digest,
    rotatedAt: madeAt,
    previous: validUntil === null ? null : { digest: key.digest, validUntil },
  };
}

/** Returns the values after a change, in the order of their names. */
function changedValues(values: Values, change: ValuesChange = {}): Values {
  const entries = Object.entries({ ...values, ...change }).filter(
    (entry): entry is [string, string] => entry[1] !== null,
  );
  return Object.fromEntries(entries.sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** Pattern for the names of keys, teams and admins. */
export const namePattern = /^[a-z0-9][a-z0-9._-]{0,62}$/;

/** Form of one wildcard pattern for models: characters of any script, but no spaces, commas or invisible characters. */
export const modelPattern = /^[^\p{C}\p{Z},]{1,200}$/u;

/** States of a key. A suspended key that has expired counts as expired. */
export const keyStates = ["live", "suspended", "expired", "revoked"] as const;
export type KeyState = (typeof keyStates)[number];
type AdminState = Exclude<KeyState, "suspended">;

/** Returns the state of a key at an instant. */
export function stateOf(key: Pick<Key, "revokedAt" | "expiresAt" | "suspendedAt">, at: number): KeyState {
  const state = adminStateOf(key, at);
  return state === "live" && key.suspendedAt !== null ? "suspended" : state;
}

/** Returns the state of an admin at an instant. */
export function adminStateOf(who: Pick<Key, "revokedAt" | "expiresAt">, at: number): AdminState {
  if (who.revokedAt !== null) return "revoked";
  return isLive(who, at) ? "live" : "expired";
}

/** Returns true if a key or an admin is neither revoked nor expired at this instant. The key may be suspended. */
export function isLive(key: Pick<Key, "revokedAt" | "expiresAt">, at: number): boolean {
  return key.revokedAt === null && (key.expiresAt === null || at < key.expiresAt);
}

/** A model of the price files that a name means. */
export interface MeantModel {
  readonly id: string;
  /** The id or alias by which the name finds the model. */
  readonly statedName: string;
}

/**
 * Returns true if a key or a team may use a model under a name. `meant`: null if no price file names the model. A
 * pattern must match the model's id, its stated name or the name itself, without regard to letter case. A pattern that
 * is exactly a stated name (`isStated`) permits only its own model. A provider in front of the name counts only for
 * patterns with a provider, so that a client cannot satisfy a pattern by inventing one.
 */
export function mayUse(
  { models }: Pick<Key, "models">,
  name: string,
  meant: MeantModel | null,
  isStated: (pattern: string) => boolean,
): boolean {
  if (models === null) return true;
  if (meant !== null && models.some((pattern) => matchesPattern(pattern, meant.id))) return true;
  const whole = fold(name);
  const stated = meant === null ? [] : [fold(meant.id), fold(meant.statedName)];
  // A provider that the price files state belongs to the name.
  const isProviderStated = meant?.statedName.includes("/") === true;
  const withoutProvider = isProviderStated ? stated : [...stated, bareName(whole)];
  const withProvider = [...stated, whole];
  return models.some((text) => {
    const pattern = fold(text);
    const names = pattern.includes("/") ? withProvider : withoutProvider;
    if (!names.some((each) => matchesPattern(pattern, each))) return false;
    return text === meant?.statedName || !isStated(text);
  });
}

/** Returns true if a name matches a pattern, in which `*` matches any characters. */
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

/** A group of keys that share limits. Times are milliseconds since 1970 UTC. */
export interface Team {
  readonly name: string;
  /** Wildcard patterns of the models that the team's keys may use; null for all. */
  readonly models: readonly string[] | null;
  readonly limits: RateLimits;
  /** Largest number of output tokens for each choice that a request of the team may ask for; null for no cap. */
  readonly outputCap: number | null;
  /** Policy for hosted tools that nothing bounds; null for that of the settings. */
  readonly hostedTools: HostedToolPolicy | null;
  readonly createdAt: number;
}

/** Changes to a team. Absent fields keep their values. */
export interface TeamChange {
  readonly models?: readonly string[] | null | undefined;
  readonly limits?: RateLimitsChange | undefined;
  readonly outputCap?: number | null | undefined;
  readonly hostedTools?: HostedToolPolicy | null | undefined;
}

export function changedTeam(team: Team, { limits, ...fields }: TeamChange): Team {
  return changed(team, { ...fields, limits: changedRateLimits(team.limits, limits) });
}

/** Viewers may only read. Editors may also make changes. */
export const adminRoles = ["viewer", "editor"] as const;
export type AdminRole = (typeof adminRoles)[number];

/** A token of the admin API. Only a digest of its secret is stored. */
export interface Admin extends Pick<Key, "id" | "name" | "digest" | "createdAt" | "expiresAt" | "revokedAt"> {
  readonly role: AdminRole;
}

/** Name in the audit log for changes made with `FAREBOX_ADMIN_TOKEN`. */
export const settingsAdmin = "env";

/** Name in the audit log for changes made by Farebox itself, for example in its demo. */
export const fareboxAdmin = "farebox";

/** Names in the audit log that no admin may have. */
export const reservedAdminNames: readonly string[] = [settingsAdmin, fareboxAdmin];

/**
 * Reasons to refuse an admin API request. `too_many`: refused immediately, because too many failed attempts are
 * waiting.
 */
export const adminFailures = ["missing", "unknown", "expired", "revoked", "too_many"] as const;
export type AdminFailure = (typeof adminFailures)[number];

/**
 * Tags are `name=value` pairs that a client chooses, for example to attribute a charge to a feature. They are stored
 * with the charge. Metrics show them only in the scopes of budgets, and only if `FAREBOX_METRICS_SUBJECTS` is above 0.
 */

/** Largest number of tags on a request. */
export const tagsMax = 8;

/** Longest value of a tag or a label, in characters (Unicode code points). */
export const tagValueCharsMax = 128;

/** Characters of a tag's value: no comma, and no control characters. */
const tagValuePattern = new RegExp(`^[^,\\p{Cc}\\p{Cs}]{1,${tagValueCharsMax}}$`, "u");

/** Returns true if a text is a valid value of a tag or a label. It has no comma, which separates tags in a header. */
export function isTagValue(text: string): boolean {
  return text.trim() === text && tagValuePattern.test(text);
}

/** Returns true if a text is a valid tag name. The rule is the same as for names of keys and teams. */
export function isTagName(text: string): boolean {
  return namePattern.test(text);
}

/** Header of an agent whose value becomes a tag of the request. `header` is in lower case. */
export interface TagHeader {
  readonly header: string;
  readonly tag: string;
}

/** Tags that name the session of an agent, one of its agents, and the agent that started that agent. */
export const agentTags = { session: "agent_session", agent: "agent", parent: "parent_agent" } as const;

/** Largest number of labels of a key. */
export const labelsMax = 8;

/** Pattern for the name of a user: at most 128 characters, none of them a control character. */
export const userPattern = /^[^\p{Cc}\p{Cs}]{1,128}$/u;

/**
 * Treatment of the users that requests name. `plain`: stored unchanged. `hash`: stored as a keyed digest. `off`:
 * neither read nor stored.
 */
export const userModes = ["plain", "hash", "off"] as const;
export type UserMode = (typeof userModes)[number];

/** Returns true if a text names a value that a key may require: `user` or `tag:NAME`. */
export function isRequirement(text: string): boolean {
  return text === "user" || (text.startsWith("tag:") && isTagName(text.slice(4)));
}

/** Tag that names the `farebox run` session of a request. */
export const sessionTag = "session";

/**
 * Returns true if a value of the session tag names a `farebox run` session. Only the session's credential may use it.
 */
export function isRunSession(value: string): boolean {
  return /^run_[a-z0-9]{1,40}$/.test(value);
}

/** Returns the `farebox run` session that the tags name; null if there is none. */
export function runSessionOf(tags: Readonly<Record<string, string>>): string | null {
  const value = Object.hasOwn(tags, sessionTag) ? tags[sessionTag] : undefined;
  return value !== undefined && isRunSession(value) ? value : null;
}

/** A `farebox run` session, created by a key. Times are milliseconds since 1970 UTC. */
export interface RunSession {
  /** `run_` and a unique part. Charges of the session have it as the value of their `session` tag. */
  readonly id: string;
  /** Id of the key that created the session. */
  readonly key: string;
  /**
   * Digest of the key's secret that began the session. The session lives while this secret opens the key. "" if the
   * secret is unknown: the session is over.
   */
  readonly secret: string;
  /** Tags that are added to all requests of the session. */
  readonly tags: Readonly<Record<string, string>>;
  /** Hard limit for the session's spending; null for no limit. */
  readonly budget: PicoUsd | null;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly endedAt: number | null;
}

/** Longest lifetime of a session, in milliseconds. */
export const runSessionMsMax = 12 * hourMs;

/** Largest number of open sessions of a key. */
export const runSessionsMax = 100;

/**
 * Largest number of a key's sessions that are open or ended less than `runBudgetKeptMs` ago. It is also the largest
 * number of the key's session budgets.
 */
export const runSessionsKeptMax = 1_000;

/**
 * Time for which a session's budget is kept after the session ends, in milliseconds. Every request that was admitted
 * before the end has placed its hold by then.
 */
export const runBudgetKeptMs = hourMs;

/** Returns true if a key with these numbers of sessions may create another. */
export function mayCreateSession({ open, kept }: { readonly open: number; readonly kept: number }): boolean {
  return open < runSessionsMax && kept < runSessionsKeptMax;
}

export const runSessionStates = ["open", "ended", "expired"] as const;
type RunSessionState = (typeof runSessionStates)[number];

export function stateOfSession(
  { endedAt, expiresAt }: Pick<RunSession, "endedAt" | "expiresAt">,
  at: number,
): RunSessionState {
  if (endedAt !== null) return "ended";
  return at < expiresAt ? "open" : "expired";
}
