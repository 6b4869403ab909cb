import { z } from "zod";
import {
  formatScope,
  isOfSession,
  parseScope,
  periods,
  teamOfScope,
  appliesTo,
  type Budget,
  type BudgetWindow,
  type Scope,
} from "../core/budget.ts";
import { nearest } from "../core/fault.ts";
import { isLive, namePattern } from "../core/keys.ts";
import { noMoney, parseUsd } from "../core/money.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { BudgetStore } from "../ports/ledger.ts";
import { showKey } from "./keys.ts";
import { failure, parseInput, type Failure } from "./result.ts";

export interface BudgetTools {
  readonly ledger: BudgetStore;
  readonly keys: KeyStore;
  readonly clock: Clock;
}

/** Tools for changing budgets. */
export interface BudgetChangeTools extends BudgetTools {
  /** Author of the change, for the audit. */
  readonly by: string;
}

const periodSchema = z.enum(periods, `must be one of ${periods.join(", ")}`);

const share = "must be a whole number of percent from 1 to 100";

const budgetSchema = z.strictObject({
  /** `all`, `team:NAME`, `key:NAME or ID`, `each-key`, `each-key:TEAM`. */
  scope: z.string(),
  period: periodSchema,
  mode: z.enum(["hard", "soft"]).default("hard"),
  /** USD as a decimal string. */
  limit: z.string().transform((text, context) => {
    const amount = parseUsd(text);
    if (amount !== undefined) return amount;
    context.addIssue("must be an amount of USD such as 5 or 2.50, below 9 million");
    return z.NEVER;
  }),
  /** Percent of the limit. */
  warnPercent: z.int(share).min(1, share).max(100, share).nullable().default(null),
});

export type NewBudget = z.input<typeof budgetSchema>;

export type BudgetSet = {
  readonly ok: true;
  readonly budget: Budget;
  /** Hint at a likely mistake; null if there is none. */
  readonly note: string | null;
};

/** Returns the fault of a new budget that can be found without reading the store; null if there is none. */
export function newBudgetFault(input: NewBudget): Failure | null {
  const parsed = parseInput(budgetSchema, input);
  if (!parsed.ok) return parsed;
  const read = readScope(input.scope);
  return read.ok ? null : read;
}

/** Adds a budget, or changes the existing budget with the same scope and period. */
export async function setBudget(tools: BudgetChangeTools, input: NewBudget): Promise<BudgetSet | Failure> {
  const parsed = parseInput(budgetSchema, input);
  if (!parsed.ok) return parsed;
  const { scope: scopeText, ...rest } = parsed.value;
  const resolved = await resolveScope(scopeText, tools.keys);
  if (!resolved.ok) return resolved;
  const budget = await tools.ledger.setBudget({ scope: resolved.scope, ...rest }, tools.clock.now(), tools.by);
  return { ok: true, budget, note: await noteOn(resolved.scope, tools.keys) };
}

/** Lists every budget's present window. An `each-key` budget has a window for each key that it applies to. */
export async function listBudgets(
  tools: BudgetTools & { readonly calendar: Calendar },
): Promise<readonly BudgetWindow[]> {
  const at = tools.clock.now();
  const [budgets, windows, keys] = await Promise.all([
    tools.ledger.budgets(),
    tools.ledger.windows(at),
    tools.keys.list(),
  ]);
  const live = keys.filter((key) => isLive(key, at));
  const windowsOf = Map.groupBy(windows, ({ budget }) => budget.id);
  return budgets.flatMap((budget) => {
    const used = windowsOf.get(budget.id) ?? [];
    if (budget.scope.kind !== "eachKey") return used;
    const subjects = new Set(used.map(({ subject }) => subject));
    const unused = live.filter(({ id, team }) => appliesTo(budget.scope, { key: id, team }) && !subjects.has(id));
    const span = tools.calendar.spanOf(budget.period, at);
    return [...used, ...unused.map(({ id }) => ({ budget, subject: id, ...span, spent: noMoney, held: noMoney }))];
  });
}

export async function removeBudget(
  tools: BudgetChangeTools,
  input: { readonly scope: string; readonly period: string },
): Promise<{ readonly ok: true } | Failure> {
  const period = parseInput(z.strictObject({ period: periodSchema }), { period: input.period });
  if (!period.ok) return period;
  const resolved = await resolveScope(input.scope, tools.keys);
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

const scopeForms = "scope must be all, key:NAME, team:NAME, each-key or each-key:TEAM";

type ScopeResult = { readonly ok: true; readonly scope: Scope } | Failure;

function readScope(text: string): ScopeResult {
  const scope = parseScope(text);
  if (scope === undefined) return failure("invalid", `${scopeForms}${meantScope(text)}`);
  if (isOfSession(scope))
    return failure("invalid", "the budget of a session is set by farebox run --budget, and goes after the session");
  const team = teamOfScope(scope);
  if (team !== null && !namePattern.test(team))
    return failure("invalid", `${JSON.stringify(team)} is not the name of a team`);
  return { ok: true, scope };
}

/** Suggests a scope for an invalid text: a key or a team for "alice", `key:alice` for "keys:alice". */
function meantScope(text: string): string {
  const [near] = nearest(text, ["all", "each-key"]);
  const [, kind = "", name = ""] = /^([^:]*):(.+)$/.exec(text) ?? [];
  const [nearKind] = nearest(kind, ["key", "team", "each-key"]);
  if (near !== undefined) return `; did you mean ${near}?`;
  if (nearKind !== undefined) return `; did you mean ${nearKind}:${name}?`;
  return namePattern.test(text) ? `; did you mean key:${text} or team:${text}?` : "";
}

/** Reads a scope as people write it. A key may be given by name or id; the scope returned contains its id. */
async function resolveScope(text: string, keys: KeyStore): Promise<ScopeResult> {
  const read = readScope(text);
  if (!read.ok || read.scope.kind !== "key") return read;
  const found = await showKey(keys, read.scope.key);
  return found.ok ? { ok: true, scope: { kind: "key", key: found.key.id } } : found;
}

async function noteOn(scope: Scope, keys: KeyStore): Promise<string | null> {
  const team = teamOfScope(scope);
  if (team === null || (await keys.list()).some((key) => key.team === team)) return null;
  return `no key belongs to team ${team} yet`;
}
