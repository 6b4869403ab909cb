import { hash, timingSafeEqual } from "node:crypto";
import { invalid, type OrRefused } from "../core/refusals.ts";
import { callbackPath } from "../core/task-routes.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { Outbox } from "../ports/outbox.ts";
import type { Seal } from "../ports/seal.ts";
import type { TaskCallback, TaskCallbacks } from "../ports/stores.ts";
import type { CheckEndpoint } from "../ports/webhook-sender.ts";
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
import { hidden, unchangedAnswer, type AnswerChange } from "./response.ts";

/** Replaces the client's webhook of a task with Farebox's own, which relays the gateway's callbacks to the client's. */
export interface TaskWebhooks {
  /** Reads and checks the client's webhook before anything is held. Returns no webhook if the relay is off. */
  read(body: Buffer): Promise<WebhookConfigResult>;
  /** Stores a new callback token, and returns the body with Farebox's own webhook in it. */
  addCallback(body: Buffer, charge: string, theirs: WebhookConfig): Promise<CallbackAdded>;
  /**
   * Stores the callback of a charge for another task of the same creation too, so that answers about that task are
   * changed in the same way. Returns false if it could not be written.
   */
  shareCallback(from: string, to: string): Promise<boolean>;
  /** Returns the change that shows the client its own webhook in answers about the task of a charge. */
  shownFor(charge: string): Promise<AnswerChange>;
}

type CallbackAdded = OrRefused<{ body: Buffer; shown: AnswerChange }>;

/** Content of the sealed bytes of a callback: Farebox's webhook and the client's. */
interface SealedCallback {
  readonly ours: WebhookConfig;
  readonly theirs: WebhookConfig;
}

interface TaskWebhookDeps {
  readonly callbacks: TaskCallbacks;
  readonly seal: Seal;
  readonly clock: Clock;
  readonly log: Log;
  readonly checkEndpoint: CheckEndpoint;
  /** Address at which the gateway reaches Farebox; null if the relay is off. */
  readonly publicUrl: string | null;
  /** Returns 256 random bits in hexadecimal. */
  readonly newToken: () => string;
}

export function createTaskWebhooks(deps: TaskWebhookDeps): TaskWebhooks {
  const { callbacks, seal, clock, log, publicUrl } = deps;
  return {
    async read(body) {
      if (publicUrl === null) return { ok: true, config: noWebhook };
      const reading = readWebhookConfig(body);
      if (!reading.ok || reading.config.endpoint === "") return reading;
      const problem = await deps.checkEndpoint(reading.config.endpoint);
      if (problem === null) return reading;
      const param = "config.webhook_config.endpoint";
      return invalid(param, `'${param}' ${problem}`);
    },

    async addCallback(body, charge, theirs) {
      if (publicUrl === null) return { ok: true, body, shown: unchangedAnswer };
      const token = deps.newToken();
      const ours = { endpoint: `${publicUrl}${callbackPath}/${token}`, secret: deps.newToken() };
      const sealed = seal.close(
        Buffer.from(JSON.stringify({ ours, theirs } satisfies SealedCallback)),
        purposeOf(charge),
      );
      const isStored = await callbacks.put({ charge, digest: digestOf(token), sealed, createdAt: clock.now() });
      if (!isStored) return { ok: false, refusal: { code: "ledger_unavailable" } };
      return { ok: true, body: withWebhookConfig(body, ours), shown: (bytes) => withWebhookShown(bytes, ours, theirs) };
    },

    async shareCallback(from, to) {
      const callback = await callbacks.byCharge(from);
      const opened = callback && seal.open(callback.sealed, purposeOf(from));
      if (opened === undefined) return true;
      // The gateway calls only the first charge's token, so this one is never used.
      const digest = digestOf(deps.newToken());
      return callbacks.put({ charge: to, digest, sealed: seal.close(opened, purposeOf(to)), createdAt: clock.now() });
    },

    async shownFor(charge) {
      const callback = await callbacks.byCharge(charge);
      if (callback === undefined) return unchangedAnswer;
      const opened = openCallback(seal, callback);
      if (opened !== undefined) return (bytes) => withWebhookShown(bytes, opened.ours, opened.theirs);
      log.warn(
        { request_id: charge },
        "a task's webhook was sealed with another gateway key; it is hidden in the answer",
      );
      return (bytes) => withWebhookHidden(bytes, hidden);
    },
  };
}

