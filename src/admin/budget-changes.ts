import { z } from "zod";
import { noRaises, type Budget, type BudgetWindow } from "../core/budget.ts";
import {
  formatScope,
  teamOfScope,
  appliesTo,
  type Scope,
  isEachKey,
  keyOfScope,
  modelOfScope,
  withKey,
} from "../core/scope.ts";
import { nearest } from "../core/fault.ts";
import { isLive, matchesPattern } from "../core/keys.ts";
import { noMoney } from "../core/money.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { KeyStore } from "../ports/stores.ts";
import type { BudgetStore } from "../ports/ledger.ts";
import type { StoredUser } from "../wire/headers.ts";
import { periodSchema, usdSchema, warnPercentSchema } from "./fields.ts";
import { showKey } from "./key-changes.ts";
import { failure, parseInput, type Failure } from "./result.ts";
import { readBudgetScope, scopeAsStored, sharedFault, usersFault, type BudgetScopeResult } from "./scopes.ts";

interface BudgetTools {
  readonly ledger: BudgetStore;
  readonly keys: KeyStore;
  readonly clock: Clock;
  /** Function that returns the stored form of a user's name; null if users are not stored. Default: `plainUser`. */
  readonly storedUser?: StoredUser | null;
}

/** Tools for changing budgets. */
export interface BudgetChangeTools extends BudgetTools {
  /** Author of the change, for the audit. */
  readonly by: string;
  /**
   * Returns the prices; null if a price file has a fault. Without this function, a budget on an unknown model has no note.
   */
  readonly catalogueInForce?: () => Promise<Pick<Catalogue, "list" | "named"> | null>;
}

const budgetSchema = z.strictObject({
  /** Scope as `readBudgetScope` reads it, with a key's name or id. */
  scope: z.string(),
  period: periodSchema,
  mode: z.enum(["hard", "soft"], "must be hard or soft").default("hard"),
  /** USD as a decimal string. */
  limit: usdSchema("such as 5 or 2.50, below 9 million"),
  /** Percent of the limit. */
  warnPercent: warnPercentSchema,
  /** True permits a hard budget that any key can use up; see `sharedFault`. */
  shared: z.boolean().default(false),
});

export type NewBudget = z.input<typeof budgetSchema>;

type BudgetSet = {
  readonly ok: true;
  readonly budget: Budget;
  /** Hint at a likely mistake; null if there is none. */
  readonly note: string | null;
};

/** Checks a new budget without reading the store. Returns the first fault; null if there is none. */
export function newBudgetFault(input: NewBudget): Failure | null {
  const parsed = parseInput(budgetSchema, input);
  if (!parsed.ok) return parsed;
  const read = readBudgetScope(input.scope);
  return read.ok ? sharedFailure(read.scope, parsed.value) : read;
}

/** Adds a budget, or changes the existing budget with the same scope and period. */
export async function setBudget(tools: BudgetChangeTools, input: NewBudget): Promise<BudgetSet | Failure> {
  const parsed = parseInput(budgetSchema, input);
  if (!parsed.ok) return parsed;
  const { scope: scopeText, shared, ...rest } = parsed.value;
  const resolved = await resolveScope(scopeText, tools);
  if (!resolved.ok) return resolved;
  const { scope } = resolved;
  const usersProblem = usersFault(scope, tools.storedUser);
  if (usersProblem !== null) return failure("refused", usersProblem, "scope");
  const fault = sharedFailure(scope, { ...rest, shared });
  if (fault !== null) return fault;
  const budget = await tools.ledger.setBudget({ scope, ...rest }, tools.clock.now(), tools.by);
  return { ok: true, budget, note: await hintFor(scope, tools) };
}

function sharedFailure(scope: Scope, budget: Parameters<typeof sharedFault>[1]): Failure | null {
  const fault = sharedFault(scope, budget);
  return fault === null ? null : failure("invalid", fault, "scope");
}

/** Window in a list. A budget that has no window yet has a single row, with `isOpen` false. */
interface ListedWindow extends BudgetWindow {
  readonly isOpen: boolean;
}

/**
 * Lists the current windows of all budgets. An `each-key` budget includes an empty window for each of its live keys
 * that has no window yet.
 */
