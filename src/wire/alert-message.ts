import { namedScope, type BudgetWindow } from "../core/budget.ts";
import { assertNever } from "../core/assert.ts";
import type { Alert, AlertDetails, AlertType } from "../core/alerts.ts";
import { formatUsd, type PicoUsd } from "../core/money.ts";

/** Body of an alert's webhook, as documented in docs/alerts.md. Slack and Mattermost show `text`. */
export interface AlertMessage {
  readonly id: string;
  readonly type: AlertType;
  /** Time at which Farebox detected the cause, in ISO 8601 UTC. */
  readonly time: string;
  readonly severity: "warning" | "critical";
  readonly title: string;
  /** Title and figures in a few sentences. */
  readonly text: string;
  readonly data: Readonly<Record<string, string | number | null>>;
}

type NameOf = (keyId: string) => string | null;

/**
 * Returns the message of an alert. `at` is the time of detection, in milliseconds since 1970 UTC.
 * `nameOf` returns the name of a key by its id.
 */
export function alertMessage(
  alert: Alert,
  { id, at, nameOf }: { readonly id: string; readonly at: number; readonly nameOf: NameOf },
): AlertMessage {
  const { severity, title, detail, data } = alertText(alert, at, nameOf);
  return { id, type: alert.type, time: isoTime(at), severity, title, text: `Farebox: ${title}. ${detail}`, data };
}

interface AlertText {
  readonly severity: AlertMessage["severity"];
  readonly title: string;
  readonly detail: string;
  readonly data: AlertMessage["data"];
}

function alertText(alert: AlertDetails, at: number, nameOf: NameOf): AlertText {
  switch (alert.type) {
    case "budget_warning":
      return {
        severity: "warning",
        title: `${budgetName(alert.window, nameOf)} has reached ${alert.percent} %`,
        detail: figures(alert.window),
        data: { ...budgetData(alert.window, nameOf), warn_percent: alert.percent },
      };
    case "budget_exhausted":
      return exhausted(alert, nameOf);
    case "balance_low":
      return {
        severity: "critical",
        title: `the gateway's balance is under ${shortUsd(alert.floor)} USD`,
        detail: `${shortUsd(alert.balance)} USD are left.`,
        data: { balance_usd: formatUsd(alert.balance), floor_usd: formatUsd(alert.floor) },
      };
    case "balance_ends_soon": {
      const hoursLeft = alert.balance <= 0n ? 0 : Number((alert.balance * 10n) / alert.burnPerHour) / 10;
      return {
        severity: "warning",
        title: `the gateway's balance lasts for less than ${alert.hoursMin} hours`,
        detail: `${shortUsd(alert.balance)} USD are left for ${hoursLeft} hours at ${shortUsd(alert.burnPerHour)} USD an hour, the mean of the last 24.`,
        data: {
          balance_usd: formatUsd(alert.balance),
          burn_usd_per_hour: formatUsd(alert.burnPerHour),
          hours_left: hoursLeft,
          hours_least: alert.hoursMin,
        },
      };
    }
    case "reconciliation_drift":
      return {
        severity: "critical",
        title: `the gateway billed ${alert.difference > 0n ? "more" : "less"} than the ledger says`,
        detail: `Over the last 24 hours the difference is ${shortUsd(alert.difference)} USD, ${shortUsd(alert.unexplained)} USD beyond its uncertainty; farebox reconcile itemises it.`,
        data: { difference_usd: formatUsd(alert.difference), unexplained_usd: formatUsd(alert.unexplained) },
      };
    case "charges_unsettled": {
      const minutes = Math.floor((at - alert.oldestAt) / 60_000);
      return {
        severity: "warning",
        title: `${alert.count}${alert.count >= listedMax ? " or more" : ""} charges are not settled`,
        detail: `The oldest has been pending for ${minutes} minutes; farebox charges --state pending lists them.`,
        data: { count: alert.count, oldest_at: isoTime(alert.oldestAt), older_than_seconds: alert.ageMs / 1000 },
      };
    }
    default:
      return assertNever(alert);
  }
}

/** Largest number of old holds that the ledger lists. */
const listedMax = 1000;

function exhausted(alert: Extract<AlertDetails, { type: "budget_exhausted" }>, nameOf: NameOf): AlertText {
  const { window } = alert;
  const name = budgetName(window, nameOf);
  const shared = { severity: "critical", data: { ...budgetData(window, nameOf), cause: alert.cause } } as const;
  if (alert.cause === "reached") {
    const title = window.budget.mode === "soft" ? `${name} is overspent` : `${name} is used up`;
    return { ...shared, title, detail: figures(window) };
  }
  const detail = `The request may cost ${shortUsd(alert.needed)} USD. ${figures(window)}`;
  return {
    ...shared,
    title: `${name} has refused a request`,
    detail,
    data: { ...shared.data, needed_usd: formatUsd(alert.needed) },
  };
}

function budgetName({ budget, subject }: BudgetWindow, nameOf: NameOf): string {
  const whose = subject === "" ? "" : ` of ${nameOf(subject) ?? subject}`;
  return `the budget ${namedScope(budget.scope, nameOf)} per ${budget.period}${whose}`;
}

function figures({ budget, spent, held, end }: BudgetWindow): string {
  const holding = held > 0n ? `, held: ${shortUsd(held)},` : "";
  const reset = end === null ? "It never resets." : `It resets at ${isoTime(end)}.`;
  return `Spent: ${shortUsd(spent)}${holding} of ${shortUsd(budget.limit)} USD. ${reset}`;
}

function budgetData({ budget, subject, spent, held, start, end }: BudgetWindow, nameOf: NameOf) {
  return {
    scope: namedScope(budget.scope, nameOf),
    key: subject === "" ? null : (nameOf(subject) ?? subject),
    period: budget.period,
    mode: budget.mode,
    limit_usd: formatUsd(budget.limit),
    spent_usd: formatUsd(spent),
    held_usd: formatUsd(held),
    starts_at: isoTime(start),
    resets_at: end === null ? null : isoTime(end),
  };
}

/** Formats an amount for reading: at most four decimals, cut off. The exact amount is in `data`. */
function shortUsd(amount: PicoUsd): string {
  return formatUsd(amount).replace(/(\.\d{4})\d+$/, "$1");
}

function isoTime(at: number): string {
  return new Date(at).toISOString();
}
