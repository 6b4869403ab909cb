import type { Refusal } from "../core/refusals.ts";
import type { Outcome } from "../core/settlement.ts";
import { deadlineOf, finalStatusOf, nextPollAt, type Task, type TaskRecord } from "../core/tasks.ts";
import type { Shortage } from "../core/budget.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { Ledger } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { BindResult, TaskStore } from "../ports/task-store.ts";
import { readRetry } from "../wire/retries.ts";
import { isTaskId, readTaskRecord } from "../wire/task.ts";
import { readTaskRequest } from "../wire/task-request.ts";
import { readTags } from "../wire/tags.ts";
import type { WebhookConfig } from "../wire/webhook-config.ts";
import { mayUseModel, type Authenticate, type Authenticated } from "./authenticate.ts";
import type { BalanceGuard } from "./balance-guard.ts";
import { foreignTask, noSuchTask, type ShowsForeignTask } from "./foreign-task.ts";
import type { ForwardLimits } from "./forward.ts";
import type { GatewayHeaders } from "./gateway-headers.ts";
import { notForwarded, refuse, withKey, type Handler, type Summary } from "./handler.ts";
import { refusalOf } from "./hold.ts";
import { withPlace, type Limiter, type Place } from "./limits.ts";
import type { Mask } from "./mask.ts";
import type { Settle } from "./settle.ts";
import type { AdmitTask } from "./task-ceilings.ts";
import { creationOf, type Creation } from "./task-creation.ts";
import type { PriceTask, TaskQuote } from "./task-price.ts";
import type { TaskBook } from "./task-settlement.ts";
import type { Shown, TaskWebhooks } from "./task-webhooks.ts";
import { passWhole, refusalOfFailure, type Sent, type WholeCalls } from "./whole-calls.ts";

const route = "/api/v1/task";

/** The steps of tasks, in the order in which they are taken. */
export interface TaskSteps {
  readonly authenticate: Authenticate;
  readonly limiter: Pick<Limiter, "enter">;
  readonly balanceGuard: BalanceGuard;
  readonly price: PriceTask;
  readonly ledger: Ledger;
  /** The name under which a user knows a budget's scope. */
  readonly scopeName: (shortage: Shortage) => Promise<string>;
  readonly gatewayHeaders: GatewayHeaders;
  readonly showsForeignTask: ShowsForeignTask;
  readonly calls: WholeCalls;
  readonly limits: ForwardLimits;
  readonly mask: Mask;
  readonly tasks: TaskStore;
  readonly book: TaskBook;
  /** Ends the hold of a creation that made no task. */
  readonly settle: Settle;
  readonly webhooks: TaskWebhooks;
  readonly admitTask: AdmitTask;
  readonly clock: Clock;
  readonly events: Events;
  readonly log: Log;
  readonly random: () => number;
  /** Takes over what goes on after the answer, so that a shutdown can wait for it. */
  readonly background: (work: Promise<void>) => void;
  /** There is a task that the poller is to follow. */
  readonly wakePoller: () => void;
}

/** authenticate ─▶ limits ─▶ read body once ─▶ price ─▶ ceilings ─▶ hold ─▶ forward ─▶ bind ─▶ answer; the task itself is settled when it ends */
export function createTask(steps: TaskSteps): Handler {
  const answer = withPlace(steps.limiter, async (exchange, who, place) => {
    const body = await exchange.readBody();
    if (!body.ok) return body.refusal === null ? notForwarded : refuse(exchange, body.refusal);
    return answerCreation(steps, exchange, { who, place }, body.bytes).finally(body.release);
  });
  return withKey(steps.authenticate, answer);
}

async function answerCreation(steps: TaskSteps, exchange: Exchange, { who, place }: Admitted, body: Buffer): Promise<Summary> {
  const admission = await admit(steps, exchange, who, body);
  if (!admission.ok) {
    place.settleTokens(0);
    return refuse(exchange, admission.refusal);
  }
  return forwardCreation(steps, exchange, { who, ...admission }, body).finally(admission.leave);
}

async function forwardCreation(steps: TaskSteps, exchange: Exchange, { who, quote, webhook }: Covered & { readonly webhook: WebhookConfig }, body: Buffer): Promise<Summary> {
  const end = (outcome: Outcome) => steps.background(settle(steps, exchange, { who, quote }, outcome));
  const enlisted = await steps.webhooks.enlist(body, exchange.id, webhook);
  if (!enlisted.ok) {
    end({ kind: "notSent", reason: enlisted.refusal.code });
    return refuse(exchange, enlisted.refusal);
  }
  const sentAt = steps.clock.monotonic();
  const sent = await forward(steps, exchange, who, enlisted.body).catch((error: unknown) => {
    // A bug of ours; its hold must not stay pending until the next start.
    end({ kind: "unknown", reason: "internal_error" });
    throw error;
  });
  await conclude(steps, exchange, { who, quote, shown: enlisted.shown }, sent, creationOf(sent, quote.model?.billsServerErrors ?? false));
  return { model: quote.model?.id ?? "other", stream: false, firstTokenMs: null, overheadMs: sentAt - exchange.startedAt };
}

