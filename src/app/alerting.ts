import { randomUUIDv7 } from "node:crypto";
import type { Settings } from "../config/settings.ts";
import { startAlerts, type Alerts } from "../jobs/alerts.ts";
import type { JobClaim } from "../jobs/job-claims.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { Log } from "../ports/log.ts";
import { burnPerHour } from "../reporting/balance.ts";
import { keyNames } from "../reporting/names.ts";
import type { Store } from "../store/store.ts";
import { alertTarget } from "./delivering.ts";
import type { differenceOfDay } from "./figures.ts";

export interface AlertingParts {
  readonly store: Store;
  readonly calendar: Calendar;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly drift: ReturnType<typeof differenceOfDay>;
  /** Something was put into the outbox. */
  readonly wakeDelivery: () => void;
  readonly claim: JobClaim;
}

/** Alerts of a running proxy; ended by what owns them, before their delivery. */
export function startAlerting(
  { alerts: settings }: Settings,
  parts: AlertingParts,
  owned: AsyncDisposableStack,
): Alerts {
  const { store, calendar, clock, log, metrics } = parts;
  const { ledger, samples, outbox } = store;
  return owned.use(
    startAlerts({
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
      drift: parts.drift,
      countAlert: metrics.outbox.alert,
      wakeDelivery: parts.wakeDelivery,
      claim: parts.claim,
    }),
  );
}

/** The events as they are counted, heard by the alerts too. */
export function heardBy(alerts: Pick<Alerts, "spent" | "refused">, events: Events): Events {
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
