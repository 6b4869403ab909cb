import { z } from "zod";
import { changedTeam, isLive, type Team } from "../core/keys.ts";
import { noRateLimits } from "../core/rate-limits.ts";
import type { Clock } from "../ports/clock.ts";
import type { KeyStore, TeamStore } from "../ports/stores.ts";
import { hostedToolsOf, limitsSchema, modelsSchema, nameSchema, outputCapSchema } from "./fields.ts";
import { failure, noSuch, parseChange, parseInput, type Failure } from "./result.ts";

interface TeamTools {
  readonly teams: TeamStore;
  readonly clock: Clock;
  /** Author of the change, for the audit. */
  readonly by: string;
}

export const teamChangeSchema = z.strictObject({
  /** Wildcard patterns; null for all models. A key may use a model only if both its own list and its team's list permit it. */
  models: modelsSchema.optional(),
  limits: limitsSchema.optional(),
  outputCap: outputCapSchema.optional(),
  hostedTools: hostedToolsOf("must be ").optional(),
});

export type TeamUpdate = z.input<typeof teamChangeSchema>;

export const newTeamSchema = z.strictObject({ name: nameSchema, ...teamChangeSchema.shape });

export type NewTeam = z.input<typeof newTeamSchema>;

type TeamResult = { readonly ok: true; readonly team: Team } | Failure;

/** Creates a team. A team is also created when a key is given a team that does not exist. */
export async function createTeam(tools: TeamTools, input: NewTeam): Promise<TeamResult> {
  const parsed = parseInput(newTeamSchema, input);
  if (!parsed.ok) return parsed;
  const { name, ...settings } = parsed.value;
  const createdAt = tools.clock.now();
  const blank: Team = { name, models: null, limits: noRateLimits, outputCap: null, hostedTools: null, createdAt };
  const team = changedTeam(blank, settings);
  const creation = await tools.teams.create(team, tools.by);
  if (!creation.ok)
    return failure("name_taken", `there is already a team named ${name}; farebox teams update changes it`);
  return { ok: true, team };
}

export async function showTeam(teams: TeamStore, name: string): Promise<TeamResult> {
  const team = await teams.find(name);
  return team === undefined ? noSuchTeam(teams, name) : { ok: true, team };
}

/** Changes the given fields of a team. A running proxy applies them to the team's next request. */
export async function updateTeam(
  { teams, clock, by }: TeamTools,
  name: string,
  input: TeamUpdate,
): Promise<TeamResult> {
  const parsed = parseChange(teamChangeSchema, input);
  if (!parsed.ok) return parsed;
  const changed = await teams.update(name, parsed.value, clock.now(), by);
  return changed === undefined ? noSuchTeam(teams, name) : { ok: true, team: changed.after };
}

/** Removes a team. Fails if a live key or a budget refers to the team. The team's charges stay in the ledger. */
export async function removeTeam(
  { teams, clock, by }: TeamTools,
  name: string,
): Promise<{ readonly ok: true } | Failure> {
  const removal = await teams.remove(name, clock.now(), by);
  if (removal.ok) return { ok: true };
  if (removal.reason === "no_such_team") return noSuchTeam(teams, name);
  const users = [...some("key", removal.keys), ...some("budget", removal.budgets)].join(" and ");
  return failure("refused", `team ${name} is still used by ${users}; move, revoke or remove them first`);
}

/** Lists up to three names and the number of the other names. */
function some(noun: string, names: readonly string[]): string[] {
  if (names.length === 0) return [];
  const more = names.length > 3 ? ` and ${names.length - 3} more` : "";
  return [`${noun}${names.length === 1 ? "" : "s"} ${names.slice(0, 3).join(", ")}${more}`];
}

async function noSuchTeam(teams: TeamStore, name: string): Promise<Failure> {
  const names = (await teams.list()).map((team) => team.name);
  return noSuch("team", name, names);
}

/** Returns a function that lists the names of a team's live keys. */
export async function liveMembers(keys: KeyStore, now: number): Promise<(team: string) => string[]> {
  const live = (await keys.list()).filter((key) => isLive(key, now));
  return (team) => live.filter((key) => key.team === team).map(({ name }) => name);
}
