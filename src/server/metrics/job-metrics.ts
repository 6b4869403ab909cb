import type { Registry } from "prom-client";
import { alertTypes, type AlertType } from "../../core/alerts.ts";
import { messageKinds, type MessageKind } from "../../ports/outbox.ts";
import { jobNames, type JobName } from "../../ports/fleet.ts";
import { counter, gauge } from "./gauges.ts";

const results = ["delivered", "failed", "given_up"] as const;

/** Counts alerts and results of deliveries. */
export interface OutboxCounts {
  alert(type: AlertType): void;
  /** Counts one attempt to deliver a message: `failed` if Farebox will retry it, `given_up` if not. */
  delivery(kind: MessageKind, result: (typeof results)[number]): void;
}

export function outboxCounts(registry: Registry): OutboxCounts {
  const alerts = counter(
    registry,
    "farebox_alerts_total",
    "Alerts raised, by type. Each is raised once for a window and threshold.",
    ["type"],
  );
  const deliveries = counter(registry, "farebox_outbox_deliveries_total", "Attempts to deliver a message, by result.", [
    "kind",
    "result",
  ]);
  for (const type of alertTypes) alerts.labels(type).inc(0);
  for (const kind of messageKinds) for (const result of results) deliveries.labels(kind, result).inc(0);
  return {
    alert: (type) => alerts.labels(type).inc(),
    delivery: (kind, result) => deliveries.labels(kind, result).inc(),
  };
}

/** Counts reloads of the price files. */
export interface PriceReloads {
  /** Counts a successful reload. `at` is in milliseconds since 1970 UTC. */
  ok(at: number): void;
  refused(): void;
}

/**
 * Creates the counter and gauges of price reloads. Their names are like those of Prometheus' metrics for its own
 * configuration. The gauges, but not the counter, also cover the load at the start.
 */
export function priceReloads(registry: Registry, loadedAt: number): PriceReloads {
  const reloads = counter(registry, "farebox_price_reloads_total", "Reads of changed price files, by result.", [
    "result",
  ]);
  const isLastAccepted = gauge(
    registry,
    "farebox_price_last_reload_successful",
    "1 if the price files that were read last were accepted, 0 if they were refused.",
  );
  const acceptedAt = gauge(
    registry,
    "farebox_price_last_reload_success_timestamp_seconds",
    "Time at which the prices in force were read, in seconds since 1970.",
  );
  for (const result of ["ok", "refused"]) reloads.labels(result).inc(0);
  isLastAccepted.set(1);
  acceptedAt.set(loadedAt / 1000);
  return {
    ok(at) {
      reloads.labels("ok").inc();
      isLastAccepted.set(1);
      acceptedAt.set(at / 1000);
    },
    refused() {
      reloads.labels("refused").inc();
      isLastAccepted.set(0);
    },
  };
}

/** Gauges of the proxies that share the ledger. */
export interface FleetGauges {
  /** Sets the gauges of live peers. `catalogueDiffers` is true if a peer's prices in force differ from this proxy's. */
  onBeat(peers: number, catalogueDiffers: boolean): void;
  /** Makes each scrape show which jobs this proxy runs. Before this call, scrapes show that it runs all jobs. */
  showJobs(isMine: (job: JobName) => boolean): void;
}

export function fleetGauges(registry: Registry): FleetGauges {
  let isMine = (_job: JobName): boolean => true;
  const peers = gauge(registry, "farebox_peers", "Other live proxies on the same ledger.");
  const differs = gauge(
    registry,
    "farebox_catalogue_differs",
    "1 while the prices in force of a live peer differ from this proxy's.",
  );
  gauge(
    registry,
    "farebox_duty_held",
    "1 if this proxy runs a job for all proxies on the ledger. Only one proxy runs a job at a time.",
    {
      // The label cannot be `job`, which Prometheus itself adds to name the scrape.
      labels: ["duty"],
      read(held) {
        for (const job of jobNames) held.labels(job).set(isMine(job) ? 1 : 0);
      },
    },
  );
  return {
    onBeat(count, catalogueDiffers) {
      peers.set(count);
      differs.set(catalogueDiffers ? 1 : 0);
    },
    showJobs: (given) => void (isMine = given),
  };
}
