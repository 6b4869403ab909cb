import { changedLimits, type Limits, type LimitsChange } from "./limits.ts";

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

export interface PreviousSecret {
  readonly digest: string;
  readonly validUntil: number;
}

export interface NewSecret {
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
  const changed = {
    ...key,
    team: team === undefined ? key.team : team,
    models: models === undefined ? key.models : models,
    limits: changedLimits(key.limits, limits),
    outputCap: outputCap === undefined ? key.outputCap : outputCap,
    expiresAt: expiresAt === undefined ? key.expiresAt : expiresAt,
  };
  if (secret === undefined) return changed;
  const { digest, madeAt, previousValidUntil: validUntil } = secret;
  return {
    ...changed,
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
