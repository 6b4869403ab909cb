import {
  dashboardSessionsMax,
  sessionsOfSecretMax,
  type DashboardSession,
  type DashboardSessions,
} from "../../ports/dashboard-sessions.ts";
import { write } from "../queries/query.ts";
import { all, Columns, insert, one, type Table } from "./table.ts";

const columns = new Columns("digest", "kind", "holder", "secret", "createdAt", "expiresAt");

/** Sessions of the dashboard. After a session ends, other processes reload the sessions that they cache. */
export const dashboardSessions: Table<DashboardSessions, "create" | "end"> = {
  queries: {
    find: (digest) =>
      one<DashboardSession>(`select ${columns.select} from dashboard_sessions where digest = ?`, digest),
  },
  announces: (result) => result === true,
  unavailable: { create: "unavailable" },
  writes: {
    *create(session, replaced) {
      const { secret, createdAt } = session;
      yield* write("delete from dashboard_sessions where expires_at <= ?", createdAt);
      const ended = [
        ...(yield* all("delete from dashboard_sessions where digest = ? returning 1", replaced)),
        ...(yield* all(
          `delete from dashboard_sessions where secret = ? and seq <= (
             select seq from dashboard_sessions where secret = ? order by seq desc limit 1 offset ${sessionsOfSecretMax - 1})
           returning 1`,
          secret,
          secret,
        )),
        ...(yield* all(
          `delete from dashboard_sessions where seq <= (
             select seq from dashboard_sessions order by seq desc limit 1 offset ${dashboardSessionsMax - 1}) returning 1`,
        )),
      ];
      yield* insert("dashboard_sessions", columns.rowOf(session));
      return ended.length > 0;
    },
    *end(digest) {
      return (yield* one("delete from dashboard_sessions where digest = ? returning 1", digest)) !== undefined;
    },
  },
};
