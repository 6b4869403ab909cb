import { sum, type PicoUsd } from "./money.ts";
import type { HoldBasis } from "./bounds.ts";
import { everyRequest, limitsOneKey, type Caller, type Scope } from "./scope.ts";
import { minuteMs } from "./time.ts";

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
  /**
   * Time from which the budget counts charges. Set if earlier charges do not state the values that the scope depends
   * on.
   */
  readonly countsSince?: number;
}

/** Half-open span of time, in milliseconds since 1970 UTC. `end` is null for `total`. */
export interface Span {
  readonly start: number;
  readonly end: number | null;
}

/** Amount added to the limit of one window. It is in force from `from` to before `until`; null for no end. */
export interface Raise {
  readonly amount: PicoUsd;
  /** Start of the window. */
  readonly from: number;
  readonly until: number | null;
}

export const noRaises: readonly Raise[] = [];

/**
 * Returns the raises that are in force in a window at an instant. For an instant outside the window, the nearest
 * instant inside it applies: a stream's hold may be extended after the windows of its admission have ended.
 */
export function raisesIn({ start, end }: Span, raises: readonly Raise[], at: number): readonly Raise[] {
  if (raises.length === 0) return raises;
  const inside = Math.max(start, end === null ? at : Math.min(at, end - 1));
  return raises.filter(({ from, until }) => from <= inside && (until === null || inside < until));
}

/** Spent and held amounts of one budget in one window. Budget, subject and start identify the window. */
export interface BudgetWindow extends Span {
  readonly budget: Budget;
  /** Values of the scope's `each-…` conditions (`subjectsOf`), such as the id of a key; "" without such conditions. */
  readonly subject: string;
  readonly spent: PicoUsd;
  readonly held: PicoUsd;
  /** Raises in force at the instant for which the window was read. */
  readonly raises: readonly Raise[];
}

/** Returns the limit of a window: the budget's limit and the raises in force. */
export function limitOf({ budget, raises }: Pick<BudgetWindow, "budget" | "raises">): PicoUsd {
  return raises.length === 0 ? budget.limit : ((budget.limit + raisedIn({ raises })) as PicoUsd);
}

/** Returns the amount that raises add to the limit of a window. */
export function raisedIn({ raises }: Pick<BudgetWindow, "raises">): PicoUsd {
  return sum(raises.map(({ amount }) => amount));
}

/** Returns the amounts that raises add to the limit of a window: one amount for each end, earliest end first. */
export function raisesByEnd({ raises }: Pick<BudgetWindow, "raises">): readonly Pick<Raise, "amount" | "until">[] {
  return [...Map.groupBy(raises, ({ until }) => until)]
    .map(([until, ending]) => ({ amount: raisedIn({ raises: ending }), until }))
    .toSorted((one, other) => (one.until ?? Infinity) - (other.until ?? Infinity));
}

/**
 * Returns the earliest instant at which a raise ends before its window does; null if every raise ends with its window.
 */
export function raisedUntil({ raises, end }: Pick<BudgetWindow, "raises" | "end">): number | null {
  const ends = raises.flatMap(({ until }) => (until === null || until === end ? [] : [until]));
  return ends.length === 0 ? null : Math.min(...ends);
}

/**
 * Budgets whose amounts a key sees. `own`: budgets that limit this key alone. `all`: all budgets that apply to the key.
 */
export const ownViews = ["own", "all"] as const;
export type OwnView = (typeof ownViews)[number];

/**
 * Returns true if the caller may see the amounts of a budget that applies to it. Every answer that can show a key the
 * limit, the spent or the held amount of a budget follows this rule. A caller without a key exists only with
 * `FAREBOX_AUTH=open`. It sees all amounts, because only budgets that name no key, team or label apply to it.
 */
