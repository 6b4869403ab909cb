import { sessionEntry } from "../../core/audit.ts";
import { formatScope, sessionScope } from "../../core/scope.ts";
import {
  mayCreateSession,
  stateOf,
  runBudgetKeptMs,
  validDigests,
  type Key,
  type RunSession,
} from "../../core/keys.ts";
import type { PicoUsd } from "../../core/money.ts";
import type { RunSessions } from "../../ports/stores.ts";
import { write, type Query } from "../queries/query.ts";
import { recordAudit } from "./audit.ts";
import { dropBudget, lockBudgets, putBudget } from "./budgets.ts";
import { lockedKey } from "./keys.ts";
import { all, Columns, insert, marks, one, type Table } from "./table.ts";

/** Row of `run_sessions`. The budget is read as text, because amounts may be too large for a number. */
type SessionRow = Omit<RunSession, "tags" | "budget"> & { readonly tags: string; readonly budget: string | null };

const columns = new Columns("id", "key", "secret", "tags", "createdAt", "expiresAt", "endedAt");
const select = `select ${columns.select}, cast(budget as text) as budget from run_sessions`;

function sessionOf({ tags, budget, ...row }: SessionRow): RunSession {
  return { ...row, tags: JSON.parse(tags), budget: budget === null ? null : (BigInt(budget) as PicoUsd) };
}

function* find(id: string): Query<RunSession | undefined> {
  const row = yield* one<SessionRow>(`${select} where id = ?`, id);
  return row && sessionOf(row);
}

/**
 * Counts the sessions of a key at an instant. `open`: sessions that have neither ended nor expired, and whose secret
 * opens the key. `kept`: sessions whose budget is still kept; these include open sessions.
 */
function* count(key: Key, at: number): Query<{ readonly open: number; readonly kept: number }> {
  const digests = validDigests(key, at);
  const counts = yield* one<{ open: number; kept: number }>(
    `select count(*) as kept,
       coalesce(sum(case when ended_at is null and expires_at > ? and secret in (${marks(digests)}) then 1 else 0 end), 0) as open
     from run_sessions where key = ? and coalesce(ended_at, expires_at) > ?`,
    at,
    ...digests,
    key.id,
    at - runBudgetKeptMs,
  );
  return counts ?? { open: 0, kept: 0 };
}

/**
 * Returns the sessions that ended or expired by an instant and have no pending charges. Leaves out sessions without a
 * budget that have ended but not expired, because there is nothing to remove for them yet.
 */
function* endedBefore(before: number): Query<readonly RunSession[]> {
  const rows = yield* all<SessionRow>(
    `${select} where (budget is not null or expires_at <= ?) and coalesce(ended_at, expires_at) <= ?
       and not exists (select 1 from charges where charges.session = run_sessions.id and charges.state = 'pending') order by id`,
    before,
    before,
  );
  return rows.map(sessionOf);
}

export const sessions: Table<RunSessions, "create" | "end" | "tidy"> = {
  queries: {
    find,
    *secret() {
      return (yield* one<{ secret: string }>("select secret from run_secret"))?.secret ?? "";
    },
  },
  // Begun and removed sessions may change budgets. No process caches a session, so its end is not announced.
  announces: (result) => result === "ok" || (typeof result === "number" && result > 0),
  writes: {
    *create(session, by) {
      const { budget, createdAt } = session;
      if (budget !== null) yield* lockBudgets();
      // Locks the key's row, so that two sessions of a key are not created at the same time.
      const key = yield* lockedKey(session.key);
      if (key === undefined || stateOf(key, createdAt) !== "live") return "invalid_key";
      const secret = session.secret ?? key.digest;
      if (!validDigests(key, createdAt).includes(secret)) return "invalid_key";
      if (!mayCreateSession(yield* count(key, createdAt))) return "too_many";
      const row = columns.rowOf({ ...session, secret, tags: JSON.stringify(session.tags) });
      yield* insert("run_sessions", { ...row, budget });
      if (budget !== null) {
        const budgetRow = {
          scope: sessionScope(session.key, session.id),
          period: "total",
          mode: "hard",
          warnPercent: null,
        } as const;
        yield* putBudget({ ...budgetRow, limit: budget }, createdAt);
      }
      if (by !== null) yield* recordAudit(sessionEntry(session, key, by));
      return "ok";
    },
    *end(id, at) {
      yield* write("update run_sessions set ended_at = ? where id = ? and ended_at is null", at, id);
      return yield* find(id);
    },
    *tidy(at) {
      const before = at - runBudgetKeptMs;
      if ((yield* endedBefore(before)).length === 0) return 0;
      yield* lockBudgets();
      let removed = 0;
      for (const session of yield* endedBefore(before)) {
        const dropped =
          session.budget === null
            ? undefined
            : yield* dropBudget(formatScope(sessionScope(session.key, session.id)), "total");
        const isExpired = session.expiresAt <= before;
        if (isExpired) yield* write("delete from run_sessions where id = ?", session.id);
        if (dropped !== undefined || isExpired) removed++;
      }
      return removed;
    },
  },
};
