import type { AddressRule } from "../core/addresses.ts";
import { nextTryAt, pauseMsMax } from "../core/backoff.ts";
import type { Clock, Timer } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { Message, MessageKind, Outbox, Tried } from "../ports/outbox.ts";
import type { SendResult, WebhookSender } from "../ports/webhook-sender.ts";
import { webhookHeaders } from "./signature.ts";

/** Where a message goes now. */
export interface Destination {
  readonly url: string;
  readonly rule: AddressRule;
  /** What goes there; its id and time are added to the headers. */
  readonly body: string;
  readonly headers: (standard: Readonly<Record<string, string>>, body: string) => Readonly<Record<string, string>>;
}

/** Why a message has no destination, and never will. */
export interface NoDestination {
  readonly gone: string;
}

/** `failed` is tried again. */
export type DeliveryResult = "delivered" | "failed" | "given_up";

/** Sends what is in the outbox, for as long as a proxy runs. Disposing of it breaks off what is being sent: that goes again later. */
export interface Delivery extends AsyncDisposable {
  /** Something was put in. */
  wake(): void;
  /** Resolves once nothing is being sent and nothing is due. */
  idle(): Promise<void>;
}

export interface DeliveryParts {
  readonly outbox: Outbox;
  readonly sender: WebhookSender;
  readonly clock: Clock;
  readonly log: Log;
  /** At least 0, below 1. */
  readonly random: () => number;
  readonly destinationOf: (message: Message) => Promise<Destination | NoDestination>;
  readonly counted: (kind: MessageKind, result: DeliveryResult) => void;
  /** Whether it is this proxy that delivers, asked before each message goes; always where it is not given. */
  readonly isMine?: () => boolean;
}

/** Targets that are served at a time: so many that a few which do not answer do not keep the others waiting. */
const concurrencyMax = 16;
/** What ended is kept so long for who looks at it; its key may be remembered longer. Milliseconds. */
const keptMs = 7 * 86_400_000;
const tidyEveryMs = 3_600_000;
/** After a failure of the outbox itself. Milliseconds. */
const restMs = 5_000;

export function startDelivery(parts: DeliveryParts): Delivery {
  const { outbox, clock, log, isMine = () => true } = parts;
  /** The targets that are being served, with the work on each. */
  const busy = new Map<string, Promise<void>>();
  const idlers: (() => void)[] = [];
  let looking: Promise<void> | null = null;
  let lookAgain = false;
  let timer: Timer | null = null;
  let tidiedAt: number | null = null;
  const ending = new AbortController();
  const hasEnded = () => ending.signal.aborted;

  const look = async (): Promise<number | null> => {
    const due = await outbox.due({
      now: clock.now(),
      besides: [...busy.keys()],
      limit: concurrencyMax - busy.size,
      pauseMsMax,
    });
    for (const message of due.messages) {
      if (message.target !== null && !hasEnded() && isMine()) busy.set(message.target, serve(message, message.target));
    }
    return due.nextTryAt;
  };
  /** Looks until there is nothing new, and sets the timer for what comes next. */
  const lookAll = async (): Promise<void> => {
    let afterMs = tidyEveryMs;
    try {
      await tidy();
      do {
        lookAgain = false;
        const next = busy.size < concurrencyMax && isMine() ? await look() : null;
        afterMs = next === null ? tidyEveryMs : Math.min(Math.max(next - clock.now(), 1), tidyEveryMs);
      } while (lookAgain && !hasEnded());
    } catch (error) {
      log.error({ err: error }, "the outbox could not be read");
      afterMs = restMs;
    }
    looking = null;
    if (hasEnded()) return;
    timer?.cancel();
    timer = clock.after(afterMs, wake);
    if (busy.size === 0) for (const resolve of idlers.splice(0)) resolve();
  };
  const wake = (): void => {
    if (hasEnded()) return;
    lookAgain = true;
    looking ??= lookAll();
  };
  const serve = async (message: Message, target: string): Promise<void> => {
    try {
      await attempt(message);
    } catch (error) {
      log.error({ message_id: message.id, err: error }, "a delivery failed inside Farebox");
      await pause(restMs);
    }
    busy.delete(target);
    wake();
  };
  const attempt = async (message: Message): Promise<void> => {
    const destination = await parts.destinationOf(message);
    const isGone = "gone" in destination;
    const sent = isGone
      ? ({ ok: false, error: destination.gone, retryAfterMs: null } as const)
      : await send(message, destination);
    if (sent === undefined) return;
    const outcome = outcomeOf(message, sent, isGone);
    await writeDown(message.id, outcome);
    parts.counted(message.kind, outcome.kind);
    const fields = { message_id: message.id, kind: message.kind, tries: message.tries + 1 };
    if (outcome.kind === "given_up") log.warn({ ...fields, reason: outcome.error }, "a message was given up");
    else log.debug({ ...fields, result: outcome.kind, reason: sent.ok ? undefined : sent.error }, "a message was sent");
  };
  const send = async (message: Message, { url, rule, body, headers }: Destination): Promise<SendResult | undefined> => {
    if (!isMine()) return undefined;
    const standard = webhookHeaders(message.id, clock.now());
    return parts.sender.send({ url, rule, headers: { ...standard, ...headers(standard, body) }, body });
  };
  const outcomeOf = ({ createdAt, tries }: Message, sent: SendResult, isGone: boolean): Tried => {
    const now = clock.now();
    if (sent.ok) return { kind: "delivered", at: now };
    const { error, retryAfterMs } = sent;
    const next = isGone ? null : nextTryAt({ createdAt, tries: tries + 1, now, retryAfterMs, random: parts.random() });
    return next === null ? { kind: "given_up", at: now, error } : { kind: "failed", error, nextTryAt: next };
  };
  /** Until it is written: a message that was sent must not go again while this process knows better. */
  const writeDown = async (id: string, outcome: Tried): Promise<void> => {
    while (!(await outbox.tried(id, outcome)) && !hasEnded()) await pause(restMs);
  };
  const tidy = async (): Promise<void> => {
    if (!isMine()) return;
    const now = clock.now();
    if (tidiedAt !== null && now >= tidiedAt && now - tidiedAt < tidyEveryMs) return;
    tidiedAt = now;
    while (!hasEnded() && (await outbox.remove(now - keptMs, now)) > 0);
  };
  const pauses = new Set<() => void>();
  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const done = () => {
        timer.cancel();
        pauses.delete(done);
        resolve();
      };
      const timer = clock.after(ms, done);
      pauses.add(done);
    });

  wake();
  return {
    wake,
    idle: () =>
      new Promise((resolve) => {
        idlers.push(resolve);
        wake();
      }),
    async [Symbol.asyncDispose]() {
      ending.abort();
      timer?.cancel();
      await parts.sender[Symbol.asyncDispose]();
      for (const done of pauses) done();
      await Promise.all([looking, ...busy.values()]);
      for (const resolve of idlers.splice(0)) resolve();
    },
  };
}