export async function listBudgets(
  tools: BudgetTools & { readonly calendar: Calendar },
): Promise<readonly ListedWindow[]> {
  const at = tools.clock.now();
  const [budgets, windows, keys] = await Promise.all([
    tools.ledger.budgets(),
    tools.ledger.windows(at),
    tools.keys.list(),
  ]);
  const live = keys.filter((key) => isLive(key, at));
  const windowsOf = Map.groupBy(windows, ({ budget }) => budget.id);
  return budgets.flatMap((budget): readonly ListedWindow[] => {
    const existing = windowsOf.get(budget.id) ?? [];
    const subjects = new Set(existing.map(({ subject }) => subject));
    const idleKeys = isEachKey(budget.scope)
      ? live.filter(({ id, team }) => appliesTo(budget.scope, { key: id, team }) && !subjects.has(id))
      : [];
    const span = tools.calendar.spanOf(budget.period, at);
    const empty = { budget, ...span, spent: noMoney, held: noMoney, raises: noRaises };
    const rows = [...existing, ...idleKeys.map(({ id }) => ({ ...empty, subject: id }))];
    if (rows.length === 0) return [{ ...empty, subject: "", isOpen: false }];
    return rows.map((window) => ({ ...window, isOpen: true }));
  });
}

export async function removeBudget(
  tools: BudgetChangeTools,
  input: { readonly scope: string; readonly period: string },
): Promise<{ readonly ok: true } | Failure> {
  const period = parseInput(z.strictObject({ period: periodSchema }), { period: input.period });
  if (!period.ok) return period;
  const resolved = await resolveScope(input.scope, tools);
  if (!resolved.ok) return resolved;
  const removed = await tools.ledger.removeBudget(
    formatScope(resolved.scope),
    input.period,
    tools.clock.now(),
    tools.by,
  );
  if (!removed) return failure("not_found", `there is no budget for ${input.scope} per ${input.period}`);
  return { ok: true };
}

type ScopeTools = Pick<BudgetTools, "keys" | "storedUser">;

/**
 * Reads a scope as people write it. The text names a key by name or id, and a user by name. The returned scope contains
 * the key's id and the stored form of the user.
 */
export async function resolveScope(text: string, { keys, storedUser }: ScopeTools): Promise<BudgetScopeResult> {
  const read = readBudgetScope(text);
  if (!read.ok) return read;
  const scope = scopeAsStored(read.scope, storedUser);
  const key = keyOfScope(scope);
  if (key === null) return { ok: true, scope };
  const found = await showKey(keys, key);
  return found.ok ? { ok: true, scope: withKey(scope, found.key.id) } : found;
}

/** Reads the scope of a filter. The returned `scope` is undefined if there is no text. */
export async function scopeFilter(
  text: string | undefined,
  tools: ScopeTools,
): Promise<{ readonly ok: true; readonly scope: Scope | undefined } | Failure> {
  return text === undefined ? { ok: true, scope: undefined } : resolveScope(text, tools);
}

async function hintFor(
  scope: Scope,
  { keys, catalogueInForce, clock }: Pick<BudgetChangeTools, "keys" | "catalogueInForce" | "clock">,
): Promise<string | null> {
  const team = teamOfScope(scope);
  const pattern = modelOfScope(scope);
  if (team !== null) {
    const teams = [...new Set((await keys.list()).map((key) => key.team))].filter((name) => name !== null);
    const [near] = nearest(team, teams);
    if (!teams.includes(team))
      return `no key belongs to team ${team} yet${near === undefined ? "" : `; did you mean ${near}?`}`;
  }
  if (pattern === null || catalogueInForce === undefined) return null;
  const now = clock.now();
  const catalogue = await catalogueInForce();
  const known = catalogue?.list(now).map(({ id }) => id) ?? [];
  if (known.length === 0 || known.some((model) => matchesPattern(pattern, model))) return null;
  const near = catalogue?.named(pattern, now)?.id ?? nearest(pattern, known)[0];
  return `no model of the price files matches ${pattern}${near === undefined ? "" : `; did you mean ${near}?`}`;
}
