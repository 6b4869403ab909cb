import { changedTeam, fareboxAdmin, type Team } from "../../core/keys.ts";
import { formatScope, namedScope, parseScope, teamScope } from "../../core/scope.ts";
import { teamEntry, type NewAuditEntry } from "../../core/audit.ts";
import { noRateLimits } from "../../core/rate-limits.ts";
import type { TeamCreation, TeamStore } from "../../ports/stores.ts";
import { write, type Query } from "../queries/query.ts";
import { recordAudit } from "./audit.ts";
import { limitColumns, limitColumnNames, limitsOf, type LimitColumns } from "./limits.ts";
import { all, insert, locked, one, update, type Table } from "./table.ts";

export interface TeamRow extends LimitColumns {
  readonly name: string;
  readonly created_at: number;
}

export const teamColumns = `name, ${limitColumnNames}, created_at`;
const select = `select ${teamColumns} from teams`;
const selectByName = `${select} where name = ?`;

export function teamOf(row: TeamRow): Team {
  return { name: row.name, ...limitsOf(row), createdAt: row.created_at };
}

/** Returns a stored scope in the form that users write, but with the id of its key instead of the name. */
function nameOfScope(stored: string): string {
  const scope = parseScope(stored);
  return scope === undefined ? stored : namedScope(scope, () => undefined);
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
 * Creates the team of a key if the team does not exist. Locks the team's row, so that no process removes the team
 * before the key is written.
 */
export function* ensureTeam(name: string | null, { at, by }: Pick<NewAuditEntry, "at" | "by">): Query<void> {
  if (name === null) return;
  do {
    yield* create({ name, models: null, limits: noRateLimits, outputCap: null, hostedTools: null, createdAt: at }, by);
    // Another process may have removed the team while this one waited for the row's lock.
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
      // The team is the first condition of a scope, so a prefix finds all scopes of the team.
      const ofTeam = formatScope(teamScope(name));
      const budgets = yield* all<{ scope: string }>(
        "select scope from budgets where scope = ? or substr(scope, 1, ?) = ? order by seq",
        ofTeam,
        ofTeam.length + 1,
        `${ofTeam} `,
      );
      if (keys.length + budgets.length > 0)
        return {
          ok: false,
          reason: "in_use",
          keys: keys.map((key) => key.name),
          budgets: budgets.map(({ scope }) => nameOfScope(scope)),
        };
      yield* write("delete from teams where name = ?", name);
      yield* recordAudit(teamEntry("teams.remove", before, null, { at, by }));
      return { ok: true, before };
    },
  },
};
