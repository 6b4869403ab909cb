import { budgetObject, keyObject } from "../core/audit.ts";
import { formatScope, parseScope, teamOfScope, type Budget, type Period, type Scope } from "../core/budget.ts";
import { isoTime, isoTimeOrNull } from "../core/time.ts";
import { isLive, type Key, type Team } from "../core/keys.ts";
import { changedLimits, noLimits } from "../core/limits.ts";
import { formatUsd, noMoney, parseUsd } from "../core/money.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Path } from "../ports/yaml.ts";
import type { ApplyFile, StatedBudget, StatedKey, StatedTeam } from "./apply-file.ts";
import type { NewBudget } from "./budgets.ts";
import { lifetimeMsMax, type KeyUpdate, type NewKey } from "./keys.ts";
import type { NewTeam, TeamUpdate } from "./teams.ts";

/** Teams, keys and budgets before the file is applied. */
export interface Present {
  readonly teams: readonly Team[];
  readonly keys: readonly Key[];
  readonly budgets: readonly Budget[];
}

/** Call of the use case that makes a change. `action` is its name in the audit. */
export type Desired =
  | { readonly action: "teams.create"; readonly input: NewTeam }
  | { readonly action: "teams.update"; readonly name: string; readonly input: TeamUpdate }
  | { readonly action: "teams.delete"; readonly name: string }
  | { readonly action: "keys.create"; readonly input: NewKey }
  | { readonly action: "keys.update"; readonly name: string; readonly input: KeyUpdate }
  | { readonly action: "keys.revoke"; readonly name: string }
  | { readonly action: "budgets.set"; readonly input: NewBudget }
  | { readonly action: "budgets.remove"; readonly scope: string; readonly period: string };

/** One change. `object` is its name in the audit. */
export interface PlannedChange {
  readonly object: string;
  /** True if the change creates the object. */
  readonly isNew: boolean;
  /** Fields that change. For a new object, these are the fields that differ from their defaults. Empty for a removal. */
  readonly fields: readonly FieldChange[];
  readonly desired: Desired;
}

export interface FieldChange {
  readonly field: string;
  readonly before: FieldValue;
  readonly after: FieldValue;
}

export type FieldValue = string | number | readonly string[] | null;

export interface Plan {
  /** Changes in the order in which they must be made. */
  readonly changes: readonly PlannedChange[];
  /** Removals that are skipped because pruning was not requested. */
  readonly kept: readonly PlannedChange[];
}

export type Planning =
  | { readonly ok: true; readonly plan: Plan }
  | { readonly ok: false; readonly faults: readonly PlanFault[] };

interface PlanParams {
  readonly file: ApplyFile;
  readonly present: Present;
  readonly prune: boolean;
  /** Instant of all changes, milliseconds since 1970 UTC. */
  readonly now: number;
  /** Finds the start of a day that `expires` names. */
  readonly calendar: Calendar;
}

/** Plans the changes that make teams, keys and budgets match the file. Ignores each section that the file lacks. */
export function planOf(params: PlanParams): Planning {
  const comparison = compare(params);
  const removals = surplusChanges(comparison);
  const faults = faultsOf(comparison, params.prune ? removals : []);
  if (faults.length > 0) return { ok: false, faults };
  const wanted = wantedChanges(comparison);
  return {
    ok: true,
    plan: params.prune ? { changes: [...wanted, ...removals], kept: [] } : { changes: wanted, kept: removals },
  };
}

/** The objects in the file, each paired with its stored counterpart. */
interface Comparison {
  readonly file: ApplyFile;
  readonly present: Present;
  readonly now: number;
  readonly teams: readonly TeamPair[];
  readonly keys: readonly KeyPair[];
  readonly budgets: readonly BudgetPair[];
  /** Returns the key with this name, even if it is revoked or expired. */
  keyNamed(name: string): Key | undefined;
  /** Returns the name of a budget in the audit. */
  objectOf(budget: Budget): string;
}

interface TeamPair {
  readonly name: string;
  readonly stated: StatedTeam | null;
  readonly there: Team | undefined;
}

