import { z } from "zod";
import { isLive, type Team } from "../core/keys.ts";
import { changedLimits, noLimits } from "../core/limits.ts";
import type { Clock } from "../ports/clock.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { TeamStore } from "../ports/team-store.ts";
import { limitsSchema, modelsSchema, nameSchema, outputCapSchema } from "./fields.ts";
import { failure, noSuch, parseChange, parseInput, type Failure } from "./result.ts";

export interface TeamTools {
  readonly teams: TeamStore;
  readonly clock: Clock;
  /** Author of the change, for the audit. */
  readonly by: string;
}

export const newTeamSchema = z.strictObject({
  name: nameSchema,
  /** Wildcard patterns; null for all models. A key may use a model only if both its own list and its team's list permit it. */
  models: modelsSchema.default(null),
  limits: limitsSchema.default({}),
  outputCap: outputCapSchema.default(null),
});

export type NewTeam = z.input<typeof newTeamSchema>;

export const teamChangeSchema = z.strictObject({
  models: modelsSchema.optional(),
  limits: limitsSchema.optional(),
  outputCap: outputCapSchema.optional(),
});

export type TeamUpdate = z.input<typeof teamChangeSchema>;

/** A team before and after a change. `before` is null for a new team, `team` for a deleted one. */
export interface TeamChanged<Before = Team, After = Team> {
  readonly ok: true;
  readonly before: Before;
  readonly team: After;
}

/** Creates a team. A team is also created with its first key. */
export async function createTeam(tools: TeamTools, input: NewTeam): Promise<TeamChanged<null> | Failure> {
  const parsed = parseInput(newTeamSchema, input);
  if (!parsed.ok) return parsed;
  const { name, models, limits, outputCap } = parsed.value;
  const team: Team = { name, models, limits: changedLimits(noLimits, limits), outputCap, createdAt: tools.clock.now() };
  const creation = await tools.teams.create(team, tools.by);
  if (!creation.ok)
    return failure("name_taken", `there is a team named ${name} already; farebox teams update changes it`);
  return { ok: true, before: null, team };
}

/** Returns all teams in the order of creation. */
export function listTeams(teams: TeamStore): Promise<readonly Team[]> {
  return teams.list();
}

export async function showTeam(
  teams: TeamStore,
  name: string,
): Promise<{ readonly ok: true; readonly team: Team } | Failure> {
  const team = await teams.find(name);
  return team === undefined ? noSuchTeam(teams, name) : { ok: true, team };
}

/** Changes the given fields of a team. A running proxy applies them to the team's next request. */
export async function updateTeam(
  { teams, clock, by }: TeamTools,
  name: string,
  input: TeamUpdate,
): Promise<TeamChanged | Failure> {
  const parsed = parseChange(teamChangeSchema, input);
  if (!parsed.ok) return parsed;
  const changed = await teams.update(name, parsed.value, clock.now(), by);
  return changed === undefined ? noSuchTeam(teams, name) : { ok: true, before: changed.before, team: changed.after };
}

/** Deletes a team that no live key or budget refers to. The ledger keeps what the team spent. */
export async function deleteTeam(
  { teams, clock, by }: TeamTools,
  name: string,
): Promise<TeamChanged<Team, null> | Failure> {
  const removal = await teams.remove(name, clock.now(), by);
  if (removal.ok) return { ok: true, before: removal.before, team: null };
  if (removal.reason === "no_such_team") return noSuchTeam(teams, name);
  const users = [...some("key", removal.keys), ...some("budget", removal.budgets)].join(" and ");
  return failure("refused", `team ${name} is still named by ${users}; move, revoke or remove them first`);
}

/** Lists up to three names and the number of further ones. */
function some(noun: string, names: readonly string[]): string[] {
  if (names.length === 0) return [];
  const more = names.length > 3 ? ` and ${names.length - 3} more` : "";
  return [`${noun}${names.length === 1 ? "" : "s"} ${names.slice(0, 3).join(", ")}${more}`];
}

async function noSuchTeam(teams: TeamStore, name: string): Promise<Failure> {
  return noSuch(
    "team",
    name,
    (await teams.list()).map((team) => team.name),
  );
}

/** Returns a function that lists the names of a team's live keys. */
export async function liveMembers(keys: KeyStore, now: number): Promise<(team: string) => string[]> {
  const live = (await keys.list()).filter((key) => isLive(key, now));
  return (team) => live.filter((key) => key.team === team).map(({ name }) => name);
}