export function maySeeAmounts(view: OwnView, scope: Scope, caller: Pick<Caller, "key">): boolean {
  return view === "all" || caller.key === "" || limitsOneKey(scope);
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
 *
 * @example
 * const terms = { scope: everyRequest, period: "total", mode: "hard", limit: usd("5.00") } as const;
 * const budget = { ...terms, id: "all/total", warnPercent: null };
 * const window = { budget, subject: "", start: 0, end: null, spent: usd("4.00"), held: usd("0.60"), raises: noRaises };
 * shortageOf(window, usd("0.40")); // null
 * shortageOf(window, usd("0.41"))?.exhausted; // false
 * shortageOf(window, usd("1.01"))?.exhausted; // true
 */
export function shortageOf(window: BudgetWindow, amount: PicoUsd): Shortage | null {
  if (window.budget.mode === "soft") return null;
  const limit = limitOf(window);
  if (window.spent + window.held + amount <= limit) return null;
  return { window, needed: amount, exhausted: window.spent + amount > limit };
}

/**
 * Returns the percentage of a window's limit that is spent or held, rounded down to 0.1. Returns 100 for a limit of 0.
 */
export function usedPercent(window: BudgetWindow): number {
  const limit = limitOf(window);
  if (limit === 0n) return 100;
  return Number(((window.spent + window.held) * 1000n) / limit) / 10;
}

/**
 * Returns the amount to hold. Under a hard budget this is the first slice, if there is one, because the hold can grow
 * later. Otherwise it is the whole amount, which is null without a price, and the hold never has to grow.
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
  const gap = ({ window, needed }: Shortage) => window.spent + window.held + needed - limitOf(window);
  return shortages.reduce<Shortage | null>((worst, next) => {
    if (worst === null) return next;
    if (worst.exhausted !== next.exhausted) return worst.exhausted ? worst : next;
    return gap(next) > gap(worst) ? next : worst;
  }, null);
}

/** Returns true if a hard window has nothing left. */
export function isUsedUp(window: BudgetWindow): boolean {
  return window.budget.mode === "hard" && window.spent + window.held >= limitOf(window);
}

/** Time for which a budget counts as refusing after it refused a request, in milliseconds. */
export const refusingMs = 15 * minuteMs;

/**
 * Returns true if a hard window has nothing left, or refused a request less than `refusingMs` ago. `lastRefusal`: time
 * of the window's latest refusal.
 */
export function isRefusing(window: BudgetWindow, lastRefusal: number | undefined, at: number): boolean {
  if (isUsedUp(window)) return true;
  return window.budget.mode === "hard" && (lastRefusal ?? -Infinity) >= Math.max(window.start, at - refusingMs);
}

/** Returns the smallest remaining amount of the hard windows, at least 0; null if no hard budget applies. */
export function smallestRemaining(windows: readonly BudgetWindow[]): PicoUsd | null {
  let smallest: bigint | null = null;
  for (const window of windows) {
    if (window.budget.mode === "soft") continue;
    const remaining = limitOf(window) - window.spent - window.held;
    if (smallest === null || remaining < smallest) smallest = remaining;
  }
  return smallest === null ? null : ((smallest < 0n ? 0n : smallest) as PicoUsd);
}

/** Remaining amounts after a hold. */
export interface Rooms {
  /** Smallest remaining amount of the hard windows, at least 0; null if no hard budget applies. */
  readonly room: PicoUsd | null;
  /**
   * Smallest remaining amount of the hard windows that limit a single key, at least 0; null if no such budget applies.
   */
  readonly keyRoom: PicoUsd | null;
}

/** Remaining amounts if no hard budget applies. */
export const noRooms: Rooms = { room: null, keyRoom: null };

export function roomsOf(windows: readonly BudgetWindow[]): Rooms {
  return {
    room: smallestRemaining(windows),
    keyRoom: smallestRemaining(windows.filter(({ budget }) => limitsOneKey(budget.scope))),
  };
}

/** Returns the smallest remaining amount that the caller may see; null if there is none. */
export function visibleRoom(view: OwnView, { room, keyRoom }: Rooms, caller: Pick<Caller, "key">): PicoUsd | null {
  return maySeeAmounts(view, everyRequest, caller) ? room : keyRoom;
}
