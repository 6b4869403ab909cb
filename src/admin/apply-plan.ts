import { budgetObject, keyObject } from "../core/audit.ts";
import { type Budget, type Period } from "../core/budget.ts";
import { formatScope, parseScope, teamOfScope, type Scope, everyRequest, keyOfScope, withKey } from "../core/scope.ts";
import { isoTime, isoTimeOrNull } from "../core/time.ts";
import { isLive, type Key, type Team, type Values, type ValuesChange } from "../core/keys.ts";
import { changedRateLimits, noRateLimits } from "../core/rate-limits.ts";
import { formatUsd, noMoney, parseUsd } from "../core/money.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Path } from "../ports/yaml.ts";
import type { StoredUser } from "../wire/headers.ts";
import type { ApplyFile, StatedBudget, StatedKey, StatedTeam } from "./apply-file.ts";
import type { NewBudget } from "./budget-changes.ts";
import { scopeAsStored, sharedFault, usersFault } from "./scopes.ts";
import { lifetimeMsMax, type KeyUpdate, type NewKey } from "./key-changes.ts";
import type { NewTeam, TeamUpdate } from "./team-changes.ts";

/** Teams, keys and budgets before the file is applied. */
export interface CurrentState {
  readonly teams: readonly Team[];
  readonly keys: readonly Key[];
  readonly budgets: readonly Budget[];
}

/** Call of the use case that makes a change. `action` is the name of the change in the audit. */
export type UseCaseCall =
  | { readonly action: "teams.create"; readonly input: NewTeam }
  | { readonly action: "teams.update"; readonly name: string; readonly input: TeamUpdate }
  | { readonly action: "teams.remove"; readonly name: string }
  | { readonly action: "keys.create"; readonly input: NewKey }
  | { readonly action: "keys.update"; readonly name: string; readonly input: KeyUpdate }
  | { readonly action: "keys.revoke"; readonly name: string }
  | { readonly action: "budgets.set"; readonly input: NewBudget }
  | { readonly action: "budgets.remove"; readonly scope: string; readonly period: string };

/** Change that a plan contains. `object` is the name of the changed object in the audit. */
export interface PlannedChange {
  readonly object: string;
  /** True if the change creates the object. */
  readonly isNew: boolean;
  /** Fields that change. For a new object, these are the fields that differ from their defaults. Empty for a removal. */
  readonly fields: readonly FieldChange[];
  readonly call: UseCaseCall;
}

interface FieldChange {
  readonly field: string;
  readonly before: FieldValue;
  readonly after: FieldValue;
}

type FieldValue = string | number | readonly string[] | null;

export interface Plan {
  /** Changes in the order in which they must be made. */
  readonly changes: readonly PlannedChange[];
  /** Removals that are not made, because pruning was not requested. */
  readonly kept: readonly PlannedChange[];
}

type Planning =
  | { readonly ok: true; readonly plan: Plan }
  | { readonly ok: false; readonly faults: readonly PlanFault[] };

interface PlanParams {
  readonly file: ApplyFile;
  readonly current: CurrentState;
  readonly prune: boolean;
  /** Time of all changes, in milliseconds since 1970 UTC. */
  readonly now: number;
  /** Finds the start of a date that `expires` names. */
  readonly calendar: Calendar;
  /** Function that returns the stored form of a user's name; null if users are not stored. */
  readonly storedUser: StoredUser | null;
}

/**
 * Plans the changes that make teams, keys and budgets match the file. Objects of a section that the file does not have
 * stay as they are.
 */
export function planOf(params: PlanParams): Planning {
  const comparison = compare(params);
  const removals = removalChanges(comparison);
  const faults = faultsOf(comparison, params.prune ? removals : []);
  if (faults.length > 0) return { ok: false, faults };
  const wanted = wantedChanges(comparison);
  return {
    ok: true,
    plan: params.prune ? { changes: [...wanted, ...removals], kept: [] } : { changes: wanted, kept: removals },
  };
}

/**
 * Objects of the file, each paired with the stored object of the same name. `stated` is null for a name without
 * settings. `stored` is undefined for a new object.
 */
interface Comparison {
  readonly file: ApplyFile;
  readonly current: CurrentState;
  readonly now: number;
  readonly storedUser: StoredUser | null;
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
  readonly stored: Team | undefined;
}

