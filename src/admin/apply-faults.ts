import { keyObject } from "../core/audit.ts";
import { teamOfScope } from "../core/budget.ts";
import { isoTime } from "../core/iso-time.ts";
import { isLive } from "../core/keys.ts";
import type { Path } from "../ports/yaml.ts";
import type { BudgetPair, Facts, KeyPair } from "./apply-facts.ts";
import type { ApplyFile } from "./apply-file.ts";
import type { PlannedChange } from "./apply-plan.ts";
import { lifetimeMsMax } from "./keys.ts";

/** What in the file cannot be, as things are; at its path in the file. */
export interface PlanFault {
  readonly path: Path;
  readonly message: string;
}

/** Everything that would fail midway, found before the first change. `removals` are those that pruning would make. */
export function faultsOf(facts: Facts, removals: readonly PlannedChange[]): PlanFault[] {
  return [
    ...facts.keys.flatMap((pair) => keyFaults(pair, facts)),
    ...secondBudgets(facts.budgets),
    ...facts.budgets.flatMap((pair, index) => budgetFaults(pair, ["budgets", index, "scope"], facts)),
    ...removals.flatMap(({ wish }) => (wish.action === "teams.delete" ? teamInUse(wish.name, facts) : [])),
  ];
}

function keyFaults({ name, stated, expiresAt, there }: KeyPair, { file, now }: Facts): PlanFault[] {
  const path = ["keys", name];
  if (there !== undefined && there.revokedAt !== null) {
    return [
      {
        path,
        message: `the key ${name} was revoked at ${isoTime(there.revokedAt)} for good; write another name, or take it out`,
      },
    ];
  }
  const faults = stated?.team == null ? [] : missingTeam(file, stated.team, [...path, "team"]);
  // An expiry that stays may be over.
  if (expiresAt === null || expiresAt === there?.expiresAt) return faults;
  const message = expiryFault(expiresAt - now);
  return message === null ? faults : [...faults, { path: [...path, "expires"], message }];
}

function expiryFault(lifetimeMs: number): string | null {
  if (lifetimeMs > lifetimeMsMax) return '"expires": write a time within 100 years, or null for never';
  return lifetimeMs > 0
    ? null
    : '"expires" is over already; write a time to come, or take the key out and --prune to revoke it';
}

/** A file that lists teams lists all of them: one that is not there is a slip of the pen. */
function missingTeam({ teams }: ApplyFile, team: string, path: Path): PlanFault[] {
  if (teams === undefined || Object.hasOwn(teams, team)) return [];
  return [{ path, message: `there is no team ${team} under "teams"; write one that is, or add it` }];
}

function secondBudgets(budgets: readonly BudgetPair[]): PlanFault[] {
  const seen = new Set<string>();
  return budgets.flatMap(({ object, stated }, index) => {
    if (!seen.has(object)) {
      seen.add(object);
      return [];
    }
    return [
      { path: ["budgets", index], message: `a second budget for ${stated.scope} per ${stated.per}; keep one of them` },
    ];
  });
}

function budgetFaults({ scope }: BudgetPair, path: Path, { file, keyNamed }: Facts): PlanFault[] {
  const team = teamOfScope(scope);
  if (team !== null) return missingTeam(file, team, path);
  if (scope.kind !== "key") return [];
  if (file.keys !== undefined) {
    if (Object.hasOwn(file.keys, scope.key)) return [];
    return [{ path, message: `there is no key ${scope.key} under "keys"; write one that is, or add it` }];
  }
  if (keyNamed(scope.key)?.revokedAt === null) return [];
  return [{ path, message: `there is no live key ${scope.key}; write one that is, or make it first` }];
}

/** A team that pruning would delete while something that the file leaves alone names it. */
function teamInUse(name: string, { file, present, now, objectOf }: Facts): PlanFault[] {
  const key =
    file.keys === undefined ? present.keys.find((each) => each.team === name && isLive(each, now)) : undefined;
  const budget =
    file.budgets === undefined ? present.budgets.find(({ scope }) => teamOfScope(scope) === name) : undefined;
  const user = key === undefined ? budget && objectOf(budget) : keyObject(key);
  if (user === undefined) return [];
  const message = `team:${name} would be deleted, but ${user} names it, and the file leaves that alone; list the team, or what names it too`;
  return [{ path: ["teams"], message }];
}
