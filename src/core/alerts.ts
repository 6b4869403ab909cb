import { limitOf, type Budget, type BudgetWindow, type Shortage, type Span } from "./budget.ts";
import type { PicoUsd } from "./money.ts";
import { hasClientSubjects } from "./scope.ts";

export const alertTypes = [
  "budget_warning",
  "budget_exhausted",
  "balance_low",
  "balance_ends_soon",
  "reconciliation_drift",
  "charges_unsettled",
  "raise_requested",
] as const;
export type AlertType = (typeof alertTypes)[number];

/** An alert, with the figures at the time when Farebox found its cause. */
export type Alert = AlertIdentity & AlertDetails;

interface AlertIdentity {
  /**
   * Key for deduplication. Alerts for the same window and threshold have the same key, and only the first one is sent.
   */
  readonly dedupeKey: string;
  /** Time after which no alert can have this key, such as the end of the window; null if there is no such time. */
  readonly keyUntil: number | null;
}

export type AlertDetails =
  | { readonly type: "budget_warning"; readonly window: BudgetWindow; readonly percent: number }
  /**
   * `reached`: spent + held is at or above the limit; for a soft budget, spent is above it. `refused`: the budget could
   * not admit a request.
   */
  | { readonly type: "budget_exhausted"; readonly window: BudgetWindow; readonly cause: "reached" }
  | {
      readonly type: "budget_exhausted";
      readonly window: BudgetWindow;
      readonly cause: "refused";
      readonly needed: PicoUsd;
    }
  | { readonly type: "balance_low"; readonly balance: PicoUsd; readonly floor: PicoUsd }
  | {
      readonly type: "balance_ends_soon";
      readonly balance: PicoUsd;
      readonly burnPerHour: PicoUsd;
      readonly hoursMin: number;
    }
  /**
   * `difference`: amount that the gateway billed beyond the ledger. `unexplained`: the part of `difference` that
   * exceeds the uncertainty.
   */
  | { readonly type: "reconciliation_drift"; readonly difference: PicoUsd; readonly unexplained: PicoUsd }
  | { readonly type: "charges_unsettled"; readonly count: number; readonly oldestAt: number; readonly ageMs: number }
  | { readonly type: "raise_requested"; readonly request: RequestedRaise };

/** Open request of a key for a raise. */
export interface RequestedRaise {
  readonly id: string;
  readonly budget: Pick<Budget, "scope" | "period">;
  readonly subject: string;
  /** Id of the key that asks. */
  readonly key: string;
  readonly amount: PicoUsd;
  readonly why: string;
  /** End of the window, at which an open request lapses; null for never. */
  readonly lapsesAt: number | null;
}

/**
 * Returns the alerts for the current amounts of budget windows, also those that were sent before. A changed limit
 * counts as another threshold.
 */
export function budgetAlerts(windows: readonly BudgetWindow[]): Alert[] {
  return windows.flatMap((window) => {
    const { warnPercent } = window.budget;
    const warning: Alert[] =
      warnPercent !== null && isAtWarning(window, warnPercent)
        ? [
            {
              type: "budget_warning",
              window,
              percent: warnPercent,
              ...identityOf(window, `${warnPercent}% of ${limitOf(window)}`),
            },
          ]
        : [];
    return isAtLimit(window) ? [...warning, limitReached(window)] : warning;
  });
}

/**
 * Returns true if a window has an alert that has not been sent yet. `wasSent` returns true for the key of a sent alert.
 */
export function isAlertDue(window: BudgetWindow, wasSent: (dedupeKey: string) => boolean): boolean {
  return budgetAlerts([window]).some(({ dedupeKey }) => !wasSent(dedupeKey));
}

/**
 * Returns alerts for requests that would not fit even if no other request were in flight. Requests that only had to
 * wait cause no alert.
 */
export function refusalAlerts(shortages: readonly Shortage[]): Alert[] {
  return shortages
    .filter(({ exhausted }) => exhausted)
    .map(({ window, needed }) =>
      isAtLimit(window)
        ? limitReached(window)
        : {
            type: "budget_exhausted",
            window,
            cause: "refused",
            needed,
            ...identityOf(window, `refused ${limitOf(window)}`),
          },
    );
}

/** Alert to send. It also stands for `others`: alerts of other windows of the same budget, which are not sent. */
export interface AlertGroup {
  readonly alert: Alert;
  readonly others: readonly Alert[];
}

/** Largest number of windows of one budget for which alerts with the same cause are sent separately. */
const separateMax = 5;

