import { changedLimits, type Limits, type LimitsChange } from "./limits.ts";

/** An internal key as it is stored: its secret only as a digest. Times are milliseconds since 1970 UTC. */
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
  /** When the present secret was made; null for the first one. */
  readonly rotatedAt: number | null;
  /** The secret before the last rotation, which opens as well before this instant; null for none. */
  readonly previous: PreviousSecret | null;
}

export interface PreviousSecret {
  readonly digest: string;
  readonly validUntil: number;
}

export interface NewSecret {
  readonly digest: string;
  readonly madeAt: number;
  /** Until when the present one still opens; null for no longer. */
  readonly previousValidUntil: number | null;
}

/** What may be changed of a key; what is left out stays. */
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

/** What names of keys, teams and admins look like. */
export const namePattern = /^[a-z0-9][a-z0-9._-]{0,62}$/;

export const keyStates = ["live", "expired", "revoked"] as const;
export type KeyState = (typeof keyStates)[number];

/** Whether a key or an admin opens anything at an instant, and why not. */
export function stateOf(who: Pick<Key, "revokedAt" | "expiresAt">, at: number): KeyState {
  if (who.revokedAt !== null) return "revoked";
  return isLive(who, at) ? "live" : "expired";
}

/** Whether a key still opens anything at this instant. */
export function isLive(key: Pick<Key, "revokedAt" | "expiresAt">, at: number): boolean {
  return key.revokedAt === null && (key.expiresAt === null || at < key.expiresAt);
}

/**
 * Whether a key or a team may use a model, given by all its names (the one asked for, the catalogue's id): one that
 * matches is enough. `*` in a pattern stands for any run of characters.
 */
export function mayUse({ models }: Pick<Key, "models">, ...names: readonly string[]): boolean {
  return models === null || models.some((pattern) => names.some((name) => matchesPattern(pattern, name)));
}

/** Whether a name fits a pattern in which `*` stands for any run of characters. */
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
