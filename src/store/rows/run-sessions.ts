import type { PicoUsd } from "../../core/money.ts";
import type { RunSession } from "../../core/run-sessions.ts";

/** A row of `run_sessions`, read with safe integers. */
export interface RunSessionRow {
  readonly id: string;
  readonly key: string;
  readonly tags: string;
  readonly budget: bigint | null;
  readonly created_at: bigint;
  readonly expires_at: bigint;
  readonly ended_at: bigint | null;
}

export const runSessionColumns = "id, key, tags, budget, created_at, expires_at, ended_at";

/** The values of a session's columns, in their order. */
export function runSessionValues(session: RunSession) {
  const { id, key, tags, budget, createdAt, expiresAt, endedAt } = session;
  return [id, key, JSON.stringify(tags), budget, createdAt, expiresAt, endedAt] as const;
}

export function runSessionOf(row: RunSessionRow): RunSession {
  return {
    id: row.id,
    key: row.key,
    tags: JSON.parse(row.tags) as Record<string, string>,
    budget: row.budget as PicoUsd | null,
    createdAt: Number(row.created_at),
    expiresAt: Number(row.expires_at),
    endedAt: row.ended_at === null ? null : Number(row.ended_at),
  };
}

/** Counts a key's sessions that are open at an instant, and those that are or were so after an earlier one. */
export const countSessions = (key: string, at: string, before: string) =>
  `select count(*) as kept, coalesce(sum(case when ended_at is null and expires_at > ${at} then 1 else 0 end), 0) as open
   from run_sessions where key = ${key} and coalesce(ended_at, expires_at) > ${before}`;

/** Condition for sessions that were over at an instant and have nothing pending. */
export const isOver = (instant: string) => `coalesce(ended_at, expires_at) <= ${instant}
  and not exists (select 1 from charges where charges.session = run_sessions.id and charges.state = 'pending')`;
