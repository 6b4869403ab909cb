import { fareboxItself } from "../../core/admins.ts";
import { teamEntry, type NewAuditEntry } from "../../core/audit.ts";
import { formatScope, teamOfScope } from "../../core/budget.ts";
import { isLive } from "../../core/keys.ts";
import { noLimits } from "../../core/limits.ts";
import { changedTeam, type Team, type TeamChange } from "../../core/teams.ts";
import type { ChangedTeam, TeamCreation, TeamRemoval, TeamStore } from "../../ports/team-store.ts";
import { recordAudit } from "./audit-log.ts";
import { announce, type MemoryState } from "./state.ts";

export class MemoryTeamStore implements TeamStore {
  readonly #state: MemoryState;

  constructor(state: MemoryState) {
    this.#state = state;
  }

  async create(team: Team, by = fareboxItself): Promise<TeamCreation> {
    if (this.#state.teams.has(team.name)) return { ok: false, reason: "name_taken" };
    this.#state.teams.set(team.name, team);
    recordAudit(this.#state, teamEntry("teams.create", null, team, { at: team.createdAt, by }));
    announce(this.#state);
    return { ok: true };
  }

  async find(name: string): Promise<Team | undefined> {
    return this.#state.teams.get(name);
  }

  async list(): Promise<readonly Team[]> {
    return [...this.#state.teams.values()];
  }

  async update(name: string, change: TeamChange, at: number, by = fareboxItself): Promise<ChangedTeam | undefined> {
    const before = this.#state.teams.get(name);
    if (before === undefined) return undefined;
    const after = changedTeam(before, change);
    this.#state.teams.set(name, after);
    recordAudit(this.#state, teamEntry("teams.update", before, after, { at, by }));
    announce(this.#state);
    return { before, after };
  }

  async remove(name: string, at: number, by = fareboxItself): Promise<TeamRemoval> {
    const before = this.#state.teams.get(name);
    if (before === undefined) return { ok: false, reason: "no_such_team" };
    const keys = [...this.#state.keys.values()]
      .filter((key) => key.team === name && isLive(key, at))
      .map((key) => key.name);
    const budgets = [...this.#state.budgets.values()]
      .filter(({ scope }) => teamOfScope(scope) === name)
      .map(({ scope }) => formatScope(scope));
    if (keys.length + budgets.length > 0) return { ok: false, reason: "in_use", keys, budgets };
    this.#state.teams.delete(name);
    recordAudit(this.#state, teamEntry("teams.delete", before, null, { at, by }));
    announce(this.#state);
    return { ok: true, before };
  }
}

/** A team that a key is given comes to be with it. */
export function ensureTeam(state: MemoryState, name: string | null, made: Pick<NewAuditEntry, "at" | "by">): void {
  if (name === null || state.teams.has(name)) return;
  const team = { name, models: null, limits: noLimits, outputCap: null, createdAt: made.at };
  state.teams.set(name, team);
  recordAudit(state, teamEntry("teams.create", null, team, made));
}
