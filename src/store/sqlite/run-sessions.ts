import { sessionEntry } from "../../core/audit.ts";
import { formatScope } from "../../core/budget.ts";
import { isLive } from "../../core/keys.ts";
import { hasRoomForSession, runBudgetKeptMs, scopeOfSession, type RunSession } from "../../core/run-sessions.ts";
import type { RunSessionCreation } from "../../ports/run-sessions.ts";
import type { RunSessionReadings } from "../readings.ts";
import {
  countSessions,
  isOver,
  runSessionColumns,
  runSessionOf,
  runSessionValues,
  type RunSessionRow,
} from "../rows/run-sessions.ts";
import { recordAudit } from "../tables/audit.ts";
import { answerEach } from "./answer.ts";
import type { WindowBook } from "./budgets.ts";
import type { Connection, Statement } from "./connection.ts";
import { keys } from "../tables/keys.ts";

/** Short reads of sessions, on whichever connection. */
export class RunSessionReads implements RunSessionReadings {
  readonly #secret: Statement;
  readonly #find: Statement;

  constructor(db: Connection) {
    this.#secret = db.prepare("select secret from run_secret").pluck();
    this.#find = db.prepare("select * from run_sessions where id = ?").safeIntegers();
  }

  secret(): string {
    return this.#secret.get() as string;
  }

  find(id: string): RunSession | undefined {
    const row = this.#find.get(id) as RunSessionRow | undefined;
    return row && runSessionOf(row);
  }
}

export function createSession(
  db: Connection,
  windows: WindowBook,
  session: RunSession,
  by: string | null,
): RunSessionCreation {
  const { key: keyId, budget, createdAt } = session;
  const key = answerEach(db, keys.queries.findById(keyId));
  if (key === undefined || !isLive(key, createdAt)) return "no_such_key";
  const counts = db.prepare(countSessions("@key", "@at", "@before"));
  const count = counts.get({ key: keyId, at: createdAt, before: createdAt - runBudgetKeptMs });
  if (!hasRoomForSession(count as { open: number; kept: number })) return "too_many";
  db.prepare(`insert into run_sessions (${runSessionColumns}) values (?, ?, ?, ?, ?, ?, ?)`).run(
    ...runSessionValues(session),
  );
  if (budget !== null)
    windows.setBudget(
      { scope: scopeOfSession(session), period: "total", mode: "hard", limit: budget, warnPercent: null },
      createdAt,
    );
  if (by !== null) answerEach(db, recordAudit(sessionEntry(session, key, by)));
  return "ok";
}

export function endSession(db: Connection, id: string, at: number): RunSession | undefined {
  db.prepare("update run_sessions set ended_at = ? where id = ? and ended_at is null").run(at, id);
  return new RunSessionReads(db).find(id);
}

/** See the port. Most calls find nothing. */
export function tidySessions(db: Connection, windows: WindowBook, at: number): number {
  const before = at - runBudgetKeptMs;
  const rows = db
    .prepare(`select * from run_sessions where (budget is not null or expires_at <= ?) and ${isOver("?")}`)
    .safeIntegers()
    .all(before, before) as RunSessionRow[];
  let found = 0;
  for (const session of rows.map(runSessionOf)) {
    const removed = session.budget !== null && windows.removeBudget(formatScope(scopeOfSession(session)), "total");
    if (session.expiresAt <= before) db.prepare("delete from run_sessions where id = ?").run(session.id);
    if (removed || session.expiresAt <= before) found++;
  }
  return found;
}