/** Returns the purpose that binds sealed bytes to one task. */
function purposeOf(charge: string): string {
  return `callback of ${charge}`;
}

function openCallback(seal: Seal, { charge, sealed }: TaskCallback): SealedCallback | undefined {
  const text = seal.open(sealed, purposeOf(charge));
  return text && (JSON.parse(text.toString("utf8")) as SealedCallback);
}

function digestOf(token: string): string {
  return hash("sha256", token);
}

/** Callback whose token and secret are valid. */
export interface AuthenticCallback {
  readonly charge: string;
  readonly ours: WebhookConfig;
  /** Webhook of the client. Its endpoint is "" if there is none. */
  readonly theirs: WebhookConfig;
  readonly shown: AnswerChange;
}

/**
 * Returns the callback with this token and secret; undefined if there is none, or if the gateway key has changed since
 * it was sealed. Finds the callback by a digest of the token, so the duration of the search reveals nothing about known
 * tokens.
 */
export async function authenticateCallback(
  { callbacks, seal, log }: Pick<TaskWebhookDeps, "callbacks" | "seal" | "log">,
  token: string,
  secret: string | undefined,
): Promise<AuthenticCallback | undefined> {
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
    ? { charge: callback.charge, ours, theirs, shown: (bytes) => withWebhookShown(bytes, ours, theirs) }
    : undefined;
}

/**
 * Returns true if a callback is that of a charge, or of the creation for which the charge was made (`shareCallback`).
 */
export async function isCallbackOf(
  { callbacks, seal }: Pick<TaskWebhookDeps, "callbacks" | "seal">,
  found: AuthenticCallback,
  charge: string,
): Promise<boolean> {
  if (charge === found.charge) return true;
  const callback = await callbacks.byCharge(charge);
  return callback !== undefined && openCallback(seal, callback)?.ours.secret === found.ours.secret;
}

/** Sealed payload that is delivered to a client, with the client's webhook. */
interface SealedPayload extends WebhookConfig {
  readonly body: string;
}

/**
 * Returns a key that is equal for all deliveries of an event. The gateway repeats an unanswered event, possibly with
 * another `timestamp`.
 */
function dedupeKeyOf(charge: string, payload: Buffer): string {
  const data = valueAt(payload, ["data"]);
  return `task_webhook/${charge}/${hash("sha256", data === undefined ? payload : payload.subarray(data.valueStart, data.valueEnd))}`;
}

/** Time for which a repeated event is recognized, in milliseconds. */
const rememberedMs = 7 * 86_400_000;

/** Puts a payload into the outbox, with the client's endpoint and secret. Returns false if it could not be written. */
export async function relay(
  {
    outbox,
    seal,
    clock,
    newId,
  }: { readonly outbox: Outbox; readonly seal: Seal; readonly clock: Clock; readonly newId: () => string },
  { charge, theirs, shown }: AuthenticCallback,
  payload: Buffer,
): Promise<boolean> {
  const dedupeKey = dedupeKeyOf(charge, payload);
  const createdAt = clock.now();
  const text = JSON.stringify({ ...theirs, body: shown(payload).toString("utf8") } satisfies SealedPayload);
  const added = await outbox.put([
    {
      id: newId(),
      kind: "task_webhook",
      target: `task webhook ${seal.digestOf(theirs.endpoint)}`,
      dedupeKey,
      keyUntil: createdAt + rememberedMs,
      payload: seal.close(Buffer.from(text), dedupeKey),
      createdAt,
    },
  ]);
  return added !== undefined;
}

/** Opens a payload that `relay` sealed. Returns undefined if the gateway key has changed since. */
export function openPayload(
  seal: Seal,
  { payload, dedupeKey }: { readonly payload: string; readonly dedupeKey: string },
): SealedPayload | undefined {
  const text = seal.open(payload, dedupeKey);
  return text && (JSON.parse(text.toString("utf8")) as SealedPayload);
}

/** Returns true if a payload has non-empty `data`, as payloads from the gateway do. */
export function isEvent(payload: Buffer): boolean {
  const parsed = parseJson(payload.toString("utf8"));
  return isObject(parsed) && Object.keys(objectOr(parsed["data"])).length > 0;
}
