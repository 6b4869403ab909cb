import { changedLimits, type Limits, type LimitsChange } from "./limits.ts";

/** Keys that share limits. Times are milliseconds since 1970 UTC. */
export interface Team {
  readonly name: string;
  /** Wildcard patterns of the models that its keys may use; null for all. */
  readonly models: readonly string[] | null;
  readonly limits: Limits;
  /** Most output tokens for each choice that a request of its keys may ask for; null for no cap. */
  readonly outputCap: number | null;
  readonly createdAt: number;
}

/** Changes to a team; absent fields stay. */
export interface TeamChange {
  readonly models?: readonly string[] | null | undefined;
  readonly limits?: LimitsChange | undefined;
  readonly outputCap?: number | null | undefined;
}

export function changedTeam(team: Team, { models, limits, outputCap }: TeamChange): Team {
  return {
    ...team,
    models: models === undefined ? team.models : models,
    limits: changedLimits(team.limits, limits),
    outputCap: outputCap === undefined ? team.outputCap : outputCap,
  };
}
