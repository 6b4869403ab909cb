import { teamEntry, type NewAuditEntry } from "../../core/audit.ts";
import { noLimits } from "../../core/limits.ts";
import { changedTeam, type Team, type TeamChange } from "../../core/teams.ts";
import type { ChangedTeam, TeamCreation, TeamRemoval } from "../../ports/team-store.ts";
import type { TeamReadings } from "../readings.ts";
import { modelsText, teamOf, type TeamRow } from "../rows/keys.ts";
import { recordAudit } from "./audit-entries.ts";
import type { Statements } from "./connection.ts";
import { withNumbers } from "../numbers.ts";

type Made = Pick<NewAuditEntry, "at" | "by">;

/**
 * A team that a key is given comes to be with it. Its row stays locked until the transaction ends, so that nobody removes the
 * team while the key is written.
 */
export async function ensureTeam(db: Statements, name: string | null, { at, by }: Made): Promise<void> {
  if (name === null) return;
  do {
    await createTeam(db, { name, models: null, limits: noLimits, outputCap: null, createdAt: at }, by);
    // One that was there may have been removed while this waited for its row.
  } while ((await db.row("select 1 from teams where name = $1 for share", [name])) === undefined);
}

export async function createTeam(db: Statements, team: Team, by: string): Promise<TeamCreation> {
  const { name, models, limits, outputCap, createdAt } = team;
  const added = await db.run(
    "insert into teams (name, models, rpm, tpm, parallel, output_cap, created_at) values ($1, $2, $3, $4, $5, $6, $7) on conflict (name) do nothing",
    [name, modelsText(models), limits.rpm, limits.tpm, limits.parallel, outputCap, createdAt],
  );
  if (added === 0) return { ok: false, reason: "name_taken" };
  await recordAudit(db, teamEntry("teams.create", null, team, { at: createdAt, by }));
  return { ok: true };
}

export async function updateTeam(
  db: Statements,
  name: string,
  change: TeamChange,
  made: Made,
): Promise<ChangedTeam | undefined> {
  const before = await lockedTeam(db, name);
  if (before === undefined) return undefined;
  const after = changedTeam(before, change);
  const { models, limits, outputCap } = after;
  await db.run("update teams set models = $1, rpm = $2, tpm = $3, parallel = $4, output_cap = $5 where name = $6", [
    modelsText(models),
    limits.rpm,
    limits.tpm,
    limits.parallel,
    outputCap,
    name,
  ]);
  await recordAudit(db, teamEntry("teams.update", before, after, made));
  return { before, after };
}

export async function removeTeam(db: Statements, name: string, made: Made): Promise<TeamRemoval> {
  const before = await lockedTeam(db, name);
  if (before === undefined) return { ok: false, reason: "no_such_team" };
  const keys = await db.rows<{ name: string }>(
    "select name from keys where team = $1 and revoked_at is null and (expires_at is null or expires_at > $2) order by seq",
    [name, made.at],
  );
  const budgets = await db.rows<{ scope: string }>("select scope from budgets where scope in ($1, $2) order by seq", [
    `team:${name}`,
    `each-key:${name}`,
  ]);
  if (keys.length + budgets.length > 0) {
    return {
      ok: false,
      reason: "in_use",
      keys: keys.map((key) => key.name),
      budgets: budgets.map(({ scope }) => scope),
    };
  }
  await db.run("delete from teams where name = $1", [name]);
  await recordAudit(db, teamEntry("teams.delete", before, null, made));
  return { ok: true, before };
}

async function lockedTeam(db: Statements, name: string): Promise<Team | undefined> {
  const row = await db.row<TeamRow>("select * from teams where name = $1 for update", [name]);
  return row && teamOf(withNumbers(row));
}

/** Short reads of teams. */
export class TeamReads implements TeamReadings {
  readonly #db: Statements;

  constructor(db: Statements) {
    this.#db = db;
  }

  async find(name: string): Promise<Team | undefined> {
    const row = await this.#db.row<TeamRow>({ name: "team", text: "select * from teams where name = $1" }, [name]);
    return row && teamOf(withNumbers(row));
  }

  async list(): Promise<readonly Team[]> {
    return (await this.#db.rows<TeamRow>("select * from teams order by seq")).map((row) => teamOf(withNumbers(row)));
  }
}
