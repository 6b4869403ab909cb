import { keyObject } from "../core/audit.ts";
import { formatScope } from "../core/budget.ts";
import { isoTimeOrNull } from "../core/iso-time.ts";
import { changedLimits, noLimits, type Limits } from "../core/limits.ts";
import { formatUsd, noMoney, parseUsd } from "../core/money.ts";
import type { BudgetPair, Facts, KeyPair, TeamPair } from "./apply-facts.ts";
import type { StatedKey, StatedTeam } from "./apply-file.ts";
import type { FieldValue, PlannedChange, Wish } from "./apply-plan.ts";
import type { NewBudget } from "./budgets.ts";

/** What makes everything that is stated so: teams before the keys in them, keys before the budgets on them. */
export function wantedChanges(facts: Facts): PlannedChange[] {
  return [
    ...facts.teams.flatMap(teamChange),
    ...facts.keys.flatMap((pair) => keyChange(pair, facts.now)),
    ...facts.budgets.flatMap(budgetChange),
  ];
}

/** What takes away all that is there and not stated, in the order in which nothing is in the way. */
export function surplus({ file, present, budgets, objectOf }: Facts): PlannedChange[] {
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
  const models = stated?.models ?? null;
  const limits = limitsIn(stated);
  const outputCap = stated?.output_cap ?? null;
  const object = `team:${name}`;
  const input = { models, limits, outputCap };
  const after = { models, ...limits, output_cap: outputCap };
  if (there === undefined) return [created(object, after, { action: "teams.create", input: { name, ...input } })];
  const before = { models: there.models, ...there.limits, output_cap: there.outputCap };
  return updated(object, before, after, { action: "teams.update", name, input });
}

function keyChange({ name, stated, expiresAt, there }: KeyPair, now: number): PlannedChange[] {
  const wish = {
    team: stated?.team ?? null,
    models: stated?.models ?? null,
    limits: limitsIn(stated),
    outputCap: stated?.output_cap ?? null,
  };
  const lifetimeMs = expiresAt === null ? null : expiresAt - now;
  const object = keyObject({ name });
  const after = {
    team: wish.team,
    models: wish.models,
    expires_at: isoTimeOrNull(expiresAt),
    ...wish.limits,
    output_cap: wish.outputCap,
  };
  if (there === undefined)
    return [created(object, after, { action: "keys.create", input: { name, ...wish, lifetimeMs } })];
  const before = {
    team: there.team,
    models: there.models,
    expires_at: isoTimeOrNull(there.expiresAt),
    ...there.limits,
    output_cap: there.outputCap,
  };
  // An expiry that stays is not asked for: it may be over.
  const expiry = expiresAt === there.expiresAt ? {} : { lifetimeMs };
  return updated(object, before, after, { action: "keys.update", name, input: { ...wish, ...expiry } });
}

function budgetChange({ stated, scope, object, there }: BudgetPair): PlannedChange[] {
  const mode = stated.mode ?? "hard";
  const warnPercent = stated.warn == null ? null : Number(stated.warn.slice(0, -1));
  const input: NewBudget = { scope: formatScope(scope), period: stated.per, limit: stated.limit, mode, warnPercent };
  const after = { limit_usd: formatUsd(parseUsd(stated.limit) ?? noMoney), mode, warn_percent: warnPercent };
  if (there === undefined) return [created(object, after, { action: "budgets.set", input })];
  const before = { limit_usd: formatUsd(there.limit), mode: there.mode, warn_percent: there.warnPercent };
  return updated(object, before, after, { action: "budgets.set", input });
}

function limitsIn(stated: StatedTeam | StatedKey | null): Limits {
  return changedLimits(noLimits, stated?.limits);
}

type Fields = Readonly<Record<string, FieldValue>>;

function created(object: string, after: Fields, wish: Wish): PlannedChange {
  const fields = Object.entries(after).flatMap(([field, value]) =>
    value === null ? [] : [{ field, before: null, after: value }],
  );
  return { object, isNew: true, fields, wish };
}

function updated(object: string, before: Fields, after: Fields, wish: Wish): PlannedChange[] {
  const fields = Object.entries(after).flatMap(([field, value]) => {
    const old = before[field] ?? null;
    return JSON.stringify(old) === JSON.stringify(value) ? [] : [{ field, before: old, after: value }];
  });
  return fields.length === 0 ? [] : [{ object, isNew: false, fields, wish }];
}

function gone(object: string, wish: Wish): PlannedChange {
  return { object, isNew: false, fields: [], wish };
}
