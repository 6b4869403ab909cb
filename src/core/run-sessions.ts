import type { Scope } from "./budget.ts";
import type { Key } from "./keys.ts";
import type { PicoUsd } from "./money.ts";

/** A session of `farebox run`, begun by a key. Times are milliseconds since 1970 UTC. */
export interface RunSession {
  /** `run_` and what tells it apart: the value of the tag `session` of its charges. */
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

/** Sessions of a key that are open or were within the last `runBudgetKeptMs`, at most: as many budgets they may have. */
export const runSessionsKeptMax = 1_000;

/**
 * How long a session's budget outlives it, in milliseconds: longer than a request that was let in before the end can take to
 * place its hold.
 */
export const runBudgetKeptMs = 3_600_000;

/** Whether a key that has so many sessions may begin another one. */
export function hasRoomForSession({ open, kept }: { readonly open: number; readonly kept: number }): boolean {
  return open < runSessionsMax && kept < runSessionsKeptMax;
}

export const runSessionStates = ["open", "ended", "expired"] as const;
export type RunSessionState = (typeof runSessionStates)[number];

export function stateOfSession({ endedAt, expiresAt }: RunSession, at: number): RunSessionState {
  if (endedAt !== null) return "ended";
  return at < expiresAt ? "open" : "expired";
}

/** Whether the key's secret that began a session was replaced, and no longer opens the key. */
export function isSecretReplaced({ createdAt }: RunSession, { rotatedAt, previous }: Key, at: number): boolean {
  if (rotatedAt === null || createdAt >= rotatedAt) return false;
  return previous === null || at >= previous.validUntil;
}

/** The scope of a session's budget. */
export function scopeOfSession({ key, id }: Pick<RunSession, "key" | "id">): Scope & { readonly kind: "key" } {
  return { kind: "key", key, session: id };
}
