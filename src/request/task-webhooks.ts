import { hash, timingSafeEqual } from "node:crypto";
import type { Refusal } from "../core/refusals.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { Outbox } from "../ports/outbox.ts";
import type { Seal } from "../ports/seal.ts";
import type { TaskCallback, TaskCallbacks } from "../ports/task-callbacks.ts";
import type { JudgeEndpoint } from "../ports/webhook-sender.ts";
import { isObject, objectOr, parseJson, valueAt } from "../wire/json.ts";
import {
  noWebhook,
  readWebhookConfig,
  withWebhookConfig,
  withWebhookHidden,
  withWebhookShown,
  type WebhookConfig,
  type WebhookConfigResult,
} from "../wire/webhook-config.ts";
import { hidden } from "./mask.ts";
import { unchangedAnswer, type Shown } from "./response.ts";

/** Path of callbacks, followed by the task's token. */
export const callbackPath = "/v1/farebox/callbacks";

/** The webhooks of tasks: ours towards the gateway, the client's towards the client. */
export interface TaskWebhooks {
  /** Reads the client's webhook before anything is held; none where the relay is off. */
  read(body: Buffer): Promise<WebhookConfigResult>;
  /** Returns the creation with our own callback in it, whose token is stored first. */
  enlist(body: Buffer, charge: string, theirs: WebhookConfig): Promise<Enlisted>;
  shownFor(charge: string): Promise<Shown>;
}

type Enlisted =
  | { readonly ok: true; readonly body: Buffer; readonly shown: Shown }
  | { readonly ok: false; readonly refusal: Refusal };

/** Sealed part of a callback. */
interface SealedCallback {
  readonly ours: WebhookConfig;
  readonly theirs: WebhookConfig;
}

interface TaskWebhookDeps {
  readonly callbacks: TaskCallbacks;
  readonly seal: Seal;
  readonly clock: Clock;
  readonly log: Log;
  readonly judge: JudgeEndpoint;
  /** Our own address as the gateway reaches it; null where the relay is off. */
  readonly publicUrl: string | null;
  /** 256 random bits, hexadecimal. */
  readonly newToken: () => string;
}

export function createTaskWebhooks(deps: TaskWebhookDeps): TaskWebhooks {
  const { callbacks, seal, clock, log, publicUrl } = deps;
  return {
    async read(body) {
      if (publicUrl === null) return { ok: true, config: noWebhook };
      const reading = readWebhookConfig(body);
      if (!reading.ok || reading.config.endpoint === "") return reading;
      const problem = await deps.judge(reading.config.endpoint);
      if (problem === null) return reading;
      const param = "config.webhook_config.endpoint";
      return { ok: false, refusal: { code: "invalid_request", param, message: `'${param}' ${problem}` } };
    },

    async enlist(body, charge, theirs) {
      if (publicUrl === null) return { ok: true, body, shown: unchangedAnswer };
      const token = deps.newToken();
      const ours = { endpoint: `${publicUrl}${callbackPath}/${token}`, secret: deps.newToken() };
      const sealed = seal.close(
        Buffer.from(JSON.stringify({ ours, theirs } satisfies SealedCallback)),
        purposeOf(charge),
      );
      const written = await callbacks.put({ charge, digest: digestOf(token), sealed, createdAt: clock.now() });
      if (!written) return { ok: false, refusal: { code: "ledger_unavailable" } };
      return { ok: true, body: withWebhookConfig(body, ours), shown: (bytes) => withWebhookShown(bytes, ours, theirs) };
    },

    async shownFor(charge) {
      const callback = await callbacks.byCharge(charge);
      if (callback === undefined) return unchangedAnswer;
      const opened = openCallback(seal, callback);
      if (opened !== undefined) return (bytes) => withWebhookShown(bytes, opened.ours, opened.theirs);
      log.warn({ request_id: charge }, "a task's webhook was sealed with another gateway key; it is shown hidden");
      return (bytes) => withWebhookHidden(bytes, hidden);
    },
  };
}

