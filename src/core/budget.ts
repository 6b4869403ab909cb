import type { PicoUsd } from "./money.ts";
import type { HoldBasis } from "./output-cap.ts";
import { isRunSession, runSessionOf, sessionTag } from "./tags.ts";

/**
 * Whom a budget applies to. `eachKey` is a default that every key (of a team, where one is named) has for itself. `session`: only
 * what the key does in that session of `farebox run`.
 */
export type Scope =
  | { readonly kind: "all" }
  | { readonly kind: "team"; readonly team: string }
  | { readonly kind: "key"; readonly key: string; readonly session?: string }
  | { readonly kind: "eachKey"; readonly team: string | null };

/** Calendar windows in the configured time zone; weeks start on Monday; `total` never ends. */
export const periods = ["total", "1h", "1d", "1w", "1mo"] as const;
export type Period = (typeof periods)[number];

export type BudgetMode = "hard" | "soft";

export interface Budget {
  readonly id: string;
  readonly scope: Scope;
  readonly period: Period;
  readonly mode: BudgetMode;
  readonly limit: PicoUsd;
  /** Share of the limit, in percent, at which a warning is due; null for none. */
  readonly warnPercent: number | null;
}

/** Half-open span of UTC instants, milliseconds since 1970. `end` is null for `total`. */
export interface Span {
  readonly start: number;
  readonly end: number | null;
}

/** One budget's sums over one span. Identified by budget, subject and start. */
export interface BudgetWindow extends Span {
  readonly budget: Budget;
  /** The key's id where each key has a window of its own; "" otherwise. */
  readonly subject: string;
  readonly spent: PicoUsd;
  readonly held: PicoUsd;
}

/** Who makes a request: a key's id and its team. Without a key (`FAREBOX_AUTH=open`) the id is "". */
export interface Caller {
  readonly key: string;
  readonly team: string | null;
  /** The session of `farebox run` that it is made in; left out or null for none. */
  readonly session?: string | null;
}

/** Returns who made a charge. */
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

/** The scopes that weigh on a caller, formatted: exactly those of which `appliesTo` says so. */
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

/** Whether a budget is that of a session of `farebox run`: made with it, and removed after it. */
export function isOfSession(scope: Scope): boolean {
  return scope.kind === "key" && scope.session !== undefined;
}

/** The team that a scope names; null for none. */
export function teamOfScope(scope: Scope): string | null {
  return scope.kind === "team" || scope.kind === "eachKey" ? scope.team : null;
}

/** The part of a window's identity that tells members of an `eachKey` budget apart. */
export function subjectOf(scope: Scope, caller: Caller): string {
  return scope.kind === "eachKey" ? caller.key : "";
}

/** The stored and displayed form: `all`, `team:NAME`, `key:ID`, `key:ID tag:session=run_…`, `each-key`, `each-key:TEAM`. */
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

/** The form that users know: a key by its name, where there is one, instead of its id. */
export function namedScope(scope: Scope, nameOf: (keyId: string) => string | null | undefined): string {
  if (scope.kind !== "key") return formatScope(scope);
  return formatScope({ ...scope, key: nameOf(scope.key) ?? scope.key });
}

const scopePattern = /^(?:(all)|(?:(team|key):(.+))|(?:each-key(?::(.+))?))$/;

const sessionPattern = /^key:([^ ]+) tag:session=(.*)$/;

/** Reads what `formatScope` wrote; undefined when it is none of its forms. */
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

/** Why a window did not admit an amount, with the figures of that instant. */
export interface Shortage {
  readonly window: BudgetWindow;
  readonly needed: PicoUsd;
  /** Whether it would not fit even when nothing else ran: waiting for running requests cannot help. */
  readonly exhausted: boolean;
}

/** The admission rule: spent + held + amount must not pass the limit of a hard budget. */
export function shortageOf(window: BudgetWindow, amount: PicoUsd): Shortage | null {
  if (window.budget.mode === "soft") return null;
  const { limit } = window.budget;
  if (window.spent + window.held + amount <= limit) return null;
  return { window, needed: amount, exhausted: window.spent + amount > limit };
}

/**
 * What a hold reserves: only its first slice where a hard budget weighs on it, because it then grows; otherwise the whole,
 * which nobody has to watch.
 */
export function amountToHold(
  windows: readonly BudgetWindow[],
  whole: PicoUsd | null,
  firstSlice: PicoUsd | null,
): PicoUsd | null {
  return firstSlice !== null && hasHardBudget(windows) ? firstSlice : whole;
}

/** Returns the basis of what `amountToHold` reserves. */
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

/** Of several shortages the one to report: an exhausted budget before a merely busy one, then the larger gap. */
export function worstShortage(shortages: readonly Shortage[]): Shortage | null {
  const gap = ({ window, needed }: Shortage) => window.spent + window.held + needed - window.budget.limit;
  return shortages.reduce<Shortage | null>((worst, next) => {
    if (worst === null) return next;
    if (worst.exhausted !== next.exhausted) return worst.exhausted ? worst : next;
    return gap(next) > gap(worst) ? next : worst;
  }, null);
}

/** What the tightest hard window has left; null when none weighs on the caller. Below zero counts as nothing. */
export function tightestRoom(windows: readonly BudgetWindow[]): PicoUsd | null {
  let room: bigint | null = null;
  for (const window of windows) {
    if (window.budget.mode === "soft") continue;
    const here = window.budget.limit - window.spent - window.held;
    if (room === null || here < room) room = here;
  }
  return room === null ? null : ((room < 0n ? 0n : room) as PicoUsd);
}