/**
 * Groups more than `separateMax` alerts of one budget with the same cause, if clients state the budget's subjects:
 * users, tag values or models. Leaves all other alerts separate.
 */
export function alertGroups(alerts: readonly Alert[]): readonly AlertGroup[] {
  const groups = Map.groupBy(alerts, (alert) => {
    if (!("window" in alert) || !hasClientSubjects(alert.window.budget.scope)) return alert.dedupeKey;
    const { budget, start } = alert.window;
    return `${alert.type} ${"cause" in alert ? alert.cause : alert.percent} ${budget.id} ${start}`;
  });
  return [...groups.values()].flatMap((group): readonly AlertGroup[] => {
    const [alert, ...others] = group;
    if (alert !== undefined && others.length >= separateMax) return [{ alert, others }];
    return group.map((each) => ({ alert: each, others: [] }));
  });
}

function limitReached(window: BudgetWindow): Alert {
  return {
    type: "budget_exhausted",
    window,
    cause: "reached",
    ...identityOf(window, `reached ${limitOf(window)}`),
  };
}

/** Returns true if spent reaches the percentage of the limit. Holds do not count, because a hold is a worst case. */
function isAtWarning(window: BudgetWindow, percent: number): boolean {
  return window.spent > 0n && window.spent * 100n >= limitOf(window) * BigInt(percent);
}

/**
 * Returns true if a window is at its limit. Holds count for a hard budget only: a soft budget never refuses a request.
 */
function isAtLimit(window: BudgetWindow): boolean {
  const { budget, spent, held } = window;
  if (budget.mode === "soft") return spent > limitOf(window);
  return spent + held > 0n && spent + held >= limitOf(window);
}

function identityOf({ budget, subject, start, end }: BudgetWindow, threshold: string): AlertIdentity {
  return { dedupeKey: `budget ${budget.id} ${subject} from ${start}: ${threshold}`, keyUntil: end };
}

/** Returns an alert for each open request for a raise. */
export function raiseRequestAlerts(requests: readonly RequestedRaise[]): Alert[] {
  return requests.map((request) => ({
    type: "raise_requested",
    request,
    dedupeKey: `raise request ${request.id}`,
    keyUntil: request.lapsesAt,
  }));
}

/**
 * The day on which the checks run. An alert that is identified by its day is sent once a day while its cause persists.
 */
export interface Day extends Span {
  readonly end: number;
}

/**
 * Returns the alerts for a low balance. A null `floor` or `hoursMin` disables its alert. `burnPerHour` is the cost of
 * an hour at the current rate.
 */
export function balanceAlerts(
  { balance, burnPerHour }: { readonly balance: PicoUsd; readonly burnPerHour: PicoUsd },
  { floor, hoursMin }: { readonly floor: PicoUsd | null; readonly hoursMin: number | null },
  day: Day,
): Alert[] {
  const low: Alert[] =
    floor !== null && balance < floor
      ? [{ type: "balance_low", balance, floor, ...daily(day, `balance under ${floor}`) }]
      : [];
  const endsSoon = hoursMin !== null && burnPerHour > 0n && balance < burnPerHour * BigInt(hoursMin);
  const soon: Alert[] = endsSoon
    ? [{ type: "balance_ends_soon", balance, burnPerHour, hoursMin, ...daily(day, `balance for ${hoursMin} h`) }]
    : [];
  return [...low, ...soon];
}

/**
 * Returns an alert if the difference is not fully explained. `unexplained` is 0 while ledger and gateway agree within
 * the uncertainty.
 */
export function driftAlerts(
  { difference, unexplained }: { readonly difference: PicoUsd; readonly unexplained: PicoUsd },
  day: Day,
): Alert[] {
  return unexplained > 0n
    ? [{ type: "reconciliation_drift", difference, unexplained, ...daily(day, "reconciliation drifts") }]
    : [];
}

/**
 * Returns an alert for old holds. `admittedAt` contains the admission times of the holds that are older than `ageMs`.
 */
export function unsettledAlerts(admittedAt: readonly number[], ageMs: number, day: Day): Alert[] {
  if (admittedAt.length === 0) return [];
  return [
    {
      type: "charges_unsettled",
      count: admittedAt.length,
      oldestAt: Math.min(...admittedAt),
      ageMs,
      ...daily(day, `unsettled after ${ageMs}`),
    },
  ];
}

function daily({ start, end }: Day, threshold: string): AlertIdentity {
  return { dedupeKey: `day from ${start}: ${threshold}`, keyUntil: end };
}
