import type { Team, TeamChange } from "../core/teams.ts";

export type TeamCreation = { readonly ok: true } | { readonly ok: false; readonly reason: "name_taken" };

export interface ChangedTeam {
  readonly before: Team;
  readonly after: Team;
}

export type TeamRemoval =
  | { readonly ok: true; readonly before: Team }
  | { readonly ok: false; readonly reason: "no_such_team" }
  /** Names of live keys in it, and scopes of budgets on it. */
  | {
      readonly ok: false;
      readonly reason: "in_use";
      readonly keys: readonly string[];
      readonly budgets: readonly string[];
    };

/** Teams come to be by themselves too, with the first key that is given one (see KeyStore). */
export interface TeamStore {
  /** `by`, here and below: who makes the change, for the audit; farebox itself where nobody is named. */
  create(team: Team, by?: string): Promise<TeamCreation>;
  find(name: string): Promise<Team | undefined>;
  /** In the order of creation. */
  list(): Promise<readonly Team[]>;
  /** Changes what `change` names, in one step with reading what was there; undefined when there is no such team. */
  update(name: string, change: TeamChange, at: number, by?: string): Promise<ChangedTeam | undefined>;
  /** Refused, in one step with looking, while a key that is live at this instant or a budget names it. */
  remove(name: string, at: number, by?: string): Promise<TeamRemoval>;
}
