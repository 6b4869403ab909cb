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

/** What somebody should know, with the figures of the instant at which it was noticed. */
export type Alert = AlertIdentity & AlertDetails;

interface AlertIdentity {
  /** Equal for what is the same alert: one window and one threshold. */
  readonly dedupeKey: string;
  /** The window's end: from then on the same key would not be made again. Null for one that never ends. */
  readonly keyUntil: number | null;
}

export type AlertDetails =
  | { readonly type: "budget_warning"; readonly window: BudgetWindow; readonly percent: number }
  /** `reached`: spent and held are at the limit, of a soft budget spent beyond it. `refused`: a request did not fit. */
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
  /** `difference`: what the gateway billed beyond the ledger. `unexplained`: how far that goes beyond its uncertainty. */
  | { readonly type: "reconciliation_drift"; readonly difference: PicoUsd; readonly unexplained: PicoUsd }
  | { readonly type: "charges_unsettled"; readonly count: number; readonly oldestAt: number; readonly ageMs: number };

/** What the windows of budgets give cause for. A limit that is changed is another threshold. */
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

/** Whether `budgetAlerts` has something to say of a window that nobody was told yet, by the keys of what was told. */
export function isAlertDue(window: BudgetWindow, wasTold: (dedupeKey: string) => boolean): boolean {
  return budgetAlerts([window]).some(({ dedupeKey }) => !wasTold(dedupeKey));
}

/** Requests that would not fit even if nothing else ran. One that only had to wait for others is no cause. */
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

/** What is spent counts, not what is held: a hold is the worst case. */
function isAtWarning({ budget, spent }: BudgetWindow, percent: number): boolean {
  return spent > 0n && spent * 100n >= budget.limit * BigInt(percent);
}

/** A hard budget can be full of holds; a soft one lets them pass, so it is what is spent that goes beyond it. */
function isAtLimit({ budget, spent, held }: BudgetWindow): boolean {
  if (budget.mode === "soft") return spent > budget.limit;
  return spent + held > 0n && spent + held >= budget.limit;
}

function identityOf({ budget, subject, start, end }: BudgetWindow, threshold: string): AlertIdentity {
  return { dedupeKey: `budget ${budget.id} ${subject} from ${start}: ${threshold}`, keyUntil: end };
}

/** What is looked at day by day: an alert that stays due is given once each day. */
export interface Day extends Span {
  readonly end: number;
}

/** `floor` and `hoursMin`: null where nobody wants to be told. `burnPerHour`: what an hour costs at the present rate. */
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

/** `unexplained` is 0 while ledger and gateway agree within the uncertainty. */
export function driftAlerts(
  { difference, unexplained }: { readonly difference: PicoUsd; readonly unexplained: PicoUsd },
  day: Day,
): Alert[] {
  return unexplained > 0n
    ? [{ type: "reconciliation_drift", difference, unexplained, ...daily(day, "reconciliation drifts") }]
    : [];
}

/** `admittedAt`: of the holds that are older than `ageMs`. */
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
