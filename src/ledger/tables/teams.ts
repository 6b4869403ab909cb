import { changedTeam, fareboxAdmin, type Team } from "../../core/keys.ts";
import { teamEntry, type NewAuditEntry } from "../../core/audit.ts";
import { noLimits } from "../../core/limits.ts";
import type { TeamCreation, TeamStore } from "../../ports/team-store.ts";
import { write, type Query } from "../queries/query.ts";
import { recordAudit } from "./audit.ts";
import { limitColumns, limitNames, limitsOf, type LimitColumns } from "./limits.ts";
import { all, insert, locked, one, update, type Table } from "./table.ts";

interface TeamRow extends LimitColumns {
  readonly name: string;
  readonly created_at: number;
}

const select = `select name, ${limitNames}, created_at from teams`;
const selectByName = `${select} where name = ?`;

function teamOf(row: TeamRow): Team {
  return { name: row.name, ...limitsOf(row), createdAt: row.created_at };
}

function* lockedTeam(name: string): Query<Team | undefined> {
  const row = yield* locked<TeamRow>("update", selectByName, name);
  return row && teamOf(row);
}

function* create(team: Team, by: string): Query<TeamCreation> {
  const { name, createdAt } = team;
  const row = { name, ...limitColumns(team), created_at: createdAt };
  if (!(yield* insert("teams", row, "on conflict (name) do nothing"))) return { ok: false, reason: "name_taken" };
  yield* recordAudit(teamEntry("teams.create", null, team, { at: createdAt, by }));
  return { ok: true };
}

/**
 * Creates the team of a key if it does not exist. Locks its row, so that no one removes it while the key is written.
 */
export function* ensureTeam(name: string | null, { at, by }: Pick<NewAuditEntry, "at" | "by">): Query<void> {
  if (name === null) return;
  do {
    yield* create({ name, models: null, limits: noLimits, outputCap: null, createdAt: at }, by);
    // A team may have been removed while this waited for its row.
  } while ((yield* locked("share", "select 1 from teams where name = ?", name)) === undefined);
}

export const teams: Table<TeamStore, "create" | "update" | "remove"> = {
  queries: {
    *find(name) {
      const row = yield* one<TeamRow>(selectByName, name);
      return row && teamOf(row);
    },
    *list() {
      return (yield* all<TeamRow>(`${select} order by seq`)).map(teamOf);
    },
  },
  announces: true,
  writes: {
    create: (team, by = fareboxAdmin) => create(team, by),
    *update(name, change, at, by = fareboxAdmin) {
      const before = yield* lockedTeam(name);
      if (before === undefined) return undefined;
      const after = changedTeam(before, change);
      yield* update("teams", limitColumns(after), "name = ?", name);
      yield* recordAudit(teamEntry("teams.update", before, after, { at, by }));
      return { before, after };
    },
    *remove(name, at, by = fareboxAdmin) {
      const before = yield* lockedTeam(name);
      if (before === undefined) return { ok: false, reason: "no_such_team" };
      const keys = yield* all<{ name: string }>(
        "select name from keys where team = ? and revoked_at is null and (expires_at is null or expires_at > ?) order by seq",
        name,
        at,
      );
      const budgets = yield* all<{ scope: string }>(
        "select scope from budgets where scope in (?, ?) order by seq",
        `team:${name}`,
        `each-key:${name}`,
      );
      if (keys.length + budgets.length > 0)
        return {
          ok: false,
          reason: "in_use",
          keys: keys.map((key) => key.name),
          budgets: budgets.map(({ scope }) => scope),
        };
      yield* write("delete from teams where name = ?", name);
      yield* recordAudit(teamEntry("teams.delete", before, null, { at, by }));
      return { ok: true, before };
    },
  },
};
