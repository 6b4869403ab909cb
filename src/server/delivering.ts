import type { Settings } from "../config/settings.ts";
import type { AddressRule } from "../core/addresses.ts";
import { startDelivery, type Delivery, type Destination, type NoDestination } from "../jobs/delivery.ts";
import { signedWith } from "../wire/webhook-signature.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { Message, Outbox } from "../ports/outbox.ts";
import type { Seal } from "../ports/seal.ts";
import { openPayload } from "../request/task-webhooks.ts";
import { createWebhookSender } from "../gateway/webhooks/webhook-sender.ts";
import type { FleetMember } from "./fleet.ts";

/** Name of the target of all alerts. */
export const alertTarget = "alert webhook";

/**
 * Returns the rule for the addresses of clients' webhooks. It is strict by default, because Farebox may reach addresses that
 * its clients cannot.
 */
export function taskWebhookRule({ webhook }: Settings): AddressRule {
  return webhook.private ? "administrator" : "strict";
}

/** Starts the delivery of a running proxy's outbox. */
export function startDelivering(
  settings: Settings,
  deps: {
    readonly outbox: Outbox;
    readonly seal: Seal;
    readonly clock: Clock;
    readonly log: Log;
    readonly metrics: Metrics;
    readonly fleet: FleetMember;
  },
): Delivery {
  const { outbox, seal, clock, log, metrics, fleet } = deps;
  const destinationOf = async (message: Message): Promise<Destination | NoDestination> =>
    message.kind === "alert" ? alertDestination(settings, message) : taskDestination(settings, seal, message);
  const delivery = startDelivery({
    outbox,
    clock,
    log,
    destinationOf,
    sender: createWebhookSender({ clock }),
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
  if (webhook === null || target !== alertTarget) return { gone: "no alert webhook is set any more" };
  return { url: webhook.reveal(), rule: "administrator", body: payload, headers: signedWith(secret?.reveal() ?? null) };
}

/** Returns the same request that the gateway would send: the payload, with the client's secret in a header. */
function taskDestination(settings: Settings, seal: Seal, message: Message): Destination | NoDestination {
  const opened = openPayload(seal, message);
  if (opened === undefined) return { gone: "it was sealed with another gateway key" };
  const { endpoint, secret, body } = opened;
  const headers = secret === "" ? {} : { "x-webhook-secret": headerText(secret) };
  return { url: endpoint, rule: taskWebhookRule(settings), body, headers: () => headers };
}

/** Encodes a text for a header: each byte of its UTF-8 becomes the character that Node writes as that byte. */
function headerText(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}
