import {
  balanceAlerts,
  budgetAlerts,
  driftAlerts,
  refusalAlerts,
  unsettledAlerts,
  type Alert,
  type AlertType,
  type Day,
} from "../core/alerts.ts";
import { scaledFigure } from "../core/account.ts";
import type { Shortage } from "../core/budget.ts";
import type { PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import type { AccountSamples } from "../ports/account-samples.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import type { BudgetStore, LedgerQueries } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { NewMessage, Outbox } from "../ports/outbox.ts";
import { loop } from "../platform/loop.ts";
import { alertMessage, type AlertMessage } from "../wire/alert-message.ts";
import type { JobClaim } from "./job-claims.ts";

/**
 * Raises alerts while a proxy runs. Disposing of it evaluates the budgets once more if anything was spent since the last
 * time.
 */
export interface Alerts extends AsyncDisposable {
  /** Reports that something was spent, and returns at once. The budgets are evaluated soon, usually after a second. */
  spent(): void;
  /** Reports a refused request, and returns at once. */
  refused(refusal: Refusal): void;
  /** Evaluates everything now. */
  evaluate(): Promise<void>;
}

interface AlertRules {
  /** Balance below which an alert is raised; null for never. */
  readonly balanceFloor: PicoUsd | null;
  /** Least number of hours that the balance must last. An alert is raised if it lasts for fewer; null for never. */
  readonly hoursMin: number | null;
  /** Age above which a hold raises an alert, in milliseconds. */
  readonly unsettledMs: number;
}

interface AlertDeps {
  readonly ledger: LedgerQueries & BudgetStore;
  readonly samples: AccountSamples;
  readonly outbox: Outbox;
  readonly calendar: Calendar;
  readonly clock: Clock;
  readonly log: Log;
  readonly rules: AlertRules;
  /** Target to which the outbox sends alerts; null to record them without sending. */
  readonly target: string | null;
  readonly newId: () => string;
  /** Returns a function that finds the present name of a key by its id. */
  readonly names: () => Promise<(keyId: string) => string | null>;
  /** Returns the recent cost per hour. */
  readonly burnPerHour: () => Promise<PicoUsd>;
  /** Compares the gateway's bill with the samples of the last day. Returns null while the result is not known. */
  readonly drift: () => Promise<{ readonly difference: PicoUsd; readonly unexplained: PicoUsd } | null>;
  /** Counts each new alert. */
  readonly countAlert: (type: AlertType) => void;
  /** Called after new messages have been put into the outbox. */
  readonly wakeDelivery: () => void;
  /** Claim to evaluate the ledger. Every proxy reports its own refusals, because the outbox accepts each alert only once. */
  readonly claim: JobClaim;
}

/** Shortest pause between two evaluations of the budgets, in milliseconds. */
const budgetPauseMs = 1_000;
/** Largest share of the time that evaluations take. Matters only if many windows make each evaluation slow. */
const budgetShareMax = 1 / 20;
/** Period between two evaluations of everything, in milliseconds. */
const periodMs = 60_000;
/**
 * Largest age of a sample that still shows the present balance, in milliseconds. Without traffic, samples are an hour
 * apart.
 */
const sampleMsMax = 2 * 3_600_000;
/** Largest number of windows in an evaluation. The next evaluation covers those that are left. */
const windowsMax = 500;
/** Largest number of messages in a transaction. It is small because a hold may wait for the transaction. */
const putAtOnce = 100;
/** Largest number of refused windows that are remembered until they are evaluated. */
const refusedMax = 10_000;
/** Largest number of keys that are remembered because their alerts are in the outbox. */
const raisedMax = 100_000;

export function startAlerts(deps: AlertDeps): Alerts {
  const { ledger, clock, calendar, log, claim } = deps;
  const refusals = new Map<string, Shortage>();
  const raise = alertRaiser(deps);
  let lastAt: number | null = null;
  let hasSpent = false;
  /** Duration of the last evaluation of the budgets, in milliseconds. */
  let budgetsMs = 0;

  /** Returns the alerts of present windows. Just after the start of an hour, it also covers the windows that have ended. */
  const windowAlerts = async (now: number): Promise<Alert[]> => {
    const hasTurned = lastAt !== null && calendar.spanOf("1h", lastAt).start !== calendar.spanOf("1h", now).start;
    const instants = lastAt !== null && hasTurned ? [lastAt, now] : [now];
    const startedAt = clock.monotonic();
    const found = await Promise.all(instants.map((at) => ledger.windowsToAlert(at, windowsMax)));
    budgetsMs = clock.monotonic() - startedAt;
    if (found.some(({ length }) => length === windowsMax)) spent();
    return budgetAlerts(found.flat());
  };
  const evaluateBudgets = async (): Promise<void> => {
    const now = clock.now();
    hasSpent = false;
    const shortages = [...refusals.values()];
    refusals.clear();
    const alerts = claim.isMine() ? await windowAlerts(now) : [];
    lastAt = now;
    await raise([...alerts, ...refusalAlerts(shortages)]);
  };
  const evaluateAll = async (): Promise<void> => {
    await budgets.run();
    if (claim.isMine()) await raise(await accountAlerts(deps));
  };

  const onError = (error: unknown): void => log.error({ err: error }, "alerts could not be evaluated");
  const budgets = loop(clock, evaluateBudgets, { firstMs: Infinity, everyMs: Infinity, onError });
  const everything = loop(clock, evaluateAll, { firstMs: budgetPauseMs, everyMs: periodMs, onError });
  const spent = (): void => {
    if (hasSpent) return;
    hasSpent = true;
    budgets.wake(Math.max(budgetPauseMs, budgetsMs / budgetShareMax));
  };
  claim.onTaken(spent);
  return {
    spent,
    refused(refusal) {
      if (refusal.code !== "budget_exceeded") return;
      const { window } = refusal.shortage;
      if (refusals.size < refusedMax)
        refusals.set(`${window.budget.id} ${window.subject} ${window.start}`, refusal.shortage);
      spent();
    },
    evaluate: everything.run,
    async [Symbol.asyncDispose]() {
      await everything[Symbol.asyncDispose]();
      await budgets[Symbol.asyncDispose]();
      if (hasSpent) await evaluateBudgets().catch(onError);
    },
  };
}

/** Returns the alerts about the gateway's account and about old holds. */
async function accountAlerts(deps: AlertDeps): Promise<Alert[]> {
  const { ledger, clock, rules } = deps;
  const day = dayOf(deps.calendar, clock.now());
  const [balance, drift, old] = await Promise.all([
    balanceNow(deps),
    deps.drift(),
    ledger.oldHolds(clock.now() - rules.unsettledMs),
  ]);
  const isWatched = rules.balanceFloor !== null || rules.hoursMin !== null;
  const limits = { floor: rules.balanceFloor, hoursMin: rules.hoursMin };
  return [
    ...(balance === null || !isWatched
      ? []
      : balanceAlerts({ balance, burnPerHour: await deps.burnPerHour() }, limits, day)),
    ...(drift === null ? [] : driftAlerts(drift, day)),
    ...unsettledAlerts(
      old.map(({ at }) => at),
      rules.unsettledMs,
      day,
    ),
  ];
}

async function balanceNow({ samples, clock }: AlertDeps): Promise<PicoUsd | null> {
  const sample = await samples.latest();
  if (sample === undefined || clock.now() - sample.askedAt > sampleMsMax) return null;
  return (scaledFigure(sample.figures.equivalent_in_usd) ?? null) as PicoUsd | null;
}

/**
 * Returns a function that puts new alerts into the outbox. The next evaluation finds alerts again that could not be
 * written.
 */
function alertRaiser(deps: AlertDeps): (alerts: readonly Alert[]) => Promise<void> {
  const { clock, outbox, target, newId } = deps;
  /** Keys of alerts that are known to be in the outbox. It is a cache: the outbox itself rejects all other duplicates. */
  const raised = new Set<string>();
  return async (alerts) => {
    const fresh = alerts.filter(({ dedupeKey }) => !raised.has(dedupeKey));
    if (fresh.length === 0) return;
    const nameOf = await deps.names();
    const at = clock.now();
    const added: AlertMessage[] = [];
    for (let from = 0; from < fresh.length; from += putAtOnce) {
      const part = fresh.slice(from, from + putAtOnce);
      const messages = part.map((alert) => ({ alert, message: alertMessage(alert, { id: newId(), at, nameOf }) }));
      const ids = await outbox.put(messages.map(({ alert, message }) => newMessage(alert, message, at, target)));
      if (ids === undefined) break;
      if (raised.size > raisedMax) raised.clear();
      for (const { dedupeKey } of part) raised.add(dedupeKey);
      added.push(...messages.map(({ message }) => message).filter(({ id }) => ids.includes(id)));
    }
    if (added.length === 0) return;
    for (const { type } of added) deps.countAlert(type);
    deps.log.warn(
      { alerts: added.length, first: added.slice(0, 5).map(({ type, text }) => ({ type, text })) },
      "alerts raised",
    );
    deps.wakeDelivery();
  };
}

function newMessage(alert: Alert, message: AlertMessage, at: number, target: string | null): NewMessage {
  const { dedupeKey, keyUntil } = alert;
  return {
    id: message.id,
    kind: "alert",
    target,
    dedupeKey,
    keyUntil,
    payload: JSON.stringify(message),
    createdAt: at,
  };
}

function dayOf(calendar: Calendar, at: number): Day {
  const { start, end } = calendar.spanOf("1d", at);
  return { start, end: end ?? start };
}