/** Binds sealed bytes to one task. */
function purposeOf(charge: string): string {
  return `callback of ${charge}`;
}

function openCallback(seal: Seal, { charge, sealed }: TaskCallback): SealedCallback | undefined {
  const text = seal.open(sealed, purposeOf(charge));
  return text && (JSON.parse(text.toString("utf8")) as SealedCallback);
}

export function digestOf(token: string): string {
  return hash("sha256", token);
}

/** A callback that the gateway has sent. */
export interface Authentic {
  readonly charge: string;
  /** The client's webhook; its endpoint is "" for none. */
  readonly theirs: WebhookConfig;
  readonly shown: Shown;
}

/**
 * Returns the callback with this token and secret; undefined for a forged one. It is found by digest, so that the time
 * this takes reveals nothing about known tokens.
 */
export async function authenticate(
  { callbacks, seal, log }: Pick<TaskWebhookDeps, "callbacks" | "seal" | "log">,
  token: string,
  secret: string | undefined,
): Promise<Authentic | undefined> {
  const callback = await callbacks.byDigest(digestOf(token));
  if (callback === undefined) return undefined;
  const opened = openCallback(seal, callback);
  if (opened === undefined) {
    log.warn(
      { request_id: callback.charge },
      "a callback cannot be relayed: its webhook was sealed with another gateway key",
    );
    return undefined;
  }
  const { ours, theirs } = opened;
  const isKnown = timingSafeEqual(Buffer.from(digestOf(secret ?? "")), Buffer.from(digestOf(ours.secret)));
  return isKnown
    ? { charge: callback.charge, theirs, shown: (bytes) => withWebhookShown(bytes, ours, theirs) }
    : undefined;
}

/** Sealed part of a payload on its way to a client. */
interface SealedPayload extends WebhookConfig {
  readonly body: string;
}

/** Returns the same key for the same event, which the gateway repeats if it had no answer, perhaps with another `timestamp`. */
function dedupeKeyOf(charge: string, payload: Buffer): string {
  const data = valueAt(payload, ["data"]);
  return `task_webhook/${charge}/${hash("sha256", data === undefined ? payload : payload.subarray(data.valueStart, data.valueEnd))}`;
}

/** Time for which an event is recognized, in milliseconds. */
const rememberedMs = 7 * 86_400_000;

/** Puts a payload into the outbox, for the client's endpoint and with its secret. False where nothing could be written. */
export async function relay(
  {
    outbox,
    seal,
    clock,
    newId,
  }: { readonly outbox: Outbox; readonly seal: Seal; readonly clock: Clock; readonly newId: () => string },
  { charge, theirs, shown }: Authentic,
  payload: Buffer,
): Promise<boolean> {
  const dedupeKey = dedupeKeyOf(charge, payload);
  const createdAt = clock.now();
  const text = JSON.stringify({ ...theirs, body: shown(payload).toString("utf8") } satisfies SealedPayload);
  const added = await outbox.put([
    {
      id: newId(),
      kind: "task_webhook",
      target: `task webhook ${seal.nameOf(theirs.endpoint)}`,
      dedupeKey,
      keyUntil: createdAt + rememberedMs,
      payload: seal.close(Buffer.from(text), dedupeKey),
      createdAt,
    },
  ]);
  return added !== undefined;
}

/** Opens a payload that `relay` sealed; undefined where the gateway key has changed since. */
export function openPayload(
  seal: Seal,
  { payload, dedupeKey }: { readonly payload: string; readonly dedupeKey: string },
): SealedPayload | undefined {
  const text = seal.open(payload, dedupeKey);
  return text && (JSON.parse(text.toString("utf8")) as SealedPayload);
}

/** Reports whether a payload has data, as the gateway's do. */
export function isEvent(payload: Buffer): boolean {
  const parsed = parseJson(payload.toString("utf8"));
  return isObject(parsed) && Object.keys(objectOr(parsed["data"])).length > 0;
}
