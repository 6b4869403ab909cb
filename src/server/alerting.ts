import { randomUUIDv7 } from "node:crypto";
import type { Settings } from "../config/settings.ts";
import { startAlerts, type Alerts } from "../jobs/alerts.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { Log } from "../ports/log.ts";
import { burnPerHour } from "../reporting/balance.ts";
import { keyNames } from "../reporting/names.ts";
import type { Store } from "../ledger/store.ts";
import { alertTarget } from "./delivering.ts";
import type { differenceOfDay } from "./figures.ts";
import type { FleetMember } from "./fleet.ts";

interface AlertingDeps {
  readonly store: Store;
  readonly calendar: Calendar;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly drift: ReturnType<typeof differenceOfDay>;
  readonly fleet: FleetMember;
}

/** Starts the alerts of a running proxy. Dispose of them before disposing of their delivery. */
export function startAlerting({ alerts: settings }: Settings, deps: AlertingDeps): Alerts {
  const { store, calendar, clock, log, metrics, fleet } = deps;
  const { ledger, samples, outbox } = store;
  const alerts = startAlerts({
    ledger,
    samples,
    outbox,
    calendar,
    clock,
    log,
    rules: settings,
    target: settings.webhook === null ? null : alertTarget,
    newId: randomUUIDv7,
    names: () => keyNames(store.keys),
    burnPerHour: () => burnPerHour(ledger, clock.now()),
    drift: deps.drift,
    countAlert: metrics.outbox.alert,
    wakeDelivery: () => fleet.did("queued"),
    claim: fleet.jobs.of("alerts"),
  });
  fleet.on("posted", alerts.spent);
  return alerts;
}

/** Returns events that are also passed to the alerts. */
export function withAlerts(events: Events, alerts: Pick<Alerts, "spent" | "refused">): Events {
  return {
    ...events,
    posted(event) {
      events.posted(event);
      alerts.spent();
    },
    refused(refusal) {
      events.refused(refusal);
      alerts.refused(refusal);
    },
  };
}
