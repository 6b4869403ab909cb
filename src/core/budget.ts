import type { PicoUsd } from "./money.ts";
import type { HoldBasis } from "./bounds.ts";
import { isRunSession, runSessionOf, sessionTag } from "./keys.ts";

/**
 * Requests that a budget limits. `eachKey`: a default for each key separately, or for each key of the named team.
 * `session`: only the key's requests in that `farebox run` session.
 */
export type Scope =
  | { readonly kind: "all" }
  | { readonly kind: "team"; readonly team: string }
  | { readonly kind: "key"; readonly key: string; readonly session?: string }
  | { readonly kind: "eachKey"; readonly team: string | null };

/** Periods of calendar windows in the configured time zone. Weeks start on Monday. `total` never ends. */
export const periods = ["total", "1h", "1d", "1w", "1mo"] as const;
export type Period = (typeof periods)[number];

export type BudgetMode = "hard" | "soft";

export interface Budget {
  readonly id: string;
  readonly scope: Scope;
  readonly period: Period;
  readonly mode: BudgetMode;
  readonly limit: PicoUsd;
  /** Percentage of the limit at which a warning is due; null for no warning. */
  readonly warnPercent: number | null;
}

/** Half-open span of time, in milliseconds since 1970 UTC. `end` is null for `total`. */
export interface Span {
  readonly start: number;
  readonly end: number | null;
}

/** Spent and held amounts of one budget in one window. Budget, subject and start identify it. */
export interface BudgetWindow extends Span {
  readonly budget: Budget;
  /** Id of the key if each key has its own window; "" otherwise. */
  readonly subject: string;
  readonly spent: PicoUsd;
  readonly held: PicoUsd;
}

/** Sender of a request: a key's id and its team. The id is "" without a key (`FAREBOX_AUTH=open`). */
export interface Caller {
  readonly key: string;
  readonly team: string | null;
  /** `farebox run` session of the request; null or absent if there is none. */
  readonly session?: string | null;
}

/** Returns the sender of the request that a charge is for. */
export function callerOf({
  key,
  team,
  tags,
}: Omit<Caller, "session"> & { readonly tags: Readonly<Record<string, string>> }): Caller {
  return { key, team, session: runSessionOf(tags) };
}

export function appliesTo(scope: Scope, caller: Caller): boolean {
  switch (scope.kind) {
    case "all":
      return true;
    case "team":
      return scope.team === caller.team;
    case "key":
      return scope.key === caller.key && (scope.session === undefined || scope.session === caller.session);
    case "eachKey":
      return caller.key !== "" && (scope.team === null || scope.team === caller.team);
  }
}

/** Returns the formatted scopes that apply to a caller. Must match `appliesTo`. */
export function scopesApplyingTo({ key, team, session = null }: Caller): string[] {
  const ofKey: Scope[] =
    key === ""
      ? []
      : [
          { kind: "key", key },
          { kind: "eachKey", team: null },
        ];
  const ofSession: Scope[] = key === "" || session === null ? [] : [{ kind: "key", key, session }];
  const ofTeam: Scope[] = team === null ? [] : [{ kind: "team", team }];
  const ofMember: Scope[] = key === "" || team === null ? [] : [{ kind: "eachKey", team }];
  return [{ kind: "all" } as const, ...ofKey, ...ofSession, ...ofTeam, ...ofMember].map(formatScope);
}

/**
 * Returns true if a budget belongs to a `farebox run` session. Such a budget is created and removed with the session.
 */
export function isOfSession(scope: Scope): boolean {
  return scope.kind === "key" && scope.session !== undefined;
}

/** Returns the team that a scope names; null if it names none. */
export function teamOfScope(scope: Scope): string | null {
  return scope.kind === "team" || scope.kind === "eachKey" ? scope.team : null;
}

/** Returns the subject of a window: the key's id for an `eachKey` budget, "" otherwise. */
export function subjectOf(scope: Scope, caller: Caller): string {
  return scope.kind === "eachKey" ? caller.key : "";
}

/**
 * Returns the stored and displayed form: `all`, `team:NAME`, `key:ID`, `key:ID tag:session=run_…`, `each-key` or
 * `each-key:TEAM`.
 */