interface Admitted {
  readonly who: Authenticated;
  readonly place: Place;
}

/** A creation that a durable hold covers. */
interface Covered {
  readonly who: Authenticated;
  readonly quote: TaskQuote;
}

/** A creation that was forwarded, with how its client is to see the answers. */
interface Forwarded extends Covered {
  readonly shown: Shown;
}

type Admission =
  | { readonly ok: true; readonly quote: TaskQuote; readonly webhook: WebhookConfig; readonly leave: () => void }
  | { readonly ok: false; readonly refusal: Refusal };

/** Price and hold: afterwards the creation has a durable row, or it is refused. */
async function admit(steps: TaskSteps, exchange: Exchange, who: Authenticated, body: Buffer): Promise<Admission> {
  const read = readTaskRequest(body);
  if (!read.ok) return read;
  const tags = readTags(exchange.header("x-farebox-tag"));
  if (!tags.ok) return tags;
  const { model } = read.request;
  const belowFloor = await steps.balanceGuard();
  if (belowFloor !== null) return { ok: false, refusal: belowFloor };
  const pricing = steps.price(read.request, steps.clock.now());
  if (!pricing.ok) return pricing;
  const { quote } = pricing;
  if (!mayUseModel(who, model, quote.model?.id ?? model)) return { ok: false, refusal: { code: "model_not_allowed", model } };
  const webhook = await steps.webhooks.read(body);
  if (!webhook.ok) return webhook;
  const room = await steps.admitTask({ charge: exchange.id, model, taskType: read.request.taskType });
  if (!room.ok) return room;
  const refusal = await hold(steps, exchange, who, quote, tags.tags);
  if (refusal === null) return { ok: true, quote, webhook: webhook.config, leave: room.leave };
  room.leave();
  return { ok: false, refusal };
}

/** Null when it holds. */
async function hold(steps: TaskSteps, exchange: Exchange, who: Authenticated, quote: TaskQuote, tags: Readonly<Record<string, string>>): Promise<Refusal | null> {
  const { model } = quote.request;
  const price = quote.model?.price ?? null;
  const group = quote.model?.group ?? null;
  const retry = readRetry(exchange.header("x-stainless-retry-count"));
  const held = await steps.ledger.hold({
    id: exchange.id, kind: "task", at: quote.at, caller: who.caller, route, model, group, stream: false, price, amount: quote.hold,
    bounded: quote.bounded, tags, retry,
  });
  if (!held.ok) {
    const fields = [quote.model?.quantity.field ?? "input"];
    return refusalOf(held, { model, isPriced: price !== null, fields }, steps.scopeName);
  }
  steps.events.admitted({ key: who.key, route, model: quote.model?.id ?? null, group, retry });
  return null;
}

function forward(steps: TaskSteps, exchange: Exchange, who: Authenticated, body: Buffer): Promise<Sent> {
  if (exchange.clientGone) return Promise.resolve({ ok: false, failure: { kind: "stopped", reason: "client_left" }, sent: false });
  return steps.calls.send({
    method: "POST",
    path: route + exchange.query,
    headers: steps.gatewayHeaders(exchange, who.caller),
    body,
    exchange,
  });
}

/** Binds the task before the client sees its id. Settles the charge of a creation that made no task of this key. */
async function conclude(steps: TaskSteps, exchange: Exchange, covered: Forwarded, sent: Sent, creation: Creation): Promise<void> {
  const settleAs = (outcome: Outcome) => steps.background(settle(steps, exchange, covered, outcome));
  const passOn = (shown: Shown) => {
    if (sent.ok) passWhole(exchange, sent, steps.mask, shown);
  };
  const created = creation.kind === "created" ? creation.record : undefined;
  const { key } = covered.who.caller;
  const refuseForeign = () => {
    if (!exchange.clientGone) exchange.refuse(noSuchTask);
  };
  if (sent.ok && sent.text !== undefined && (await steps.showsForeignTask(sent.text, { requestId: exchange.id, key, own: created?.taskId }))) {
    refuseForeign();
    return settleAs(creation.kind === "created" ? { kind: "unknown", reason: foreignTask } : creation);
  }
  if (creation.kind !== "created") {
    if (sent.ok) passOn(covered.shown);
    else if (!exchange.clientGone) exchange.refuse(refusalOfFailure(sent.failure, steps.limits));
    return settleAs(creation);
  }
  const { record } = creation;
  const bound = await bind(steps, exchange, covered, record);
  if (bound.ok) {
    passOn(covered.shown);
    steps.wakePoller();
    if (finalStatusOf(record) !== null) steps.background(hear(steps, record.taskId, record));
    return;
  }
  if (bound.reason === "taken") {
    const known = await steps.tasks.find(record.taskId);
    if (known?.key !== key) {
      steps.log.warn({ request_id: exchange.id, task_id: record.taskId }, "the gateway answered with a task of another key; the answer is not shown");
      refuseForeign();
      return settleAs({ kind: "unknown", reason: foreignTask });
    }
    // The gateway answered with a task that is known, as to a repeated idempotency key: that one's charge pays for it.
    const shownOfKnown = await steps.webhooks.shownFor(known.charge);
    passOn((text) => shownOfKnown(covered.shown(text)));
    return settleAs({ kind: "notSent", reason: "task_known" });
  }
  steps.log.error({ request_id: exchange.id, task_id: record.taskId, reason: bound.reason }, "a task could not be written down; recovery posts its hold");
  exchange.refuse({ code: "ledger_unavailable" });
}

