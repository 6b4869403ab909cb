import {
  type DashboardSession,
  type DashboardSessions,
  dashboardSessionsMax,
  sessionsOfSecretMax,
} from "../../ports/stores.ts";
import { write } from "../queries/query.ts";
import { Columns, insert, one, type Table } from "./table.ts";

const columns = new Columns("digest", "kind", "holder", "secret", "createdAt", "expiresAt");

/** Sessions of the dashboard. */
export const dashboardSessions: Table<DashboardSessions, "create" | "end"> = {
  queries: {
    find: (digest) =>
      one<DashboardSession>(`select ${columns.select} from dashboard_sessions where digest = ?`, digest),
  },
  announces: false,
  unavailable: { create: "unavailable" },
  writes: {
    *create(session, replaced) {
      const { secret, createdAt } = session;
      yield* write("delete from dashboard_sessions where expires_at <= ?", createdAt);
      yield* write("delete from dashboard_sessions where digest = ?", replaced);
      yield* write(
        `delete from dashboard_sessions where secret = ? and seq <= (
           select seq from dashboard_sessions where secret = ? order by seq desc limit 1 offset ${sessionsOfSecretMax - 1})`,
        secret,
        secret,
      );
      yield* write(
        `delete from dashboard_sessions where seq <= (
           select seq from dashboard_sessions order by seq desc limit 1 offset ${dashboardSessionsMax - 1})`,
      );
      yield* insert("dashboard_sessions", columns.rowOf(session));
      return "stored";
    },
    *end(digest) {
      return (yield* one("delete from dashboard_sessions where digest = ? returning 1", digest)) !== undefined;
    },
  },
};
