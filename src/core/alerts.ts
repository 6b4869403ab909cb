import type { BudgetWindow, Shortage, Span } from "./budget.ts";
import type { PicoUsd } from "./money.ts";

export const alertTypes = [
  "budget_warning",
  "budget_exhausted",
  "balance_low",
  "balance_ends_soon",
  "reconciliation_drift",
  "charges_unsettled",
] as const;
export type AlertType = (typeof alertTypes)[number];

/** An alert, with the figures at the time when its cause was found. */
export type Alert = AlertIdentity & AlertDetails;

interface AlertIdentity {
  /** Identifies an alert: one window and one threshold have the same key. */
  readonly dedupeKey: string;
  /** End of the window, after which the same key cannot occur; null if the window never ends. */
  readonly keyUntil: number | null;
}

export type AlertDetails =
  | { readonly type: "budget_warning"; readonly window: BudgetWindow; readonly percent: number }
  /**
   * `reached`: spent + held is at or above the limit; for a soft budget, spent is above it. `refused`: a request did
   * not fit.
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
  | { readonly type: "charges_unsettled"; readonly count: number; readonly oldestAt: number; readonly ageMs: number };

/** Returns the alerts that are due for budget windows. A changed limit counts as another threshold. */
export function budgetAlerts(windows: readonly BudgetWindow[]): Alert[] {
  return windows.flatMap((window) => {
    const { warnPercent, limit } = window.budget;
    const warning: Alert[] =
      warnPercent !== null && isAtWarning(window, warnPercent)
        ? [
            {
              type: "budget_warning",
              window,
              percent: warnPercent,
              ...identityOf(window, `${warnPercent}% of ${limit}`),
            },
          ]
        : [];
    return isAtLimit(window) ? [...warning, reached(window)] : warning;
  });
}

/**
 * Returns true if a window has an alert that has not been sent yet. `wasTold` returns true for the key of a sent
 * alert.
 */
export function isAlertDue(window: BudgetWindow, wasTold: (dedupeKey: string) => boolean): boolean {
  return budgetAlerts([window]).some(({ dedupeKey }) => !wasTold(dedupeKey));
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
        ? reached(window)
        : {
            type: "budget_exhausted",
            window,
            cause: "refused",
            needed,
            ...identityOf(window, `refused ${window.budget.limit}`),
          },
    );
}

function reached(window: BudgetWindow): Alert {
  return {
    type: "budget_exhausted",
    window,
    cause: "reached",
    ...identityOf(window, `reached ${window.budget.limit}`),
  };
}

/** Only spent counts, because a hold is a worst case. */
function isAtWarning({ budget, spent }: BudgetWindow, percent: number): boolean {
  return spent > 0n && spent * 100n >= budget.limit * BigInt(percent);
}

/** Holds count toward a hard limit. A soft budget admits requests beyond its limit, so only spent counts. */
function isAtLimit({ budget, spent, held }: BudgetWindow): boolean {
  if (budget.mode === "soft") return spent > budget.limit;
  return spent + held > 0n && spent + held >= budget.limit;
}

function identityOf({ budget, subject, start, end }: BudgetWindow, threshold: string): AlertIdentity {
  return { dedupeKey: `budget ${budget.id} ${subject} from ${start}: ${threshold}`, keyUntil: end };
}

/** Day on which the checks run. An alert that stays due is sent once a day. */
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