function bind({ tasks, clock, random }: TaskSteps, exchange: Exchange, { who, quote }: Covered, record: TaskRecord & { readonly taskId: string }): Promise<BindResult> {
  const { taskId, status, startedAt } = record;
  const { model, taskType } = quote.request;
  const createdAt = clock.now();
  const task = { taskId, charge: exchange.id, key: who.caller.key, model, taskType, status, createdAt, startedAt, quantity: quote.quantity };
  const deadlineAt = deadlineOf(task);
  return tasks.bind({ ...task, deadlineAt, nextPollAt: nextPollAt({ createdAt, deadlineAt }, createdAt, random()) });
}

function settle(steps: TaskSteps, exchange: Exchange, { who, quote }: Covered, outcome: Outcome): Promise<void> {
  const { clock } = steps;
  const end = {
    at: clock.now(), status: exchange.status, servedModel: null, gatewayRequestId: null, durationMs: Math.round(clock.monotonic() - exchange.startedAt),
    firstTokenMs: null,
  };
  const price = quote.model?.price?.version ?? null;
  return steps.settle({ held: { id: exchange.id, route, hold: quote.hold, price }, quote, who, outcome, end });
}

async function hear({ tasks, book }: TaskSteps, taskId: string, record: TaskRecord): Promise<void> {
  const task = await tasks.find(taskId);
  if (task !== undefined) await book.heard(task, record, "client");
}

/** authenticate ─▶ own task? ─▶ forward ─▶ answer; what the record says is taken to heart afterwards */
export function retrieveTask(steps: TaskSteps): Handler {
  return ofOwnTask(steps, async (exchange, task) => {
    const record = await passAnswer(steps, exchange, task);
    if (record !== undefined) steps.background(steps.book.heard(task, record, "client"));
  });
}

/** As a retrieval, with the gateway asked to cancel the task: whether it did so, its record tells. */
export function cancelTask(steps: TaskSteps): Handler {
  return ofOwnTask(steps, async (exchange, task) => {
    const record = await passAnswer(steps, exchange, task);
    if (record === undefined) return;
    const isOver = finalStatusOf(record) !== null;
    steps.background((isOver ? steps.book.heard(task, record, "client") : steps.book.lookSoon(task)).then(steps.wakePoller));
  });
}

/**
 * A handler of requests that name a task: for its owner alone. To anybody else there is none, whether it exists or not.
 * Asking for a task costs nothing, so no limit counts it.
 */
function ofOwnTask(steps: TaskSteps, handle: (exchange: Exchange, task: Task) => Promise<void>): Handler {
  return withKey(steps.authenticate, async (exchange, who) => {
    const asked = decodeURIComponent(exchange.path.slice(route.length + 1));
    const task = isTaskId(asked) ? await steps.tasks.find(asked) : undefined;
    if (task === undefined || task.key !== who.caller.key) return refuse(exchange, noSuchTask);
    await handle(exchange, task);
    return notForwarded;
  });
}

/** Sends the request on and gives the client its answer; the record in it, where there is one. */
async function passAnswer(steps: TaskSteps, exchange: Exchange, task: Task): Promise<TaskRecord | undefined> {
  const sent = await steps.calls.send({
    method: exchange.method,
    path: `${route}/${encodeURIComponent(task.taskId)}${exchange.query}`,
    headers: steps.gatewayHeaders(exchange, { key: task.key, team: null }),
    body: undefined,
    exchange,
  });
  if (!sent.ok) {
    if (!exchange.clientGone) exchange.refuse(refusalOfFailure(sent.failure, steps.limits));
    return undefined;
  }
  const { key, taskId: own } = task;
  if (sent.text !== undefined && (await steps.showsForeignTask(sent.text, { requestId: exchange.id, key, own }))) {
    if (!exchange.clientGone) exchange.refuse(noSuchTask);
    return undefined;
  }
  passWhole(exchange, sent, steps.mask, await steps.webhooks.shownFor(task.charge));
  return sent.head.status < 300 && sent.text !== undefined ? readTaskRecord(sent.text) : undefined;
}

/** A look at a task by Farebox itself, for the poller: retrieved with the gateway's credential, and taken to heart. */
export function lookAtTask({ calls, book }: Pick<TaskSteps, "calls" | "book">): (task: Task) => Promise<void> {
  return async (task) => {
    const path = `${route}/${encodeURIComponent(task.taskId)}`;
    const headers = { accept: "application/json", "accept-encoding": "identity" };
    const sent = await calls.send({ method: "GET", path, headers, body: undefined, exchange: null });
    const record = sent.ok && sent.head.status < 300 && sent.text !== undefined ? readTaskRecord(sent.text) : undefined;
    await (record === undefined ? book.missed(task) : book.heard(task, record, "poller"));
  };
}
