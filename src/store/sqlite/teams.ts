import { teamEntry, type NewAuditEntry } from "../../core/audit.ts";
import { noLimits } from "../../core/limits.ts";
import { changedTeam, type Team, type TeamChange } from "../../core/teams.ts";
import type { ChangedTeam, TeamCreation, TeamRemoval } from "../../ports/team-store.ts";
import type { TeamReadings } from "../readings.ts";
import { modelsText, teamOf, type TeamRow } from "../rows/keys.ts";
import { recordAudit } from "./audit-entries.ts";
import type { Connection, Statement } from "./connection.ts";

type Made = Pick<NewAuditEntry, "at" | "by">;

/** A team that a key is given comes to be with it. */
export function ensureTeam(db: Connection, name: string | null, { at, by }: Made): void {
  if (name !== null) createTeam(db, { name, models: null, limits: noLimits, outputCap: null, createdAt: at }, by);
}

export function createTeam(db: Connection, team: Team, by: string): TeamCreation {
  const { name, models, limits, outputCap, createdAt } = team;
  const { changes } = db
    .prepare(
      "insert into teams (name, models, rpm, tpm, parallel, output_cap, created_at) values (?, ?, ?, ?, ?, ?, ?) on conflict do nothing",
    )
    .run(name, modelsText(models), limits.rpm, limits.tpm, limits.parallel, outputCap, createdAt);
  if (changes === 0) return { ok: false, reason: "name_taken" };
  recordAudit(db, teamEntry("teams.create", null, team, { at: createdAt, by }));
  return { ok: true };
}

export function updateTeam(db: Connection, name: string, change: TeamChange, made: Made): ChangedTeam | undefined {
  const before = new TeamReads(db).find(name);
  if (before === undefined) return undefined;
  const after = changedTeam(before, change);
  const { models, limits, outputCap } = after;
  db.prepare("update teams set models = ?, rpm = ?, tpm = ?, parallel = ?, output_cap = ? where name = ?").run(
    modelsText(models),
    limits.rpm,
    limits.tpm,
    limits.parallel,
    outputCap,
    name,
  );
  recordAudit(db, teamEntry("teams.update", before, after, made));
  return { before, after };
}

export function removeTeam(db: Connection, name: string, made: Made): TeamRemoval {
  const before = new TeamReads(db).find(name);
  if (before === undefined) return { ok: false, reason: "no_such_team" };
  const keys = db
    .prepare(
      "select name from keys where team = ? and revoked_at is null and (expires_at is null or expires_at > ?) order by seq",
    )
    .pluck()
    .all(name, made.at) as string[];
  const budgets = db
    .prepare("select scope from budgets where scope in (?, ?) order by seq")
    .pluck()
    .all(`team:${name}`, `each-key:${name}`) as string[];
  if (keys.length + budgets.length > 0) return { ok: false, reason: "in_use", keys, budgets };
  db.prepare("delete from teams where name = ?").run(name);
  recordAudit(db, teamEntry("teams.delete", before, null, made));
  return { ok: true, before };
}

/** Short reads of teams, on whichever connection. */
export class TeamReads implements TeamReadings {
  readonly #byName: Statement;
  readonly #all: Statement;

  constructor(db: Connection) {
    this.#byName = db.prepare("select * from teams where name = ?");
    this.#all = db.prepare("select * from teams order by seq");
  }

  find(name: string): Team | undefined {
    const row = this.#byName.get(name) as TeamRow | undefined;
    return row && teamOf(row);
  }

  list(): readonly Team[] {
    return this.#all.all().map((row) => teamOf(row as TeamRow));
  }
}
