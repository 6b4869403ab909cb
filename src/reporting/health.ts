import { formatUsdOrNull } from "../core/money.ts";
import { everyKey } from "../core/slices.ts";
import type { AccountSamples } from "../ports/account-samples.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { Charging, LedgerQueries } from "../ports/ledger.ts";
import type { Outbox } from "../ports/outbox.ts";
import { listAlerts } from "./alerts.ts";
import { dayMs, isoTime, isoTimeOrNull, minuteMs } from "../core/time.ts";
import { keyNamesIn } from "./names.ts";
import { newestReview } from "./prices.ts";
import { groupsExplaining, reconciliationJson, runReconciliation, whyNotReconciled } from "./reconciliation.ts";
import type { HealthJson } from "./shapes/health.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events, RequestEnded } from "../ports/events.ts";

/** Age from which a pending hold is listed, in milliseconds. */
const oldHoldMs = 5 * minuteMs;
const oldHoldsMax = 20;
const alertsMax = 20;

/** State of a running process. Times are in milliseconds since 1970 UTC. */
export interface ProcessHealth {
  readonly version: string;
  readonly startedAt: number;
  ready(): Promise<boolean>;
  gateway(): GatewayHealth;
}

/**
 * Counts of the gateway's answers since `since`. `byStatus` counts only errors. `minutes`: the last 60 minutes
 * including the current one, oldest first.
 */
export interface GatewayHealth {
  readonly since: number;
  readonly requests: number;
  readonly errors: number;
  readonly byStatus: ReadonlyMap<number, number>;
  readonly minutes: readonly { readonly start: number; readonly requests: number; readonly errors: number }[];
  /** Latest errors, newest first. */
  readonly last: readonly {
    readonly id: string;
    readonly at: number;
    readonly model: string | null;
    readonly status: number;
  }[];
}

interface HealthTools {
  readonly ledger: LedgerQueries & Charging;
  readonly keys: KeyStore;
  readonly samples: AccountSamples;
  readonly outbox: Outbox;
  readonly catalogue: () => Catalogue;
  readonly process: ProcessHealth;
}

/**
 * Returns the health of the process: reconciliation, pending holds, stream bursts, the gateway's errors, alerts and
 * prices.
 */
export async function runHealth(
  { ledger, keys, samples, outbox, catalogue, process }: HealthTools,
  now: number,
): Promise<HealthJson> {
  const [reconciled, pending, old, alerts, ready, bursts] = await Promise.all([
    runReconciliation({ ledger, samples }, { since: now - dayMs, until: now + 1 }),
    ledger.pending(),
    ledger.oldHolds(now - oldHoldMs),
    listAlerts({ outbox }, { limit: alertsMax }),
    process.ready(),
    ledger.burstMarks(null, now),
  ]);
  const marks = bursts.ok ? bursts.marks : [];
  const shown = old.slice(0, oldHoldsMax);
  const nameOf = await keyNamesIn(keys, [...shown, ...marks]);
  const prices = catalogue();
  const explanations = reconciled.ok ? await groupsExplaining(ledger, prices, reconciled.reconciliation) : [];
  return {
    now: isoTime(now),
    version: process.version,
    started_at: isoTime(process.startedAt),
    ready,
    reconciliation: reconciled.ok ? reconciliationJson(reconciled.reconciliation, explanations) : null,
    reconciliation_missing: reconciled.ok ? null : whyNotReconciled(reconciled.reason),
    pending: {
      count: pending.count,
      oldest_at: isoTimeOrNull(pending.oldestAt),
      old: shown.map(({ id, key, at, amount, isOrphaned }) => ({
        request_id: id,
        key: nameOf(key),
        held_since: isoTime(at),
        hold_usd: formatUsdOrNull(amount),
        orphaned: isOrphaned,
      })),
    },
    stream_bursts: marks.map(({ key, model, at, live }) => ({
      model,
      key: key === everyKey ? null : (nameOf(key) ?? key),
      all_keys: key === everyKey,
      since: isoTime(at),
      live_streams: live,
    })),
    gateway: gatewayJson(process.gateway()),
    alerts: { day: alerts.alerts.filter(({ time }) => Date.parse(time) >= now - dayMs).length, latest: alerts.alerts },
    prices: { digest: prices.digest, models: prices.list(now).length, ...newestReview(prices, now) },
  };
}

