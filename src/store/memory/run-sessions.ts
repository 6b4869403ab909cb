import { sessionEntry } from "../../core/audit.ts";
import { formatScope } from "../../core/budget.ts";
import { isLive } from "../../core/keys.ts";
import { hasRoomForSession, runBudgetKeptMs, scopeOfSession, type RunSession } from "../../core/run-sessions.ts";
import { runSessionOf } from "../../core/tags.ts";
import type { RunSessionCreation, RunSessions } from "../../ports/run-sessions.ts";
import { recordAudit } from "./audit-log.ts";
import { announce, type MemoryState } from "./state.ts";

export class MemoryRunSessions implements RunSessions {
  readonly #state: MemoryState;

  constructor(state: MemoryState) {
    this.#state = state;
  }

  async secret(): Promise<string> {
    return this.#state.runSecret;
  }

  async find(id: string): Promise<RunSession | undefined> {
    return this.#state.runSessions.get(id);
  }

  async create(session: RunSession, by: string | null): Promise<RunSessionCreation> {
    const { key: keyId, budget: limit, createdAt } = session;
    const { keys, runSessions, budgets, opened } = this.#state;
    const key = keys.get(keyId);
    if (key === undefined || !isLive(key, createdAt)) return "no_such_key";
    const kept = [...runSessions.values()].filter(
      ({ key: of, endedAt, expiresAt }) => of === keyId && (endedAt ?? expiresAt) > createdAt - runBudgetKeptMs,
    );
    const open = kept.filter(({ endedAt, expiresAt }) => endedAt === null && expiresAt > createdAt);
    if (!hasRoomForSession({ open: open.length, kept: kept.length })) return "too_many";
    runSessions.set(session.id, session);
    if (limit !== null) {
      const scope = scopeOfSession(session);
      const id = `${formatScope(scope)}/total`;
      budgets.set(id, { id, scope, period: "total", mode: "hard", limit, warnPercent: null });
      opened.set(`${id} 0 `, { budget: id, start: 0, subject: "" });
    }
    if (by !== null) recordAudit(this.#state, sessionEntry(session, key, by));
    announce(this.#state);
    return "ok";
  }

  async end(id: string, at: number): Promise<RunSession | undefined> {
    const session = this.#state.runSessions.get(id);
    if (session?.endedAt === null) this.#state.runSessions.set(id, { ...session, endedAt: at });
    announce(this.#state);
    return this.#state.runSessions.get(id);
  }

  async tidy(at: number): Promise<number> {
    const before = at - runBudgetKeptMs;
    const pending = new Set(
      [...this.#state.charges.values()]
        .filter(({ state }) => state === "pending")
        .map(({ tags }) => runSessionOf(tags)),
    );
    let found = 0;
    for (const session of this.#state.runSessions.values()) {
      if ((session.endedAt ?? session.expiresAt) > before || pending.has(session.id)) continue;
      const id = `${formatScope(scopeOfSession(session))}/total`;
      const removed = this.#state.budgets.delete(id);
      for (const [name, { budget }] of this.#state.opened) if (budget === id) this.#state.opened.delete(name);
      if (session.expiresAt <= before) this.#state.runSessions.delete(session.id);
      if (removed || session.expiresAt <= before) found++;
    }
    if (found > 0) announce(this.#state);
    return found;
  }
}
