import { proxyChoice } from "../config/outbound.ts";
import type { Settings } from "../config/settings.ts";
import type { AddressRule } from "../core/addresses.ts";
import { startDelivery, type Delivery, type Destination, type NoDestination } from "../jobs/delivery.ts";
import { createSigner } from "../wire/webhook-signature.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { Message } from "../ports/outbox.ts";
import type { Seal } from "../ports/seal.ts";
import type { Store } from "../ports/stores.ts";
import { openPayload } from "../request/task-webhooks.ts";
import { createWebhookSender } from "../gateway/webhooks/webhook-sender.ts";
import type { FleetMember } from "./fleet.ts";
import { randomUUIDv7 } from "node:crypto";
import { startAlerts, type Alerts } from "../jobs/alerts.ts";
import { burnPerHour } from "../reporting/balance.ts";
import { keyNames } from "../reporting/names.ts";
import type { differenceOfDay } from "./figures.ts";

/** Name of the target of all alerts. */
const alertTarget = "alert webhook";

/**
 * Returns the rule for the addresses of clients' webhooks. It is strict by default, because Farebox may reach addresses
 * that its clients cannot.
 */
export function taskWebhookRule({ webhook }: Settings): AddressRule {
  return webhook.private ? "administrator" : "strict";
}

/** Parts of a running proxy that its jobs use. */
export interface JobDeps {
  readonly store: Store;
  readonly calendar: Calendar;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly fleet: FleetMember;
}

/** Starts the delivery of a running proxy's outbox. */
export function startDelivering(
  settings: Settings,
  { store: { outbox }, clock, log, metrics, fleet }: JobDeps,
  seal: Seal,
): Delivery {
  const destinationOf = async (message: Message): Promise<Destination | NoDestination> =>
    message.kind === "alert" ? alertDestination(settings, message) : taskDestination(settings, seal, message);
  const delivery = startDelivery({
    outbox,
    clock,
    log,
    destinationOf,
    sender: createWebhookSender({ clock, choose: proxyChoice(settings.outbound) }),
    random: Math.random,
    countResult: metrics.outbox.delivery,
    claim: fleet.jobs.of("deliveries"),
  });
  fleet.on("queued", delivery.wake);
  return delivery;
}

function alertDestination(
  { alerts: { webhook, secret } }: Settings,
  { target, payload }: Message,
): Destination | NoDestination {
  if (webhook === null || target !== alertTarget) return { gone: "the alert webhook is no longer set" };
  return {
    url: webhook.reveal(),
    rule: "administrator",
    body: payload,
    headers: createSigner(secret?.reveal() ?? null),
  };
}

/** Returns the request that the gateway would send to the client: the payload, with the client's secret in a header. */
function taskDestination(settings: Settings, seal: Seal, message: Message): Destination | NoDestination {
  const opened = openPayload(seal, message);
  if (opened === undefined) return { gone: "it was sealed with another gateway key" };
  const { endpoint, secret, body } = opened;
  const headers = secret === "" ? {} : { "x-webhook-secret": headerText(secret) };
  return { url: endpoint, rule: taskWebhookRule(settings), body, headers: () => headers };
}

/**
 * Encodes a text for a header. Node writes each character of a header as one byte, so each byte of the UTF-8 text
 * becomes one character.
 */
function headerText(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}

/** Starts the alerts of a running proxy. Dispose of them before disposing of their delivery. */
export function startAlerting(
  { alerts: settings }: Settings,
  deps: JobDeps,
  drift: ReturnType<typeof differenceOfDay>,
): Alerts {
  const { store, clock, metrics, fleet } = deps;
  const alerts = startAlerts({
    ...store,
    ...deps,
    drift,
    rules: settings,
    target: settings.webhook === null ? null : alertTarget,
    newId: randomUUIDv7,
    names: () => keyNames(store.keys),
    burnPerHour: () => burnPerHour(store.ledger, clock.now()),
    countAlert: metrics.outbox.alert,
    wakeDelivery: fleet.report.queued,
    claim: fleet.jobs.of("alerts"),
  });
  fleet.on("posted", alerts.spent);
  return alerts;
}
