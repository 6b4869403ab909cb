import type { Team, TeamChange } from "../core/keys.ts";

export type TeamCreation = { readonly ok: true } | { readonly ok: false; readonly reason: "name_taken" };

export interface ChangedTeam {
  readonly before: Team;
  readonly after: Team;
}

export type TeamRemoval =
  | { readonly ok: true; readonly before: Team }
  | { readonly ok: false; readonly reason: "no_such_team" }
  /** Names of live keys in the team, and scopes of its budgets. */
  | {
      readonly ok: false;
      readonly reason: "in_use";
      readonly keys: readonly string[];
      readonly budgets: readonly string[];
    };

/** Teams; KeyStore also creates one for the first key that names it. */
export interface TeamStore {
  /** `by`, here and below: author for the audit; farebox itself unless given. */
  create(team: Team, by?: string): Promise<TeamCreation>;
  find(name: string): Promise<Team | undefined>;
  /** In the order of creation. */
  list(): Promise<readonly Team[]>;
  /** Reads the team and changes the fields that `change` names in one step; undefined for an unknown team. */
  update(name: string, change: TeamChange, at: number, by?: string): Promise<ChangedTeam | undefined>;
  /** Removes the team, unless a budget or a key that is live at this instant names it. Checks in the same step. */
  remove(name: string, at: number, by?: string): Promise<TeamRemoval>;
}