function gatewayJson({ since, requests, errors, byStatus, minutes, last }: GatewayHealth): HealthJson["gateway"] {
  return {
    since: isoTime(since),
    requests,
    errors,
    by_status: Object.fromEntries(
      [...byStatus].sort(([a], [b]) => a - b).map(([status, count]) => [String(status), count]),
    ),
    minutes: {
      starts: minutes.map(({ start }) => isoTime(start)),
      requests: minutes.map((minute) => minute.requests),
      errors: minutes.map((minute) => minute.errors),
    },
    last: last.map(({ id, at, model, status }) => ({ request_id: id, time: isoTime(at), model, status })),
  };
}

const minutesShown = 60;
const minutesKept = 24 * 60;
const errorsKept = 20;
/** Status of a request whose client disconnected. */
const clientLeftStatus = 499;

interface Minute {
  readonly start: number;
  requests: number;
  errors: number;
  readonly byStatus: Map<number, number>;
}

/** Counts the gateway's responses to this proxy by minute. Keeps the counts of the last day, in memory only. */
export class GatewayWatch {
  readonly #clock: Clock;
  readonly #startedAt: number;
  /** Minutes with requests, oldest first. */
  #minutes: Minute[] = [];
  #last: { readonly id: string; readonly at: number; readonly model: string | null; readonly status: number }[] = [];

  readonly events: Pick<Events, "requestEnded"> = { requestEnded: (event) => this.#ended(event) };

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startedAt = clock.now();
  }

  /** Counts a request that reached the gateway. A client that disconnects is not an error of the gateway. */
  #ended({ id, status, model, overheadMs }: RequestEnded): void {
    if (overheadMs === null) return;
    const at = this.#clock.now();
    const minute = this.#minuteOf(at);
    minute.requests++;
    if (status < 400 || status === clientLeftStatus) return;
    minute.errors++;
    minute.byStatus.set(status, (minute.byStatus.get(status) ?? 0) + 1);
    this.#last = [{ id, at, model, status }, ...this.#last].slice(0, errorsKept);
  }

  health(): GatewayHealth {
    const now = this.#clock.now();
    this.#forget(now);
    const known = new Map(this.#minutes.map((minute) => [minute.start, minute]));
    const running = Math.floor(now / minuteMs) * minuteMs;
    const byStatus = new Map<number, number>();
    for (const minute of this.#minutes)
      for (const [status, count] of minute.byStatus) byStatus.set(status, (byStatus.get(status) ?? 0) + count);
    const total = (of: "requests" | "errors") => this.#minutes.reduce((sum, minute) => sum + minute[of], 0);
    return {
      since: Math.max(this.#startedAt, now - minutesKept * minuteMs),
      requests: total("requests"),
      errors: total("errors"),
      byStatus,
      minutes: Array.from({ length: minutesShown }, (_, index) => {
        const start = running - (minutesShown - 1 - index) * minuteMs;
        const { requests = 0, errors = 0 } = known.get(start) ?? {};
        return { start, requests, errors };
      }),
      last: this.#last,
    };
  }

  #minuteOf(at: number): Minute {
    const start = Math.floor(at / minuteMs) * minuteMs;
    const last = this.#minutes.at(-1);
    if (last?.start === start) return last;
    this.#forget(at);
    const minute = { start, requests: 0, errors: 0, byStatus: new Map<number, number>() };
    this.#minutes.push(minute);
    return minute;
  }

  #forget(now: number): void {
    const from = now - minutesKept * minuteMs;
    if ((this.#minutes[0]?.start ?? from) < from) this.#minutes = this.#minutes.filter(({ start }) => start >= from);
    this.#last = this.#last.filter(({ at }) => at >= from);
  }
}
