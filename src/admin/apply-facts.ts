import { budgetObject } from "../core/audit.ts";
import { parseScope, type Budget, type Period, type Scope } from "../core/budget.ts";
import type { Key } from "../core/keys.ts";
import type { Team } from "../core/teams.ts";
import type { ApplyFile, StatedBudget, StatedKey, StatedTeam } from "./apply-file.ts";
import type { PlanQuestion, Present } from "./apply-plan.ts";

/** What a file says beside what is there, each thing with its like. */
export interface Facts {
  readonly file: ApplyFile;
  readonly present: Present;
  readonly now: number;
  readonly teams: readonly TeamPair[];
  readonly keys: readonly KeyPair[];
  readonly budgets: readonly BudgetPair[];
  /** The key of this name, live or not. */
  keyNamed(name: string): Key | undefined;
  /** A budget under the name that the audit has for it. */
  objectOf(budget: Budget): string;
}

export interface TeamPair {
  readonly name: string;
  readonly stated: StatedTeam | null;
  readonly there: Team | undefined;
}

export interface KeyPair {
  readonly name: string;
  readonly stated: StatedKey | null;
  readonly expiresAt: number | null;
  readonly there: Key | undefined;
}

export interface BudgetPair {
  readonly stated: StatedBudget;
  readonly object: string;
  /** Of a key, by its name: a key that is yet to be made has one too. */
  readonly scope: Scope;
  readonly there: Budget | undefined;
}

export function factsOf({ file, present, now, calendar }: PlanQuestion): Facts {
  const keysByName = new Map(present.keys.map((key) => [key.name, key]));
  const namesById = new Map(present.keys.map((key) => [key.id, key.name]));
  const teamsByName = new Map(present.teams.map((team) => [team.name, team]));
  const nameOf = (nameOrId: string) => namesById.get(nameOrId) ?? nameOrId;
  const objectOf = (budget: { readonly scope: Scope; readonly period: Period }) => budgetObject(budget, nameOf);
  const budgetsByObject = new Map(present.budgets.map((budget) => [objectOf(budget), budget]));
  /** A day is its beginning in the time zone. */
  const expiryOf = (expires: string) => (expires.includes("T") ? Date.parse(expires) : calendar.startOfDate(expires));
  return {
    file,
    present,
    now,
    objectOf,
    keyNamed: (name) => keysByName.get(name),
    teams: Object.entries(file.teams ?? {}).map(([name, stated]) => ({ name, stated, there: teamsByName.get(name) })),
    keys: Object.entries(file.keys ?? {}).map(([name, stated]) => {
      const expiresAt = stated?.expires == null ? null : expiryOf(stated.expires);
      return { name, stated, expiresAt, there: keysByName.get(name) };
    }),
    budgets: (file.budgets ?? []).map((stated) => {
      const scope = statedScope(stated, nameOf);
      const object = objectOf({ scope, period: stated.per });
      return { stated, scope, object, there: budgetsByObject.get(object) };
    }),
  };
}

function statedScope({ scope: text }: StatedBudget, nameOf: (nameOrId: string) => string): Scope {
  const scope = parseScope(text) ?? { kind: "all" };
  return scope.kind === "key" ? { kind: "key", key: nameOf(scope.key) } : scope;
}
