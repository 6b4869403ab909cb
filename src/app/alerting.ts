import { randomUUIDv7 } from "node:crypto";
import type { Settings } from "../config/settings.ts";
import { startDelivery, type Destination } from "../delivery/delivery.ts";
import { startAlerts, type Alerts } from "../jobs/alerts.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { Log } from "../ports/log.ts";
import type { Message } from "../ports/outbox.ts";
import { burnPerHour } from "../reporting/balance.ts";
import { keyNames } from "../reporting/names.ts";
import type { Store } from "../store/sqlite/open.ts";
import { createWebhookSender } from "../webhook/webhook-sender.ts";
import type { differenceOfDay } from "./figures.ts";

/** The one target of alerts. */
const alertTarget = "alert webhook";

export interface AlertingParts {
  readonly store: Store;
  readonly calendar: Calendar;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly drift: ReturnType<typeof differenceOfDay>;
}

/** Alerts of a running proxy and their delivery; ended by what owns them, the alerts first. */
export function startAlerting({ alerts: settings }: Settings, parts: AlertingParts, owned: AsyncDisposableStack): Alerts {
  const { store, calendar, clock, log, metrics } = parts;
  const { ledger, samples, outbox } = store;
  const destination: Destination | undefined =
    settings.webhook === null
      ? undefined
      : { url: settings.webhook.reveal(), rule: "administrator", secret: settings.secret?.reveal() ?? null };
  const delivery = owned.use(
    startDelivery({
      outbox, clock, log,
      sender: createWebhookSender({ clock }),
      random: Math.random,
      destinationOf: ({ target }: Message) => (target === alertTarget ? destination : undefined),
      counted: metrics.outbox.delivery,
    }),
  );
  return owned.use(
    startAlerts({
      ledger, samples, outbox, calendar, clock, log,
      rules: settings,
      target: destination === undefined ? null : alertTarget,
      newId: randomUUIDv7,
      names: () => keyNames(store.keys),
      burnPerHour: () => burnPerHour(ledger, clock.now()),
      drift: parts.drift,
      counted: metrics.outbox.alert,
      raised: () => delivery.wake(),
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