interface KeyPair {
  readonly name: string;
  readonly stated: StatedKey | null;
  readonly expiresAt: number | null;
  readonly there: Key | undefined;
}

interface BudgetPair {
  readonly stated: StatedBudget;
  readonly object: string;
  /** Scope of the budget. It contains a key's name instead of its id, because a new key has no id yet. */
  readonly scope: Scope;
  readonly there: Budget | undefined;
}

function compare({ file, present, now, calendar }: PlanParams): Comparison {
  const keysByName = new Map(present.keys.map((key) => [key.name, key]));
  const namesById = new Map(present.keys.map((key) => [key.id, key.name]));
  const teamsByName = new Map(present.teams.map((team) => [team.name, team]));
  const nameOf = (nameOrId: string) => namesById.get(nameOrId) ?? nameOrId;
  const objectOf = (budget: { readonly scope: Scope; readonly period: Period }) => budgetObject(budget, nameOf);
  const budgetsByObject = new Map(present.budgets.map((budget) => [objectOf(budget), budget]));
  /** Converts an expiry to milliseconds. A date means the start of that day in the time zone. */
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

/** Part of the file that cannot be applied. */
export interface PlanFault {
  readonly path: Path;
  readonly message: string;
}

/** Finds, before the first change, everything that would fail later. `removals` are those that pruning would make. */
function faultsOf(comparison: Comparison, removals: readonly PlannedChange[]): PlanFault[] {
  return [
    ...comparison.keys.flatMap((pair) => keyFaults(pair, comparison)),
    ...secondBudgets(comparison.budgets),
    ...comparison.budgets.flatMap((pair, index) => budgetFaults(pair, ["budgets", index, "scope"], comparison)),
    ...removals.flatMap(({ desired }) =>
      desired.action === "teams.delete" ? teamInUse(desired.name, comparison) : [],
    ),
  ];
}

function keyFaults({ name, stated, expiresAt, there }: KeyPair, { file, now }: Comparison): PlanFault[] {
  const path = ["keys", name];
  if (there !== undefined && there.revokedAt !== null) {
    return [
      {
        path,
        message: `the key ${name} was revoked at ${isoTime(there.revokedAt)} permanently; write another name, or take it out`,
      },
    ];
  }
  const faults = stated?.team == null ? [] : missingTeam(file, stated.team, [...path, "team"]);
  // An expiry that does not change may be in the past.
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

/** Reports a team that the file's team list lacks. A file that lists teams must list all of them. */
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

function budgetFaults({ scope }: BudgetPair, path: Path, { file, keyNamed }: Comparison): PlanFault[] {
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

/** Reports a team that pruning would delete although a key or budget in a section that the file lacks still uses it. */
function teamInUse(name: string, { file, present, now, objectOf }: Comparison): PlanFault[] {
  const key =
    file.keys === undefined ? present.keys.find((each) => each.team === name && isLive(each, now)) : undefined;
  const budget =
    file.budgets === undefined ? present.budgets.find(({ scope }) => teamOfScope(scope) === name) : undefined;
  const user = key === undefined ? budget && objectOf(budget) : keyObject(key);
  if (user === undefined) return [];
  const message = `team:${name} would be deleted, but ${user} names it, and the file leaves that alone; list the team, or what names it too`;
  return [{ path: ["teams"], message }];
}

/** Returns creations and updates in the order teams, keys, budgets. */
function wantedChanges(comparison: Comparison): PlannedChange[] {
  return [
    ...comparison.teams.flatMap(teamChange),
    ...comparison.keys.flatMap((pair) => keyChange(pair, comparison.now)),
    ...comparison.budgets.flatMap(budgetChange),
  ];
}

/** Returns the removal of each object that the file's sections do not list, in the order budgets, keys, teams. */
function surplusChanges({ file, present, budgets, objectOf }: Comparison): PlannedChange[] {
  const { keys, teams } = file;
  const stated = new Set(budgets.map(({ object }) => object));
  const oldBudgets =
    file.budgets === undefined ? [] : present.budgets.filter((budget) => !stated.has(objectOf(budget)));
  const oldKeys =
    keys === undefined ? [] : present.keys.filter((key) => key.revokedAt === null && !Object.hasOwn(keys, key.name));
  const oldTeams = teams === undefined ? [] : present.teams.filter(({ name }) => !Object.hasOwn(teams, name));
  return [
    ...oldBudgets.map((budget) =>
      gone(objectOf(budget), { action: "budgets.remove", scope: formatScope(budget.scope), period: budget.period }),
    ),
    ...oldKeys.map((key) => gone(keyObject(key), { action: "keys.revoke", name: key.name })),
    ...oldTeams.map(({ name }) => gone(`team:${name}`, { action: "teams.delete", name })),
  ];
}

function teamChange({ name, stated, there }: TeamPair): PlannedChange[] {
  const input = sharedIn(stated);
  return changeOf(`team:${name}`, there && sharedFields(there), sharedFields(input), (isNew) =>
    isNew ? { action: "teams.create", input: { name, ...input } } : { action: "teams.update", name, input },
  );
}

function keyChange({ name, stated, expiresAt, there }: KeyPair, now: number): PlannedChange[] {
  const input = { team: stated?.team ?? null, ...sharedIn(stated) };
  const lifetimeMs = expiresAt === null ? null : expiresAt - now;
  // An unchanged expiry is not sent: it may be in the past and would be rejected.
  const expiry = expiresAt === there?.expiresAt ? {} : { lifetimeMs };
  return changeOf(keyObject({ name }), there && keyFields(there), keyFields({ ...input, expiresAt }), (isNew) =>
    isNew
      ? { action: "keys.create", input: { name, ...input, lifetimeMs } }
      : { action: "keys.update", name, input: { ...input, ...expiry } },
  );
}

/** Returns the fields that the file states for a team or a key, with defaults for missing fields. */
function sharedIn(stated: StatedTeam | StatedKey | null) {
  const limits = changedLimits(noLimits, stated?.limits);
  return { models: stated?.models ?? null, limits, outputCap: stated?.output_cap ?? null };
}

function sharedFields({ models, limits, outputCap }: Pick<Team, "models" | "limits" | "outputCap">): Fields {
  return { models, ...limits, output_cap: outputCap };
}

function keyFields(key: Pick<Key, "team" | "models" | "limits" | "outputCap" | "expiresAt">): Fields {
  const { models, ...shared } = sharedFields(key);
  return { team: key.team, models: models ?? null, expires_at: isoTimeOrNull(key.expiresAt), ...shared };
}

function budgetChange({ stated, scope, object, there }: BudgetPair): PlannedChange[] {
  const mode = stated.mode ?? "hard";
  const warnPercent = stated.warn == null ? null : Number(stated.warn.slice(0, -1));
  const input: NewBudget = { scope: formatScope(scope), period: stated.per, limit: stated.limit, mode, warnPercent };
  const after = budgetFields({ limit: parseUsd(stated.limit) ?? noMoney, mode, warnPercent });
  return changeOf(object, there && budgetFields(there), after, () => ({ action: "budgets.set", input }));
}

function budgetFields({ limit, mode, warnPercent }: Pick<Budget, "limit" | "mode" | "warnPercent">): Fields {
  return { limit_usd: formatUsd(limit), mode, warn_percent: warnPercent };
}

type Fields = Readonly<Record<string, FieldValue>>;

/** Returns the change of an object, or nothing if all fields stay the same. `before` is undefined for a new object. */
function changeOf(
  object: string,
  before: Fields | undefined,
  after: Fields,
  desiredOf: (isNew: boolean) => Desired,
): PlannedChange[] {
  const isNew = before === undefined;
  const fields = Object.entries(after).flatMap(([field, value]) => {
    const old = before?.[field] ?? null;
    return JSON.stringify(old) === JSON.stringify(value) ? [] : [{ field, before: old, after: value }];
  });
  return fields.length === 0 && !isNew ? [] : [{ object, isNew, fields, desired: desiredOf(isNew) }];
}

function gone(object: string, desired: Desired): PlannedChange {
  return { object, isNew: false, fields: [], desired };
}
