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
import { scaledFigure } from "../core/account-sample.ts";
import type { Shortage } from "../core/budget.ts";
import type { PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import type { AccountSamples } from "../ports/account-samples.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Clock, Timer } from "../ports/clock.ts";
import type { Ledger } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { NewMessage, Outbox } from "../ports/outbox.ts";
import { alertMessage, type AlertMessage } from "../wire/alert-message.ts";
import { ownDuty, type Duty } from "./duties.ts";

/** Looks for what somebody should know while a proxy runs. Disposing of it looks at the budgets once more, where something happened since. */
export interface Alerts extends AsyncDisposable {
  /** Something was spent: the budgets are looked at within a second. Returns at once. */
  spent(): void;
  /** A request was refused. Returns at once. */
  refused(refusal: Refusal): void;
  /** Looks at everything now. */
  evaluate(): Promise<void>;
}

export interface AlertRules {
  /** The balance below which to tell; null for never. */
  readonly balanceFloor: PicoUsd | null;
  /** Tell when the balance lasts for less than so many hours; null for never. */
  readonly hoursMin: number | null;
  /** Tell of holds that are older, in milliseconds. */
  readonly unsettledMs: number;
}

export interface AlertParts {
  readonly ledger: Ledger;
  readonly samples: AccountSamples;
  readonly outbox: Outbox;
  readonly calendar: Calendar;
  readonly clock: Clock;
  readonly log: Log;
  readonly rules: AlertRules;
  /** Where alerts go: a target of the outbox; null to nobody, they are kept for the record only. */
  readonly target: string | null;
  readonly newId: () => string;
  /** The names of keys by their ids, as they are now. */
  readonly names: () => Promise<(keyId: string) => string | null>;
  /** What an hour cost lately. */
  readonly burnPerHour: () => Promise<PicoUsd>;
  /** What the last day's samples say of the gateway's bill; null while nobody knows. */
  readonly drift: () => Promise<{ readonly difference: PicoUsd; readonly unexplained: PicoUsd } | null>;
  /** Told of each new alert, before `raised`. */
  readonly counted: (type: AlertType) => void;
  /** There are new messages in the outbox. */
  readonly raised: () => void;
  /**
   * To look at the ledger; this proxy's own unless given. Of what it refuses itself every proxy tells, and the outbox takes
   * each alert once.
   */
  readonly duty?: Duty;
}

/** Budgets are looked at so long after something was spent, and no more often. Milliseconds. */
const budgetPauseMs = 1_000;
/** Where there are so many windows that a look takes long, it takes at most so much of the time. */
const lookShare = 1 / 20;
/** Everything is. Milliseconds. */
const periodMs = 60_000;
/** An older sample says nothing of the balance now. While nothing runs there is one an hour. Milliseconds. */
const sampleMsMax = 2 * 3_600_000;
/** Windows of one look: what is more is told of by the next one. */
const windowsMax = 500;
/** Messages in one transaction: a hold must not wait for many. */
const putAtOnce = 100;
/** Refused windows that are remembered until they are looked at; keys that are known to have been told. */
const refusedMax = 10_000;
const toldMax = 100_000;

export function startAlerts(parts: AlertParts): Alerts {
  const { ledger, clock, calendar, log, rules, duty = ownDuty } = parts;
  const refusals = new Map<string, Shortage>();
  /** Keys of alerts that are in the outbox for sure; it knows the others itself. */
  const told = new Set<string>();
  let lastAt: number | null = null;
  let hasMoved = false;
  let soon: Timer | null = null;
  let later: Timer | null = null;
  let running: Promise<void> = Promise.resolve();
  let ended = false;
  /** How long the last look at the budgets took. */
  let lookMs = 0;

  /** The windows of now; after the turn of an hour those that have just ended as well. */
  const budgets = async (): Promise<Alert[]> => {
    const now = clock.now();
    const hasTurned = lastAt !== null && calendar.spanOf("1h", lastAt).start !== calendar.spanOf("1h", now).start;
    const instants = lastAt !== null && hasTurned ? [lastAt, now] : [now];
    hasMoved = false;
    const shortages = [...refusals.values()];
    refusals.clear();
    if (!duty.isMine()) {
      lastAt = now;
      return refusalAlerts(shortages);
    }
    const startedAt = clock.monotonic();
    const found = await Promise.all(instants.map((at) => ledger.untoldWindows(at, windowsMax)));
    lookMs = clock.monotonic() - startedAt;
    const windows = found.flat();
    if (found.some(({ length }) => length === windowsMax)) moved();
    lastAt = now;
    return [...budgetAlerts(windows), ...refusalAlerts(shortages)];
  };
  const rest = async (): Promise<Alert[]> => {
    if (!duty.isMine()) return [];
    const day = dayOf(calendar, clock.now());
    const [balance, drift, old] = await Promise.all([
      balanceNow(),
      parts.drift(),
      ledger.oldHolds(clock.now() - rules.unsettledMs),
    ]);
    return [
      ...(await onBalance(balance, day)),
      ...(drift === null ? [] : driftAlerts(drift, day)),
      ...unsettledAlerts(
        old.map(({ at }) => at),
        rules.unsettledMs,
        day,
      ),
    ];
  };
  const balanceNow = async (): Promise<PicoUsd | null> => {
    const sample = await parts.samples.latest();
    if (sample === undefined || clock.now() - sample.askedAt > sampleMsMax) return null;
    return (scaledFigure(sample.figures.equivalent_in_usd) ?? null) as PicoUsd | null;
  };
  const onBalance = async (balance: PicoUsd | null, day: Day): Promise<Alert[]> => {
    const { balanceFloor: floor, hoursMin } = rules;
    if (balance === null || (floor === null && hoursMin === null)) return [];
    return balanceAlerts({ balance, burnPerHour: await parts.burnPerHour() }, { floor, hoursMin }, day);
  };

  /** Puts what is new into the outbox; what cannot be written is found again the next time. */
  const tell = async (alerts: readonly Alert[]): Promise<void> => {
    const fresh = alerts.filter(({ dedupeKey }) => !told.has(dedupeKey));
    if (fresh.length === 0) return;
    const nameOf = await parts.names();
    const at = clock.now();
    const added: AlertMessage[] = [];
    for (let from = 0; from < fresh.length; from += putAtOnce) {
      const part = fresh.slice(from, from + putAtOnce);
      const messages = part.map((alert) => alertMessage(alert, { id: parts.newId(), at, nameOf }));
      const ids = await parts.outbox.put(
        part.map((alert, index) => newMessage(alert, messages[index] as AlertMessage, at, parts.target)),
      );
      if (ids === undefined) break;
      if (told.size > toldMax) told.clear();
      for (const { dedupeKey } of part) told.add(dedupeKey);
      added.push(...messages.filter(({ id }) => ids.includes(id)));
    }
    if (added.length === 0) return;
    for (const { type } of added) parts.counted(type);
    log.warn(
      { alerts: added.length, first: added.slice(0, 5).map(({ type, text }) => ({ type, text })) },
      "alerts raised",
    );
    parts.raised();
  };

  /** One evaluation after the other. */
  const inTurn = (find: () => Promise<Alert[]>): Promise<void> => {
    running = running.then(async () => {
      try {
        await tell(await find());
      } catch (error) {
        log.error({ err: error }, "alerts could not be evaluated");
      }
    });
    return running;
  };
  const moved = (): void => {
    hasMoved = true;
    if (soon !== null || ended) return;
    soon = clock.after(Math.max(budgetPauseMs, lookMs / lookShare), () => {
      void inTurn(budgets).then(() => {
        soon = null;
        if (hasMoved) moved();
      });
    });
  };
  const everything = async (): Promise<void> => {
    await inTurn(budgets);
    await inTurn(rest);
  };
  const schedule = (afterMs: number): void => {
    later = clock.after(afterMs, () => {
      void everything().then(() => {
        if (!ended) schedule(periodMs);
      });
    });
  };
  schedule(budgetPauseMs);
  duty.onTaken(moved);
  return {
    spent: moved,
    refused(refusal) {
      if (refusal.code !== "budget_exceeded") return;
      const { window } = refusal.shortage;
      if (refusals.size < refusedMax)
        refusals.set(`${window.budget.id} ${window.subject} ${window.start}`, refusal.shortage);
      moved();
    },
    evaluate: everything,
    async [Symbol.asyncDispose]() {
      ended = true;
      soon?.cancel();
      later?.cancel();
      await running;
      if (hasMoved) await inTurn(budgets);
    },
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