interface KeyPair {
  readonly name: string;
  readonly stated: StatedKey | null;
  readonly expiresAt: number | null;
  readonly stored: Key | undefined;
}

interface BudgetPair {
  readonly stated: StatedBudget;
  readonly object: string;
  /** Scope of the budget. It contains a key's name instead of its id, because a new key has no id yet. */
  readonly scope: Scope;
  readonly stored: Budget | undefined;
}

function compare({ file, current, now, calendar, storedUser }: PlanParams): Comparison {
  const keysByName = new Map(current.keys.map((key) => [key.name, key]));
  const namesById = new Map(current.keys.map((key) => [key.id, key.name]));
  const teamsByName = new Map(current.teams.map((team) => [team.name, team]));
  const nameOf = (nameOrId: string) => namesById.get(nameOrId) ?? nameOrId;
  const objectOf = (budget: { readonly scope: Scope; readonly period: Period }) => budgetObject(budget, nameOf);
  const budgetsByObject = new Map(current.budgets.map((budget) => [objectOf(budget), budget]));
  /** Converts an expiry to milliseconds. A date means the start of that day in the time zone. */
  const expiryOf = (expires: string) => (expires.includes("T") ? Date.parse(expires) : calendar.startOfDate(expires));
  return {
    file,
    current,
    now,
    storedUser,
    objectOf,
    keyNamed: (name) => keysByName.get(name),
    teams: Object.entries(file.teams ?? {}).map(([name, stated]) => ({ name, stated, stored: teamsByName.get(name) })),
    keys: Object.entries(file.keys ?? {}).map(([name, stated]) => {
      const expiresAt = stated?.expires == null ? null : expiryOf(stated.expires);
      return { name, stated, expiresAt, stored: keysByName.get(name) };
    }),
    budgets: (file.budgets ?? []).map((stated) => {
      const scope = scopeAsStored(statedScope(stated, nameOf), storedUser);
      const object = objectOf({ scope, period: stated.per });
      return { stated, scope, object, stored: budgetsByObject.get(object) };
    }),
  };
}

function statedScope({ scope: text }: StatedBudget, nameOf: (nameOrId: string) => string): Scope {
  const scope = parseScope(text) ?? everyRequest;
  const key = keyOfScope(scope);
  return key === null ? scope : withKey(scope, nameOf(key));
}

/** Reason why a part of the file cannot be applied. */
interface PlanFault {
  readonly path: Path;
  readonly message: string;
}

/** Returns the reasons why a change would fail. `removals` are the removals that the plan contains. */
function faultsOf(comparison: Comparison, removals: readonly PlannedChange[]): PlanFault[] {
  return [
    ...comparison.keys.flatMap((pair) => keyFaults(pair, comparison)),
    ...duplicateBudgets(comparison.budgets),
    ...comparison.budgets.flatMap((pair, index) => budgetFaults(pair, ["budgets", index, "scope"], comparison)),
    ...removals.flatMap(({ call }) => (call.action === "teams.remove" ? teamInUse(call.name, comparison) : [])),
  ];
}

function keyFaults({ name, stated, expiresAt, stored }: KeyPair, { file, now }: Comparison): PlanFault[] {
  const path = ["keys", name];
  if (stored !== undefined && stored.revokedAt !== null) {
    return [
      {
        path,
        message: `the key ${name} was revoked permanently at ${isoTime(stored.revokedAt)}; use another name, or remove the key from the file`,
      },
    ];
  }
  const faults = stated?.team == null ? [] : missingTeam(file, stated.team, [...path, "team"]);
  // An expiry that does not change may be in the past.
  if (expiresAt === null || expiresAt === stored?.expiresAt) return faults;
  const message = expiryFault(expiresAt - now);
  return message === null ? faults : [...faults, { path: [...path, "expires"], message }];
}

function expiryFault(lifetimeMs: number): string | null {
  if (lifetimeMs > lifetimeMsMax)
    return '"expires" is more than 100 years away; write an earlier time, or null for never';
  return lifetimeMs > 0
    ? null
    : '"expires" is in the past; write a future time, or remove the key and use --prune to revoke it';
}

