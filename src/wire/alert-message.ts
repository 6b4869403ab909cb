import { limitOf, type BudgetWindow } from "../core/budget.ts";
import { hasSubjects, keyOfSubject, namedScope, namedSubject } from "../core/scope.ts";
import { assertNever } from "../core/assert.ts";
import type { Alert, AlertDetails, AlertGroup, AlertType, RequestedRaise } from "../core/alerts.ts";
import { formatUsd, type PicoUsd } from "../core/money.ts";
import { dayMs, hourMs, isoTime, isoTimeOrNull, minuteMs } from "../core/time.ts";

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

interface Wording {
  /** Returns the name of a key by its id; null if the name is not known. */
  readonly nameOf: (keyId: string) => string | null;
  /** Formats a time, given in milliseconds since 1970 UTC, as text for people. */
  readonly timeText: (at: number) => string;
}

/** Returns the message of an alert. `at` is the time of detection, in milliseconds since 1970 UTC. */
export function alertMessage(
  { alert, others }: AlertGroup,
  { id, at, ...wording }: Wording & { readonly id: string; readonly at: number },
): AlertMessage {
  const { severity, title, detail, data } = alertText(alert, at, wording);
  const more = othersText(others, wording);
  const text = `Farebox: ${title}. ${detail}${more === null ? "" : ` ${more.text}`}`;
  return { id, type: alert.type, time: isoTime(at), severity, title, text, data: { ...data, ...more?.data } };
}

/** Largest number of other subjects that a message names. */
const namedMax = 3;

/**
 * Returns a sentence and data about a budget's other windows: their number and their first subjects. Returns null if
 * there are none.
 */
function othersText(others: readonly Alert[], { nameOf }: Wording) {
  if (others.length === 0) return null;
  const subjects = others
    .flatMap((alert) => ("window" in alert ? [alert.window] : []))
    .slice(0, namedMax)
    .map(({ budget: { scope }, subject }) => namedSubject(scope, subject, nameOf))
    .join(", ");
  return {
    text: `The same applies to ${others.length} others: ${subjects}${others.length > namedMax ? ", …" : ""}.`,
    data: { others: others.length, other_subjects: subjects },
  };
}

/**
 * Returns a function that formats times as text for people, in the given time zone: "21 November 2026 at 00:00
 * (Europe/Berlin)". The function creates its formatters on first use, because they take 9 MB of memory.
 */
export function timesIn(timeZone: string): Wording["timeText"] {
  let formats: Readonly<Record<"day" | "clock", Intl.DateTimeFormat>> | undefined;
  return (at) => {
    formats ??= {
      day: new Intl.DateTimeFormat("en-GB", { timeZone, dateStyle: "long" }),
      clock: new Intl.DateTimeFormat("en-GB", { timeZone, timeStyle: "short" }),
    };
    return `${formats.day.format(at)} at ${formats.clock.format(at)} (${timeZone})`;
  };
}

interface AlertText {
  readonly severity: AlertMessage["severity"];
  readonly title: string;
  readonly detail: string;
  readonly data: AlertMessage["data"];
}

