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

/** Raises alerts while a proxy runs. Disposing of it evaluates the budgets once more, where something was spent since. */
export interface Alerts extends AsyncDisposable {
  /** Something was spent: the budgets are evaluated within a second. Returns at once. */
  spent(): void;
  /** A request was refused. Returns at once. */
  refused(refusal: Refusal): void;
  /** Evaluates everything now. */
  evaluate(): Promise<void>;
}

interface AlertRules {
  /** Alert below this balance; null for never. */
  readonly balanceFloor: PicoUsd | null;
  /** Alert when the balance lasts for fewer hours than this; null for never. */
  readonly hoursMin: number | null;
  /** Alert on holds that are older, in milliseconds. */
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
  /** Target of the outbox for alerts; null to keep them for the record only. */
  readonly target: string | null;
  readonly newId: () => string;
  /** Returns the present names of keys by their ids. */
  readonly names: () => Promise<(keyId: string) => string | null>;
  /** Returns the recent cost of an hour. */
  readonly burnPerHour: () => Promise<PicoUsd>;
  /** Returns the gateway's bill compared with the last day's samples; null while it is not known. */
  readonly drift: () => Promise<{ readonly difference: PicoUsd; readonly unexplained: PicoUsd } | null>;
  /** Counts each new alert. */
  readonly countAlert: (type: AlertType) => void;
  /** Called after new messages were put into the outbox. */
  readonly wakeDelivery: () => void;
  /** The claim to evaluate the ledger. Every proxy reports its own refusals: the outbox takes each alert once. */
  readonly claim: JobClaim;
}

/** Least pause between two evaluations of the budgets. Milliseconds. */
const budgetPauseMs = 1_000;
/** Where there are so many windows that an evaluation takes long, it takes at most this share of the time. */
const budgetShareMax = 1 / 20;
/** Between two evaluations of everything. Milliseconds. */
const periodMs = 60_000;
/** An older sample says nothing of the balance now. Without traffic there is one an hour. Milliseconds. */
const sampleMsMax = 2 * 3_600_000;
/** Most windows of one evaluation; the next one takes the rest. */
const windowsMax = 500;
/** Messages in one transaction: a hold must not wait for many. */
const putAtOnce = 100;
/** Refused windows that are remembered until they are evaluated; keys that are known to be in the outbox. */
const refusedMax = 10_000;
const raisedMax = 100_000;

export function startAlerts(deps: AlertDeps): Alerts {
  const { ledger, clock, calendar, log, claim } = deps;
  const refusals = new Map<string, Shortage>();
  const raise = alertRaiser(deps);
  let lastAt: number | null = null;
  let hasSpent = false;
  /** Duration of the last evaluation of the budgets. */
  let budgetsMs = 0;

  /** The alerts of present windows, and after the turn of an hour of those that have just ended. */
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

/** The alerts of the gateway's account and of old holds. */
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

/** Returns what puts new alerts into the outbox. An alert that cannot be written is found again by the next evaluation. */
function alertRaiser(deps: AlertDeps): (alerts: readonly Alert[]) => Promise<void> {
  const { clock, outbox, target, newId } = deps;
  /** Keys of alerts that are known to be in the outbox. The outbox itself knows the rest. */
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