/** Reports a team that is missing under "teams". A file that lists teams must list all teams. */
function missingTeam({ teams }: ApplyFile, team: string, path: Path): PlanFault[] {
  if (teams === undefined || Object.hasOwn(teams, team)) return [];
  return [{ path, message: `there is no team ${team} under "teams"; add it there, or name a listed team` }];
}

function duplicateBudgets(budgets: readonly BudgetPair[]): PlanFault[] {
  const seen = new Set<string>();
  return budgets.flatMap(({ object, stated }, index) => {
    if (!seen.has(object)) {
      seen.add(object);
      return [];
    }
    return [
      {
        path: ["budgets", index],
        message: `there is a second budget for ${stated.scope} per ${stated.per}; keep one of them`,
      },
    ];
  });
}

function budgetFaults(
  { scope, stated }: BudgetPair,
  path: Path,
  { file, keyNamed, storedUser }: Comparison,
): PlanFault[] {
  const usersProblem = usersFault(scope, storedUser);
  if (usersProblem !== null) return [{ path, message: `"scope": ${usersProblem}` }];
  const shared = sharedFault(scope, { mode: stated.mode ?? "hard", shared: stated.shared ?? false });
  if (shared !== null) return [{ path, message: `"scope": ${shared}` }];
  const team = teamOfScope(scope);
  const missing = team === null ? [] : missingTeam(file, team, path);
  const key = keyOfScope(scope);
  if (key === null || missing.length > 0) return missing;
  if (file.keys !== undefined) {
    if (Object.hasOwn(file.keys, key)) return [];
    return [{ path, message: `there is no key ${key} under "keys"; add it there, or name a listed key` }];
  }
  if (keyNamed(key)?.revokedAt === null) return [];
  return [{ path, message: `there is no live key ${key}; write the name of a live key, or create this one first` }];
}

/**
 * Reports a team that pruning would remove although a key or budget uses it. Only keys and budgets whose section the
 * file lacks can use such a team.
 */