function alertText(alert: AlertDetails, at: number, wording: Wording): AlertText {
  const { nameOf } = wording;
  switch (alert.type) {
    case "budget_warning":
      return {
        severity: "warning",
        title: `${budgetName(alert.window, nameOf)} has reached ${alert.percent}%`,
        detail: figures(alert.window, wording),
        data: { ...budgetData(alert.window, nameOf), warn_percent: alert.percent },
      };
    case "budget_exhausted":
      return exhausted(alert, wording);
    case "balance_low":
      return {
        severity: "critical",
        title: `the gateway's balance is under ${shortUsd(alert.floor)} USD`,
        detail: `${shortUsd(alert.balance)} USD remains.`,
        data: { balance_usd: formatUsd(alert.balance), floor_usd: formatUsd(alert.floor) },
      };
    case "balance_ends_soon": {
      const hoursLeft = alert.balance <= 0n ? 0 : Number((alert.balance * 10n) / alert.burnPerHour) / 10;
      return {
        severity: "warning",
        title: `the gateway's balance lasts for less than ${alert.hoursMin} hours`,
        detail: `${shortUsd(alert.balance)} USD remains, enough for ${hoursLeft} hours at ${shortUsd(alert.burnPerHour)} USD an hour, the mean of the last 24 hours.`,
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
        detail: `Over the last 24 hours the difference is ${shortUsd(alert.difference)} USD, ${shortUsd(alert.unexplained)} USD beyond its uncertainty; farebox reconcile itemizes it.`,
        data: { difference_usd: formatUsd(alert.difference), unexplained_usd: formatUsd(alert.unexplained) },
      };
    case "charges_unsettled": {
      const { count } = alert;
      return {
        severity: "warning",
        title:
          count === 1
            ? "one charge is not settled"
            : `${count}${count >= listedMax ? " or more" : ""} charges are not settled`,
        detail: `${count === 1 ? "It" : "The oldest"} has been pending for ${durationText(at - alert.oldestAt)}; farebox charges --state pending lists them.`,
        data: { count, oldest_at: isoTime(alert.oldestAt), older_than_seconds: alert.ageMs / 1000 },
      };
    }
    case "raise_requested": {
      const { id, budget, subject, key, amount, why } = alert.request;
      const name = nameOf(key) ?? key;
      return {
        severity: "warning",
        title: `the key ${name} asks for ${shortUsd(amount)} USD more in ${budgetName({ budget, subject }, nameOf)}`,
        detail: `Reason: ${why}. Decide with farebox raises approve ${id} or deny ${id}.`,
        data: {
          request: id,
          scope: namedScope(budget.scope, nameOf),
          period: budget.period,
          subject: namedSubject(budget.scope, subject, nameOf),
          key: name,
          amount_usd: formatUsd(amount),
          why,
        },
      };
    }
    default:
      return assertNever(alert);
  }
}

/** Largest number of old holds that the ledger lists. */
const listedMax = 1000;

function exhausted(alert: Extract<AlertDetails, { type: "budget_exhausted" }>, wording: Wording): AlertText {
  const { nameOf } = wording;
  const { window } = alert;
  const name = budgetName(window, nameOf);
  const shared = { severity: "critical", data: { ...budgetData(window, nameOf), cause: alert.cause } } as const;
  if (alert.cause === "reached") {
    const title = window.budget.mode === "soft" ? `${name} is overspent` : `${name} is used up`;
    return { ...shared, title, detail: figures(window, wording) };
  }
  const detail = `The request may cost ${shortUsd(alert.needed)} USD. ${figures(window, wording)}`;
  return {
    ...shared,
    title: `${name} has refused a request`,
    detail,
    data: { ...shared.data, needed_usd: formatUsd(alert.needed) },
  };
}

function budgetName(
  { budget, subject }: Pick<RequestedRaise, "budget" | "subject">,
  nameOf: Wording["nameOf"],
): string {
  const whose = hasSubjects(budget.scope) ? ` of ${namedSubject(budget.scope, subject, nameOf)}` : "";
  return `the budget ${namedScope(budget.scope, nameOf)} per ${budget.period}${whose}`;
}

function figures(window: BudgetWindow, { timeText }: Wording): string {
  const { spent, held, end } = window;
  const holding = held > 0n ? `, held: ${shortUsd(held)},` : "";
  const reset = end === null ? "It never resets." : `It resets on ${timeText(end)}.`;
  return `Spent: ${shortUsd(spent)}${holding} of ${shortUsd(limitOf(window))} USD. ${reset}`;
}

function budgetData(window: BudgetWindow, nameOf: Wording["nameOf"]) {
  const { budget, subject, spent, held, start, end } = window;
  const key = keyOfSubject(budget.scope, subject);
  return {
    scope: namedScope(budget.scope, nameOf),
    key: key === null ? null : (nameOf(key) ?? key),
    subject: namedSubject(budget.scope, subject, nameOf),
    period: budget.period,
    mode: budget.mode,
    limit_usd: formatUsd(limitOf(window)),
    spent_usd: formatUsd(spent),
    held_usd: formatUsd(held),
    starts_at: isoTime(start),
    resets_at: isoTimeOrNull(end),
  };
}

/**
 * Formats an amount in USD with at most four decimals, or with two significant digits below 0.001. Cuts off further
 * digits. The message's `data` has the exact amount.
 */
function shortUsd(amount: PicoUsd): string {
  return formatUsd(amount)
    .replace(/^(-?0\.0{2,}[1-9]\d?|-?\d+\.\d{4})\d*$/, "$1")
    .replace(/(\.\d\d\d*?)0+$/, "$1");
}

const durations = [
  ["day", dayMs],
  ["hour", hourMs],
  ["minute", minuteMs],
] as const;

/**
 * Formats a duration in the largest unit that fits at least twice: "90 minutes", "5 hours". Rounds down. The smallest
 * unit is a minute.
 */
function durationText(ms: number): string {
  const [unit, size] = durations.find(([, each]) => ms >= 2 * each) ?? (["minute", minuteMs] as const);
  const value = Math.floor(ms / size);
  return `${value} ${unit}${value === 1 ? "" : "s"}`;
}
