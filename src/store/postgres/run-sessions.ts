import { sessionEntry } from "../../core/audit.ts";
import { formatScope } from "../../core/budget.ts";
import { isLive } from "../../core/keys.ts";
import { hasRoomForSession, runBudgetKeptMs, scopeOfSession, type RunSession } from "../../core/run-sessions.ts";
import type { Calendar } from "../../ports/calendar.ts";
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
import { lockedKey } from "../tables/keys.ts";
import { recordAudit } from "../tables/audit.ts";
import { answer } from "./answer.ts";
import { dropBudget, lockBudgets, putBudget } from "./budgets.ts";
import { announce } from "./changes.ts";
import type { Statements } from "./connection.ts";

/** Short reads of sessions. */
export class RunSessionReads implements RunSessionReadings {
  readonly #db: Statements;

  constructor(db: Statements) {
    this.#db = db;
  }

  async secret(): Promise<string> {
    return (await this.#db.row<{ secret: string }>("select secret from run_secret"))?.secret ?? "";
  }

  async find(id: string): Promise<RunSession | undefined> {
    const sql = { name: "run_session", text: "select * from run_sessions where id = $1" };
    const row = await this.#db.row<RunSessionRow>(sql, [id]);
    return row && runSessionOf(row);
  }
}

export async function createSession(
  db: Statements,
  calendar: Calendar,
  session: RunSession,
  by: string | null,
): Promise<RunSessionCreation> {
  const { key: keyId, budget, createdAt } = session;
  // As everywhere, the budgets' lock comes first.
  if (budget !== null) await lockBudgets(db);
  // Its row is locked, so that sessions of one key are counted one after the other.
  const key = await answer(db, lockedKey(keyId));
  if (key === undefined || !isLive(key, createdAt)) return "no_such_key";
  const counts = await db.row<{ open: bigint; kept: bigint }>(countSessions("$1", "$2", "$3"), [
    keyId,
    createdAt,
    createdAt - runBudgetKeptMs,
  ]);
  if (!hasRoomForSession({ open: Number(counts?.open), kept: Number(counts?.kept) })) return "too_many";
  await db.run(`insert into run_sessions (${runSessionColumns}) values ($1, $2, $3, $4, $5, $6, $7)`, [
    ...runSessionValues(session),
  ]);
  if (budget !== null)
    await putBudget(
      db,
      calendar,
      { scope: scopeOfSession(session), period: "total", mode: "hard", limit: budget, warnPercent: null },
      createdAt,
    );
  if (by !== null) await answer(db, recordAudit(sessionEntry(session, key, by)));
  await announce(db);
  return "ok";
}

export async function endSession(db: Statements, id: string, at: number): Promise<RunSession | undefined> {
  await db.run("update run_sessions set ended_at = $1 where id = $2 and ended_at is null", [at, id]);
  await announce(db);
  return new RunSessionReads(db).find(id);
}

/** See the port. Most calls find nothing, and then lock nothing. */
export async function tidySessions(db: Statements, at: number): Promise<number> {
  const before = at - runBudgetKeptMs;
  const sql = `select * from run_sessions where (budget is not null or expires_at <= $1) and ${isOver("$1")} order by id`;
  if ((await db.row<RunSessionRow>(sql, [before])) === undefined) return 0;
  await lockBudgets(db);
  let found = 0;
  for (const session of (await db.rows<RunSessionRow>(sql, [before])).map(runSessionOf)) {
    const removed = session.budget !== null && (await dropBudget(db, formatScope(scopeOfSession(session)), "total"));
    if (session.expiresAt <= before) await db.run("delete from run_sessions where id = $1", [session.id]);
    if (removed !== false || session.expiresAt <= before) found++;
  }
  if (found > 0) await announce(db);
  return found;
}
