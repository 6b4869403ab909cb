import { formatUsdOrNull } from "../../../core/money.ts";
import type { Preset } from "../../../core/price.ts";
import { everyKey } from "../../../core/slices.ts";
import { dayMs, isoTime, isoTimeOrNull, minuteMs } from "../../../core/time.ts";
import type { AccountSamples, KeyStore } from "../../../ports/stores.ts";
import type { Charging, LedgerQueries } from "../../../ports/ledger.ts";
import type { Outbox } from "../../../ports/outbox.ts";
import type { GatewayHealth } from "../../../reporting/gateway-watch.ts";
import { keyNamesIn } from "../../../reporting/names.ts";
import { newestReview } from "../../../reporting/prices.ts";
import {
  groupsExplaining,
  reconciliationJson,
  runReconciliation,
  whyNotReconciled,
} from "../../../reporting/reconciliation.ts";
import { type HealthJson, healthSchema } from "../../../reporting/shapes/health.ts";
import { listAlerts } from "./alerts.ts";
import { found, routesFor, type Timed, type WithPrices } from "./route.ts";

/** Age from which a pending hold is listed, in milliseconds. */
const oldHoldMs = 5 * minuteMs;
const oldHoldsMax = 20;
const alertsMax = 20;

/** State of a running process. Times are in milliseconds since 1970 UTC. */
export interface ProcessHealth {
  readonly version: string;
  readonly startedAt: number;
  readonly preset: Preset;
  ready(): Promise<boolean>;
  gateway(): GatewayHealth;
}

interface HealthTools extends Pick<Timed, "clock">, WithPrices {
  readonly ledger: LedgerQueries & Charging;
  readonly keys: KeyStore;
  readonly samples: AccountSamples;
  readonly outbox: Outbox;
  readonly process: ProcessHealth;
}

const route = routesFor<HealthTools>();

export const healthRoutes = [
  route("GET /health", {
    role: "viewer",
    summary: "Reconciliation, pending holds, the gateway's errors, alerts",
    answer: healthSchema,
    handle: async (tools) => found(await runHealth(tools, tools.clock.now())),
  }),
];

/**
 * Returns the health of the process: reconciliation, pending holds, stream bursts, the gateway's errors, alerts and
 * prices.
 */
async function runHealth(
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
    prices: {
      preset: process.preset,
      digest: prices.digest,
      models: prices.list(now).length,
      ...newestReview(prices, now),
    },
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
