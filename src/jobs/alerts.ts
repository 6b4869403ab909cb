import {
  alertGroups,
  balanceAlerts,
  budgetAlerts,
  driftAlerts,
  raiseRequestAlerts,
  refusalAlerts,
  unsettledAlerts,
  type Alert,
  type AlertType,
  type Day,
} from "../core/alerts.ts";
import { scaledFigure } from "../core/account.ts";
import type { Shortage } from "../core/budget.ts";
import { isByUserOrTag, namedScope, withoutUsers } from "../core/scope.ts";
import type { PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import type { AccountSamples, RaiseRequests } from "../ports/stores.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import type { BudgetStore, LedgerQueries } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { NewMessage, Outbox } from "../ports/outbox.ts";
import { loop } from "../platform/loop.ts";
import { alertMessage, timesIn, type AlertMessage } from "../wire/alert-message.ts";
import type { JobClaim } from "./job-claims.ts";
import { hourMs, minuteMs } from "../core/time.ts";

/**
 * Raises alerts while a proxy runs. Disposal evaluates the budgets once more if `spent` or `refused` was called since
 * their last evaluation, or if its alerts about refusals could not be written.
 */
export interface Alerts extends AsyncDisposable {
  /**
   * Reports that something was spent or a raise was requested, and returns immediately. The evaluation of the budgets
   * starts soon, usually after a second.
   */
  spent(): void;
  /** Reports a refused request, and returns immediately. */
  refused(refusal: Refusal): void;
  /** Evaluates everything now. */
  evaluate(): Promise<void>;
}

interface AlertRules {
  /** Balance below which an alert is raised; null for never. */
  readonly balanceFloor: PicoUsd | null;
  /**
   * Number of hours for which the balance must last. A balance that lasts for fewer hours raises an alert; null for no
   * alert.
   */
  readonly hoursMin: number | null;
  /** Age above which a hold raises an alert, in milliseconds. */
  readonly unsettledMs: number;
}

interface AlertDeps {
  readonly ledger: LedgerQueries & BudgetStore;
  readonly samples: AccountSamples;
  readonly raiseRequests: Pick<RaiseRequests, "list">;
  readonly outbox: Outbox;
  readonly calendar: Calendar;
  readonly clock: Clock;
  readonly log: Log;
  readonly rules: AlertRules;
  /** Target to which the outbox sends alerts; null to record them without sending. */
  readonly target: string | null;
  readonly newId: () => string;
  /** Returns a function that finds the current name of a key by its id. */
  readonly names: () => Promise<(keyId: string) => string | null>;
  /** Returns the recent cost per hour. */
  readonly burnPerHour: () => Promise<PicoUsd>;
  /** Compares gateway and ledger over the last day. Returns null while the result is not known. */
  readonly drift: () => Promise<{ readonly difference: PicoUsd; readonly unexplained: PicoUsd } | null>;
  /** Counts each new alert. */
  readonly countAlert: (type: AlertType) => void;
  /** Called after new messages have been put into the outbox. */
  readonly wakeDelivery: () => void;
  /**
   * Claim to evaluate the ledger. Alerts about refusals need no claim, because the outbox accepts each alert only once.
   */
  readonly claim: JobClaim;
}

/** Shortest pause between two evaluations of the budgets, in milliseconds. */
const budgetPauseMs = 1_000;
/**
 * Largest share of time that evaluations of the budgets take. This limit matters only if many windows make each
 * evaluation slow.
 */
const budgetShareMax = 1 / 20;
/** Period between two evaluations of everything, in milliseconds. */
const periodMs = minuteMs;
/**
 * Largest age of a sample whose balance counts as current, in milliseconds. Without traffic, samples are an hour apart.
 */
const sampleMsMax = 2 * hourMs;
/** Largest number of windows in an evaluation. The next evaluation covers the remaining windows. */
const windowsMax = 500;
/** Largest number of hours whose windows an evaluation covers. More than two occur only if alerts cannot be stored. */
const hoursMax = 24;
/** Largest number of open requests for raises in an evaluation. */
const requestsMax = 200;
/** Largest number of messages in a transaction. It is small because a hold may wait for the transaction. */
const messagesAtOnceMax = 100;
/** Largest number of deduplication keys to look up at once. */
const knownAtOnceMax = 1_000;
/** Largest number of windows with refusals to remember until their alerts are stored. */
const refusedMax = 10_000;
/** Largest number of deduplication keys to remember for alerts that are in the outbox. */
const raisedMax = 100_000;

export function startAlerts(deps: AlertDeps): Alerts {
  const { ledger, clock, calendar, log, claim } = deps;
  /** Latest refusals whose alerts are not stored yet, by window. */
  const refusals = new Map<string, Shortage>();
  const raise = alertRaiser(deps);
  /**
   * Time of the latest evaluation in each hour, by the start of the hour. Reset when all alerts of an evaluation are
   * stored. Until then, the next evaluation covers the windows at all these times.
   */
  const evaluationTimes = new Map<number, number>();
  let areBudgetsDue = false;
  /** Duration of the latest query for windows to alert, in milliseconds. */
  let budgetsMs = 0;

  /** Returns the alerts of the windows at each of the times. `isCut`: true if there are more. */
  const windowAlerts = async (times: readonly number[]) => {
    const startedAt = clock.monotonic();
    const found = await Promise.all(times.map((at) => ledger.windowsToAlert(at, windowsMax)));
    budgetsMs = clock.monotonic() - startedAt;
    // A long window is current at several of the times.
    const alerts = new Map(budgetAlerts(found.flat()).map((alert) => [alert.dedupeKey, alert]));
    return { alerts: [...alerts.values()], isCut: found.some(({ length }) => length === windowsMax) };
  };
  const requestAlerts = async (at: number): Promise<Alert[]> =>
    raiseRequestAlerts(await deps.raiseRequests.list({ isOpen: true, at, limit: requestsMax }));
  const evaluateBudgets = async (): Promise<void> => {
    const now = clock.now();
    areBudgetsDue = false;
    const shortages = [...refusals];
    const hour = calendar.spanOf("1h", now).start;
    evaluationTimes.delete(hour);
    evaluationTimes.set(hour, now);
    const [oldestHour = hour] = evaluationTimes.keys();
    if (evaluationTimes.size > hoursMax) evaluationTimes.delete(oldestHour);
    const { alerts, isCut } = claim.isMine()
      ? await windowAlerts([...evaluationTimes.values()])
      : { alerts: [], isCut: false };
    if (isCut) spent();
    const requested = claim.isMine() ? await requestAlerts(now) : [];
    const areStored = await raise([
      ...alerts,
      ...requested,
      ...refusalAlerts(shortages.map(([, shortage]) => shortage)),
    ]);
    if (!areStored) return;
    for (const [name, shortage] of shortages) if (refusals.get(name) === shortage) refusals.delete(name);
    if (isCut) return;
    evaluationTimes.clear();
    evaluationTimes.set(hour, now);
  };
  const evaluateAll = async (): Promise<void> => {
    await budgets.run();
    if (claim.isMine()) await raise(await accountAlerts(deps));
  };

  const onError = (error: unknown): void => log.error({ err: error }, "alerts could not be evaluated");
  const budgets = loop(clock, evaluateBudgets, { firstMs: Infinity, everyMs: Infinity, onError });
  const everything = loop(clock, evaluateAll, { firstMs: budgetPauseMs, everyMs: periodMs, onError });
  const spent = (): void => {
    if (areBudgetsDue) return;
    areBudgetsDue = true;
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
      if (areBudgetsDue || refusals.size > 0) await evaluateBudgets().catch(onError);
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
 * Returns a function that puts new alerts into the outbox. It returns false if an alert could not be written. The next
 * evaluation finds such an alert again.
 */
function alertRaiser(deps: AlertDeps): (alerts: readonly Alert[]) => Promise<boolean> {
  const { clock, outbox, target, newId, calendar } = deps;
  const timeText = timesIn(calendar.timeZone);
  /**
   * Cache of the deduplication keys of alerts that are in the outbox. The outbox itself rejects duplicates that the
   * cache lacks.
   */
  const raised = new Set<string>();
  const isFresh = ({ dedupeKey }: Alert) => !raised.has(dedupeKey);
  /**
   * Returns the messages to add. Farebox sends only the first message of a group, which names some of the group's other
   * alerts. It only records the messages of these other alerts.
   */
  const messagesOf = async (alerts: readonly Alert[]) => {
    const grouped = alertGroups(alerts.filter(isFresh))
      .filter(({ others }) => others.length > 0)
      .flatMap(({ alert, others }) => [alert, ...others].map(({ dedupeKey }) => dedupeKey));
    for (let from = 0; from < grouped.length; from += knownAtOnceMax)
      for (const key of await outbox.known(grouped.slice(from, from + knownAtOnceMax))) raised.add(key);
    return alertGroups(alerts.filter(isFresh)).flatMap((group) => [
      { ...group, to: target },
      ...group.others.map((alert) => ({ alert, others: [], to: null })),
    ]);
  };
  return async (alerts) => {
    const fresh = await messagesOf(alerts);
    if (fresh.length === 0) return true;
    const nameOf = await deps.names();
    const at = clock.now();
    const added: { readonly alert: Alert; readonly message: AlertMessage }[] = [];
    let areStored = true;
    for (let from = 0; from < fresh.length; from += messagesAtOnceMax) {
      const part = fresh.slice(from, from + messagesAtOnceMax);
      const messages = part.map(({ to, ...group }) => ({
        alert: group.alert,
        to,
        message: alertMessage(group, { id: newId(), at, nameOf, timeText }),
      }));
      const ids = await outbox.put(messages.map(({ alert, message, to }) => newMessage(alert, message, at, to)));
      if (ids === undefined) {
        areStored = false;
        break;
      }
      if (raised.size > raisedMax) raised.clear();
      for (const { alert } of part) raised.add(alert.dedupeKey);
      added.push(...messages.filter(({ message }) => ids.includes(message.id)));
    }
    if (added.length === 0) return areStored;
    for (const { alert } of added) deps.countAlert(alert.type);
    deps.log.warn(
      { alerts: added.length, first: added.slice(0, 5).map((each) => loggedAlert(each, nameOf)) },
      "alerts raised",
    );
    deps.wakeDelivery();
    return areStored;
  };
}

/**
 * Returns the log fields of an alert. They contain the alert's text, unless its budget is by user or tag. The log must
 * not contain users or tag values that clients state.
 */
function loggedAlert(
  { alert, message: { type, text } }: { readonly alert: Alert; readonly message: AlertMessage },
  nameOf: (keyId: string) => string | null,
) {
  const budget =
    "window" in alert ? alert.window.budget : alert.type === "raise_requested" ? alert.request.budget : null;
  if (budget === null || !isByUserOrTag(budget.scope)) return { type, text };
  return { type, budget: `${namedScope(withoutUsers(budget.scope), nameOf)} per ${budget.period}` };
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