export function formatScope(scope: Scope): string {
  switch (scope.kind) {
    case "all":
      return "all";
    case "team":
      return `team:${scope.team}`;
    case "key":
      return scope.session === undefined ? `key:${scope.key}` : `key:${scope.key} tag:${sessionTag}=${scope.session}`;
    case "eachKey":
      return scope.team === null ? "each-key" : `each-key:${scope.team}`;
  }
}

/** Returns the form for users, with the key's name instead of its id if it has a name. */
export function namedScope(scope: Scope, nameOf: (keyId: string) => string | null | undefined): string {
  if (scope.kind !== "key") return formatScope(scope);
  return formatScope({ ...scope, key: nameOf(scope.key) ?? scope.key });
}

const scopePattern = /^(?:(all)|(?:(team|key):(.+))|(?:each-key(?::(.+))?))$/;

const sessionPattern = /^key:([^ ]+) tag:session=(.*)$/;

/** Parses the output of `formatScope`; undefined for any other text. */
export function parseScope(text: string): Scope | undefined {
  const ofSession = sessionPattern.exec(text);
  if (ofSession !== null) {
    const [, key = "", session = ""] = ofSession;
    return isRunSession(session) ? { kind: "key", key, session } : undefined;
  }
  const match = scopePattern.exec(text);
  if (match === null) return undefined;
  const [, all, kind, name, team] = match;
  if (all !== undefined) return { kind: "all" };
  if (kind === "team" && name !== undefined) return { kind: "team", team: name };
  if (kind === "key" && name !== undefined) return { kind: "key", key: name };
  return { kind: "eachKey", team: team ?? null };
}

export function isPeriod(text: string): text is Period {
  return (periods as readonly string[]).includes(text);
}

/** Reason why a window did not admit an amount, with the figures at that time. */
export interface Shortage {
  readonly window: BudgetWindow;
  readonly needed: PicoUsd;
  /** True if the amount would not fit even without requests in flight, so that waiting cannot help. */
  readonly exhausted: boolean;
}

/**
 * Returns the shortage if a hard budget cannot admit an amount; null if it can. A hard budget admits an amount only
 * if spent + held + amount stays within the limit.
 */
export function shortageOf(window: BudgetWindow, amount: PicoUsd): Shortage | null {
  if (window.budget.mode === "soft") return null;
  const { limit } = window.budget;
  if (window.spent + window.held + amount <= limit) return null;
  return { window, needed: amount, exhausted: window.spent + amount > limit };
}

/**
 * Returns the amount to hold. Under a hard budget this is the first slice, because the hold can grow. Otherwise it is
 * the whole amount, for which the stream need not be watched.
 */
export function amountToHold(
  windows: readonly BudgetWindow[],
  whole: PicoUsd | null,
  firstSlice: PicoUsd | null,
): PicoUsd | null {
  return firstSlice !== null && hasHardBudget(windows) ? firstSlice : whole;
}

/** Returns the basis of the amount that `amountToHold` returns. */
export function basisToHold(
  windows: readonly Pick<BudgetWindow, "budget">[],
  whole: HoldBasis | null,
  sliceTokens: number | null,
): HoldBasis | null {
  return whole !== null && sliceTokens !== null && hasHardBudget(windows)
    ? { ...whole, by: "slice", outputTokens: sliceTokens }
    : whole;
}

function hasHardBudget(windows: readonly Pick<BudgetWindow, "budget">[]): boolean {
  return windows.some(({ budget }) => budget.mode === "hard");
}

/** Returns the shortage to report. Prefers exhausted budgets, then the largest gap. */
export function worstShortage(shortages: readonly Shortage[]): Shortage | null {
  const gap = ({ window, needed }: Shortage) => window.spent + window.held + needed - window.budget.limit;
  return shortages.reduce<Shortage | null>((worst, next) => {
    if (worst === null) return next;
    if (worst.exhausted !== next.exhausted) return worst.exhausted ? worst : next;
    return gap(next) > gap(worst) ? next : worst;
  }, null);
}

/** Returns the amount left in the tightest hard window, at least 0; null if no hard budget applies. */
export function tightestRoom(windows: readonly BudgetWindow[]): PicoUsd | null {
  let room: bigint | null = null;
  for (const window of windows) {
    if (window.budget.mode === "soft") continue;
    const here = window.budget.limit - window.spent - window.held;
    if (room === null || here < room) room = here;
  }
  return room === null ? null : ((room < 0n ? 0n : room) as PicoUsd);
}
