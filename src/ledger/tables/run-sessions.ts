import { sessionEntry } from "../../core/audit.ts";
import { formatScope } from "../../core/budget.ts";
import { hasRoomForSession, isLive, runBudgetKeptMs, scopeOfSession, type RunSession } from "../../core/keys.ts";
import type { PicoUsd } from "../../core/money.ts";
import type { RunSessions } from "../../ports/run-sessions.ts";
import { write, type Query } from "../queries/query.ts";
import { recordAudit } from "./audit.ts";
import { dropBudget, lockBudgets, putBudget } from "./budgets.ts";
import { lockedKey } from "./keys.ts";
import { all, insert, one, type Table } from "./table.ts";

/** Stored row. The budget is read as text, because amounts may exceed a number. */
type SessionRow = Omit<RunSession, "tags" | "budget"> & { readonly tags: string; readonly budget: string | null };

const select = `select id, key, tags, cast(budget as text) as budget, created_at as "createdAt", expires_at as "expiresAt",
  ended_at as "endedAt" from run_sessions`;

function sessionOf({ tags, budget, ...row }: SessionRow): RunSession {
  return { ...row, tags: JSON.parse(tags), budget: budget === null ? null : (BigInt(budget) as PicoUsd) };
}

function* find(id: string): Query<RunSession | undefined> {
  const row = yield* one<SessionRow>(`${select} where id = ?`, id);
  return row && sessionOf(row);
}

/** Counts a key's sessions: those open at the instant, and those whose budget is still kept. */
function* count(key: string, at: number): Query<{ readonly open: number; readonly kept: number }> {
  const counts = yield* one<{ open: number; kept: number }>(
    `select count(*) as kept, coalesce(sum(case when ended_at is null and expires_at > ? then 1 else 0 end), 0) as open
     from run_sessions where key = ? and coalesce(ended_at, expires_at) > ?`,
    at,
    key,
    at - runBudgetKeptMs,
  );
  return counts ?? { open: 0, kept: 0 };
}

/** Selects sessions that were over at the instant, have nothing pending, and still have a budget or are to be removed. */
function* overSince(before: number): Query<readonly RunSession[]> {
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
  // A cleanup that finds nothing is not announced.
  announces: (result) => result !== 0,
  writes: {
    *create(session, by) {
      const { id, tags, budget, createdAt, expiresAt, endedAt } = session;
      if (budget !== null) yield* lockBudgets();
      // Locks the key's row, so that its sessions are counted one at a time.
      const key = yield* lockedKey(session.key);
      if (key === undefined || !isLive(key, createdAt)) return "no_such_key";
      if (!hasRoomForSession(yield* count(key.id, createdAt))) return "too_many";
      const times = { created_at: createdAt, expires_at: expiresAt, ended_at: endedAt };
      yield* insert("run_sessions", { id, key: key.id, tags: JSON.stringify(tags), budget, ...times });
      if (budget !== null) {
        const limited = { scope: scopeOfSession(session), period: "total", mode: "hard", warnPercent: null } as const;
        yield* putBudget({ ...limited, limit: budget }, createdAt);
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
      if ((yield* overSince(before)).length === 0) return 0;
      yield* lockBudgets();
      let found = 0;
      for (const session of yield* overSince(before)) {
        const dropped =
          session.budget === null ? undefined : yield* dropBudget(formatScope(scopeOfSession(session)), "total");
        const isOutdated = session.expiresAt <= before;
        if (isOutdated) yield* write("delete from run_sessions where id = ?", session.id);
        if (dropped !== undefined || isOutdated) found++;
      }
      return found;
    },
  },
};
