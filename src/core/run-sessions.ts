import type { Scope } from "./budget.ts";
import type { Key } from "./keys.ts";
import type { PicoUsd } from "./money.ts";

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
export type RunSessionState = (typeof runSessionStates)[number];

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
