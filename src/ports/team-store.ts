import type { Team, TeamChange } from "../core/keys.ts";

export type TeamCreation = { readonly ok: true } | { readonly ok: false; readonly reason: "name_taken" };

export interface ChangedTeam {
  readonly before: Team;
  readonly after: Team;
}

export type TeamRemoval =
  | { readonly ok: true; readonly before: Team }
  | { readonly ok: false; readonly reason: "no_such_team" }
  /** `keys`: names of live keys in the team. `budgets`: scopes of the team's budgets. */
  | {
      readonly ok: false;
      readonly reason: "in_use";
      readonly keys: readonly string[];
      readonly budgets: readonly string[];
    };

/** Teams. `KeyStore` also creates a team if a key names one that does not exist. */
export interface TeamStore {
  /** `by`, in all methods: author of the change in the audit log; `farebox` by default. */
  create(team: Team, by?: string): Promise<TeamCreation>;
  find(name: string): Promise<Team | undefined>;
  /** Returns all teams in the order of creation. */
  list(): Promise<readonly Team[]>;
  /** Atomically reads the team and changes the fields in `change`. Returns undefined for an unknown team. */
  update(name: string, change: TeamChange, at: number, by?: string): Promise<ChangedTeam | undefined>;
  /** Atomically removes the team, unless a budget names it or a live key belongs to it. */
  remove(name: string, at: number, by?: string): Promise<TeamRemoval>;
}
