import type { AddressRule } from "../core/addresses.ts";
import { nextTryAt, pauseMsMax } from "../core/backoff.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { Message, MessageKind, Outbox, TryResult } from "../ports/outbox.ts";
import type { SendResult, WebhookSender } from "../ports/webhook-sender.ts";
import { loop, sleep } from "../platform/loop.ts";
import { webhookHeaders } from "../wire/webhook-signature.ts";
import type { JobClaim } from "./job-claims.ts";
import { dayMs, hourMs } from "../core/time.ts";

/** Current destination of a message. */
export interface Destination {
  readonly url: string;
  readonly rule: AddressRule;
  readonly body: string;
  /** Returns headers to send in addition to the standard ones, which state the message's id and time. */
  readonly headers: (standard: Readonly<Record<string, string>>, body: string) => Readonly<Record<string, string>>;
}

/** Reason why a message has no destination and will never have one. */
export interface NoDestination {
  readonly gone: string;
}

/** Result of an attempt. A `failed` message is sent again later. */
export type DeliveryResult = "delivered" | "failed" | "given_up";

/**
 * Sends the messages of the outbox while a proxy runs. Disposal ends open requests; a proxy sends their messages again
 * later.
 */
export interface Delivery extends AsyncDisposable {
  /** Starts a delivery soon. Callers use it after they put a message into the outbox. */
  wake(): void;
  /** Resolves once nothing is being sent and nothing is due. */
  idle(): Promise<void>;
}

interface DeliveryDeps {
  readonly outbox: Outbox;
  readonly sender: WebhookSender;
  readonly clock: Clock;
  readonly log: Log;
  /** Returns a random number of at least 0 and below 1. */
  readonly random: () => number;
  readonly destinationOf: (message: Message) => Promise<Destination | NoDestination>;
  readonly countResult: (kind: MessageKind, result: DeliveryResult) => void;
  /** Claim to send messages. Delivery checks it before it sends each message. */
  readonly claim: JobClaim;
}

/**
 * Largest number of targets to serve in parallel. It is above 1, so a few targets that do not answer do not delay the
 * others.
 */
const concurrencyMax = 16;
/**
 * Time for which Farebox keeps delivered and abandoned messages for display, in milliseconds. It may keep their
 * deduplication keys longer.
 */
const keptMs = 7 * dayMs;
const tidyEveryMs = hourMs;
/** Pause after an internal error, in milliseconds. */
const afterErrorMs = 5_000;

export function startDelivery(deps: DeliveryDeps): Delivery {
  const { outbox, clock, log } = deps;
  const { isMine, onTaken } = deps.claim;
  /** Deliveries in progress, by target. */
  const busy = new Map<string, Promise<void>>();
  let tidiedAt: number | null = null;

  /** Starts the deliveries that are due, up to the limit. Returns the time until the next run, in milliseconds. */
  const startDue = async (): Promise<number> => {
    await tidy();
    if (busy.size >= concurrencyMax || !isMine()) return tidyEveryMs;
    const due = await outbox.due({
      now: clock.now(),
      except: [...busy.keys()],
      limit: concurrencyMax - busy.size,
      pauseMsMax,
    });
    for (const message of due.messages) {
      if (message.target !== null && !ending.aborted && isMine())
        busy.set(message.target, serve(message, message.target));
    }
    return due.nextTryAt === null ? tidyEveryMs : Math.min(Math.max(due.nextTryAt - clock.now(), 1), tidyEveryMs);
  };
  const serve = async (message: Message, target: string): Promise<void> => {
    try {
      await deliver(deps, message, ending);
    } catch (error) {
      log.error({ message_id: message.id, err: error }, "a delivery failed because of an internal error");
      await sleep(clock, afterErrorMs, ending);
    }
    busy.delete(target);
    wake();
  };
  const tidy = async (): Promise<void> => {
    if (!isMine()) return;
    const now = clock.now();
    if (tidiedAt !== null && now >= tidiedAt && now - tidiedAt < tidyEveryMs) return;
    tidiedAt = now;
    while (!ending.aborted && (await outbox.remove(now - keptMs, now)) > 0);
  };

  const deliveries = loop(clock, startDue, {
    everyMs: afterErrorMs,
    onError: (error) => log.error({ err: error }, "the outbox could not be read"),
  });
  const { ending, wake } = deliveries;
  onTaken(wake);
  return {
    wake,
    async idle() {
      for (;;) {
        await deliveries.run();
        if (busy.size === 0) return;
        await Promise.all(busy.values());
      }
    },
    async [Symbol.asyncDispose]() {
      const ended = deliveries[Symbol.asyncDispose]();
      await deps.sender[Symbol.asyncDispose]();
      await ended;
      await Promise.all(busy.values());
    },
  };
}

/** Tries to send a message once, and records the result. */
async function deliver(deps: DeliveryDeps, message: Message, ending: AbortSignal): Promise<void> {
  const { clock, log, outbox } = deps;
  const destination = await deps.destinationOf(message);
  const isGone = "gone" in destination;
  const sent = isGone
    ? ({ ok: false, error: destination.gone, retryAfterMs: null } as const)
    : await send(deps, message, destination);
  if (sent === undefined) return;
  const tried = tryResultOf(deps, message, sent, isGone);
  // Retries until the result is stored. Otherwise the message would be sent again.
  while (!(await outbox.tried(message.id, tried)) && !ending.aborted) await sleep(clock, afterErrorMs, ending);
  deps.countResult(message.kind, tried.kind);
  const fields = { message_id: message.id, kind: message.kind, tries: message.tries + 1 };
  if (tried.kind === "given_up") log.warn({ ...fields, reason: tried.error }, "a message was abandoned");
  else log.debug({ ...fields, result: tried.kind, reason: sent.ok ? undefined : sent.error }, "a message was sent");
}

async function send(
  { claim, clock, sender }: DeliveryDeps,
  message: Message,
  { url, rule, body, headers }: Destination,
): Promise<SendResult | undefined> {
  if (!claim.isMine()) return undefined;
  const standard = webhookHeaders(message.id, clock.now());
  return sender.send({ url, rule, headers: { ...standard, ...headers(standard, body) }, body });
}

function tryResultOf({ clock, random }: DeliveryDeps, message: Message, sent: SendResult, isGone: boolean): TryResult {
  const now = clock.now();
  if (sent.ok) return { kind: "delivered", at: now };
  const { createdAt, tries } = message;
  const { error, retryAfterMs } = sent;
  const next = isGone ? null : nextTryAt({ createdAt, tries: tries + 1, now, retryAfterMs, random: random() });
  return next === null ? { kind: "given_up", at: now, error } : { kind: "failed", error, nextTryAt: next };
}