function teamInUse(name: string, { file, current, now, objectOf }: Comparison): PlanFault[] {
  const key =
    file.keys === undefined ? current.keys.find((each) => each.team === name && isLive(each, now)) : undefined;
  const budget =
    file.budgets === undefined ? current.budgets.find(({ scope }) => teamOfScope(scope) === name) : undefined;
  const dependent = key === undefined ? budget && objectOf(budget) : keyObject(key);
  if (dependent === undefined) return [];
  const section = key === undefined ? "budgets" : "keys";
  const message = `team:${name} would be removed, but ${dependent} uses it, and the file has no "${section}" section; list the team, or add the section`;
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
function removalChanges({ file, current, budgets, objectOf }: Comparison): PlannedChange[] {
  const { keys, teams } = file;
  const stated = new Set(budgets.map(({ object }) => object));
  const oldBudgets =
    file.budgets === undefined ? [] : current.budgets.filter((budget) => !stated.has(objectOf(budget)));
  const oldKeys =
    keys === undefined ? [] : current.keys.filter((key) => key.revokedAt === null && !Object.hasOwn(keys, key.name));
  const oldTeams = teams === undefined ? [] : current.teams.filter(({ name }) => !Object.hasOwn(teams, name));
  return [
    ...oldBudgets.map((budget) =>
      removalOf(objectOf(budget), {
        action: "budgets.remove",
        scope: formatScope(budget.scope),
        period: budget.period,
      }),
    ),
    ...oldKeys.map((key) => removalOf(keyObject(key), { action: "keys.revoke", name: key.name })),
    ...oldTeams.map(({ name }) => removalOf(`team:${name}`, { action: "teams.remove", name })),
  ];
}

function teamChange({ name, stated, stored }: TeamPair): PlannedChange[] {
  const input = statedFields(stated);
  return changeOf(`team:${name}`, stored && sharedFields(stored), sharedFields(input), (isNew) =>
    isNew ? { action: "teams.create", input: { name, ...input } } : { action: "teams.update", name, input },
  );
}

function keyChange({ name, stated, expiresAt, stored }: KeyPair, now: number): PlannedChange[] {
  const values = { labels: stated?.labels ?? {}, tags: stated?.tags ?? {} };
  const fields = {
    team: stated?.team ?? null,
    ...statedFields(stated),
    user: stated?.user ?? null,
    requires: [...new Set(stated?.requires)].sort(),
  };
  const input = {
    ...fields,
    labels: replacing(stored?.labels, values.labels),
    tags: replacing(stored?.tags, values.tags),
  };
  const lifetimeMs = expiresAt === null ? null : expiresAt - now;
  // An unchanged expiry is not sent: it may be in the past and would be rejected.
  const expiry = expiresAt === stored?.expiresAt ? {} : { lifetimeMs };
  return changeOf(
    keyObject({ name }),
    stored && keyFields(stored),
    keyFields({ ...fields, ...values, expiresAt }),
    (isNew) =>
      isNew
        ? { action: "keys.create", input: { name, ...input, lifetimeMs } }
        : { action: "keys.update", name, input: { ...input, ...expiry } },
  );
}

/** Returns the change that sets the values of `after` and removes all other values of `before`. */
function replacing(before: Values | undefined, after: Values): ValuesChange {
  return { ...Object.fromEntries(Object.keys(before ?? {}).map((name) => [name, null])), ...after };
}

/** Returns the models, limits, output cap and policy for hosted tools that the file states for a team or a key; missing ones get defaults. */
function statedFields(stated: StatedTeam | StatedKey | null) {
  const limits = changedRateLimits(noRateLimits, stated?.limits);
  return {
    models: stated?.models ?? null,
    limits,
    outputCap: stated?.output_cap ?? null,
    hostedTools: stated?.hosted_tools ?? null,
  };
}

type SharedFields = Pick<Team, "models" | "limits" | "outputCap" | "hostedTools">;

function sharedFields({ models, limits, outputCap, hostedTools }: SharedFields): Fields {
  return { models, ...limits, output_cap: outputCap, hosted_tools: hostedTools };
}

function keyFields(
  key: SharedFields & Pick<Key, "team" | "expiresAt" | "labels" | "tags" | "user" | "requires">,
): Fields {
  const { models, ...shared } = sharedFields(key);
  const [expires, labels, tags] = [isoTimeOrNull(key.expiresAt), pairsOrNull(key.labels), pairsOrNull(key.tags)];
  const requires = key.requires.length === 0 ? null : key.requires;
  return {
    team: key.team,
    models: models ?? null,
    expires_at: expires,
    ...shared,
    labels,
    tags,
    user: key.user,
    requires,
  };
}

/** Returns values as a sorted list of `name=value`; null if there are none. */
function pairsOrNull(values: Values): readonly string[] | null {
  const pairs = Object.entries(values).map(([name, value]) => `${name}=${value}`);
  return pairs.length === 0 ? null : pairs.sort();
}

function budgetChange({ stated, scope, object, stored }: BudgetPair): PlannedChange[] {
  const mode = stated.mode ?? "hard";
  const warnPercent = stated.warn == null ? null : Number(stated.warn.slice(0, -1));
  const { per: period, limit, shared = false } = stated;
  const input: NewBudget = { scope: formatScope(scope), period, limit, mode, warnPercent, shared };
  const after = budgetFields({ limit: parseUsd(stated.limit) ?? noMoney, mode, warnPercent });
  return changeOf(object, stored && budgetFields(stored), after, () => ({ action: "budgets.set", input }));
}

function budgetFields({ limit, mode, warnPercent }: Pick<Budget, "limit" | "mode" | "warnPercent">): Fields {
  return { limit_usd: formatUsd(limit), mode, warn_percent: warnPercent };
}

type Fields = Readonly<Record<string, FieldValue>>;

/**
 * Returns a list with the change of an object. The list is empty if no field of a stored object changes. `before` is
 * undefined for a new object.
 */
function changeOf(
  object: string,
  before: Fields | undefined,
  after: Fields,
  callOf: (isNew: boolean) => UseCaseCall,
): PlannedChange[] {
  const isNew = before === undefined;
  const fields = Object.entries(after).flatMap(([field, value]) => {
    const old = before?.[field] ?? null;
    return JSON.stringify(old) === JSON.stringify(value) ? [] : [{ field, before: old, after: value }];
  });
  return fields.length === 0 && !isNew ? [] : [{ object, isNew, fields, call: callOf(isNew) }];
}

function removalOf(object: string, call: UseCaseCall): PlannedChange {
  return { object, isNew: false, fields: [], call };
}
