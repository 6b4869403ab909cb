import { noMoney } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import type { Outcome } from "../core/settlement.ts";
import { deadlineOf, finalStatusOf, nextPollAt, type Task, type TaskRecord } from "../core/tasks.ts";
import type { Shortage } from "../core/budget.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { Charging } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { BindResult, TaskStore } from "../ports/task-store.ts";
import { readRetry } from "../wire/retries.ts";
import { invalid } from "../wire/model-request.ts";
import { withOwnRecordsOnly } from "../wire/own-records.ts";
import { equalFolded } from "../wire/request-fields.ts";
import { isTaskId, readTaskRecord, tasksMentioned, tasksNamed } from "../wire/task.ts";
import { readTaskRequest, type TaskRequest, type TaskRequestResult } from "../wire/task-request.ts";
import { readPinnedTags } from "../wire/tags.ts";
import { noWebhook, type WebhookConfig } from "../wire/webhook-config.ts";
import { mayUseModel, type Authenticate, type Authenticated } from "./authenticate.ts";
import type { BalanceGuard } from "./balance-guard.ts";
import { foreignTask, noSuchTask, type ShowsForeignTask } from "./task-ownership.ts";
import { clientLeft, failedCall } from "./gateway-failure.ts";
import type { GatewayHeaders } from "./gateway-headers.ts";
import { notForwarded, refuse, withKey, type Handler, type Summary } from "./handler.ts";
import { holdRefusal } from "./hold.ts";
import { withSlot, type Limiter, type Slot } from "./limits.ts";
import type { Mask } from "./mask.ts";
import type { Settle } from "./settle.ts";
import type { AdmitTask } from "./task-ceilings.ts";
import { creationOf, type Creation } from "./task-creation.ts";
import type { PriceTask, TaskQuote } from "./task-price.ts";
import type { TaskTracker } from "./task-settlement.ts";
import type { Shown, TaskWebhooks } from "./task-webhooks.ts";
import { passWhole, type Sent, type WholeCalls } from "./whole-calls.ts";

/** The path of every family's tasks. */
const taskPath = "/api/v1/task";

/** What differs between the paths that create a task. */
export interface CreationPath {
  /** Its name in charges and metrics. */
  readonly route: string;
  read(body: Buffer): TaskRequestResult;
  /** Fields of the body that are read: the query must not state them. */
  readonly fields: readonly string[];
  /** Which segment of the path names a task that the new one is made of; null for none. */
  readonly taskSegment: number | null;
  /** Whether it costs nothing unless its answer names a task. */
  readonly isFree: boolean;
  /** Whether its body has a `config` with a webhook. */
  readonly hasWebhook: boolean;
}

const unifiedCreation: CreationPath = {
  route: taskPath,
  read: (body) => readTaskRequest(body),
  fields: ["model", "task_type", "input", "config"],
  taskSegment: null,
  isFree: false,
  hasWebhook: true,
};

/** The steps of tasks, in the order in which they are taken. */
export interface TaskSteps {
  readonly authenticate: Authenticate;
  readonly limiter: Pick<Limiter, "enter">;
  readonly balanceGuard: BalanceGuard;
  readonly price: PriceTask;
  readonly ledger: Charging;
  /** The name under which a user knows a budget's scope. */
  readonly scopeName: (shortage: Shortage) => Promise<string>;
  readonly gatewayHeaders: GatewayHeaders;
  readonly showsForeignTask: ShowsForeignTask;
  readonly calls: WholeCalls;
  readonly mask: Mask;
  readonly tasks: TaskStore;
  readonly tracker: TaskTracker;
  /** Ends the hold of a creation that made no task. */
  readonly settle: Settle;
  readonly webhooks: TaskWebhooks;
  readonly admitTask: AdmitTask;
  readonly clock: Clock;
  readonly events: Events;
  readonly log: Log;
  readonly random: () => number;
  readonly newId: () => string;
  /** Takes over what goes on after the answer, so that a shutdown can wait for it. */
  readonly background: (work: Promise<void>) => void;
  /** There is a task that the poller is to follow. */
  readonly wakePoller: () => void;
}

/** authenticate ─▶ limits ─▶ read body once ─▶ price ─▶ ceilings ─▶ hold ─▶ forward ─▶ bind ─▶ answer; the task itself is settled when it ends */
export function createTask(steps: TaskSteps, path: CreationPath = unifiedCreation): Handler {
  const answer = withSlot(steps.limiter, async (exchange, who, slot) => {
    const body = await exchange.readBody();
    if (!body.ok) return body.refusal === null ? notForwarded : refuse(exchange, body.refusal);
    return answerCreation(steps, exchange, { path, who, slot }, body.bytes).finally(body.release);
  });
  return withKey(steps.authenticate, answer);
}

async function answerCreation(
  steps: TaskSteps,
  exchange: Exchange,
  { path, who, slot }: Admitted,
  body: Buffer,
): Promise<Summary> {
  const admission = await admit(steps, exchange, { path, who }, body);
  if (!admission.ok) {
    slot.settleTokens(0);
    return refuse(exchange, admission.refusal);
  }
  return forwardCreation(steps, exchange, { path, who, ...admission }, body).finally(admission.leave);
}

async function forwardCreation(
  steps: TaskSteps,
  exchange: Exchange,
  covered: Covered & { readonly webhook: WebhookConfig },
  body: Buffer,
): Promise<Summary> {
  const { path, quote, webhook } = covered;
  const end = (outcome: Outcome) => steps.background(settle(steps, exchange, covered, outcome));
  const enlisted = path.hasWebhook
    ? await steps.webhooks.enlist(body, exchange.id, webhook)
    : { ok: true as const, body, shown: asIs };
  if (!enlisted.ok) {
    end({ kind: "notSent", reason: enlisted.refusal.code });
    return refuse(exchange, enlisted.refusal);
  }
  const sentAt = steps.clock.monotonic();
  const sent = await forward(steps, exchange, covered, enlisted.body).catch((error: unknown) => {
    // A bug of ours; its hold must not stay pending until the next start.
    end({ kind: "unknown", reason: "internal_error" });
    throw error;
  });
  await conclude(
    steps,
    exchange,
    { ...covered, shown: enlisted.shown },
    sent,
    creationOf(sent, quote.model?.billsServerErrors ?? false),
  );
  return {
    model: quote.model?.id ?? "other",
    stream: false,
    firstTokenMs: null,
    overheadMs: sentAt - exchange.startedAt,
  };
}

const asIs: Shown = (bytes) => bytes;

interface Asked {
  readonly path: CreationPath;
  readonly who: Authenticated;
}

interface Admitted extends Asked {
  readonly slot: Slot;
}

/** A creation that a durable hold covers. */
interface Covered extends Asked {
  readonly quote: TaskQuote;
  /** Ids of tasks that the request itself names: the gateway's answer may repeat them. */
  readonly mentioned: ReadonlySet<string>;
}

/** A creation that was forwarded, with how its client is to see the answers. */
interface Forwarded extends Covered {
  readonly shown: Shown;
}

type Admission =
  | {
      readonly ok: true;
      readonly quote: TaskQuote;
      readonly mentioned: ReadonlySet<string>;
      readonly webhook: WebhookConfig;
      readonly leave: () => void;
    }
  | { readonly ok: false; readonly refusal: Refusal };

/** Price and hold: afterwards the creation has a durable row, or it is refused. */
async function admit(steps: TaskSteps, exchange: Exchange, { path, who }: Asked, body: Buffer): Promise<Admission> {
  const read = path.read(body);
  if (!read.ok) return read;
  const inQuery = [...new URLSearchParams(exchange.query).keys()].find((name) =>
    path.fields.some((field) => equalFolded(name, field)),
  );
  if (inQuery !== undefined) return invalid(inQuery, `'${inQuery}' must be stated in the body, not in the query`);
  const origin =
    path.taskSegment === null ? [] : [decodeURIComponent(exchange.path.split("/")[path.taskSegment] ?? "")];
  const mentioned = tasksMentioned(body, exchange.query, origin);
  const owners = new Map<string, string | undefined>();
  for (const taskId of mentioned) owners.set(taskId, (await steps.tasks.find(taskId))?.key);
  const { key } = who.caller;
  // A task that the ledger does not know may be made of, but has no path of its own here.
  const isForeign =
    [...owners.values()].some((owner) => owner !== undefined && owner !== key) ||
    origin.some((taskId) => owners.get(taskId) !== key);
  if (isForeign) return { ok: false, refusal: noSuchTask };
  const tags = readPinnedTags(exchange.header("x-farebox-tag"), who.session);
  if (!tags.ok) return tags;
  const { model } = read.request;
  const belowFloor = await steps.balanceGuard();
  if (belowFloor !== null) return { ok: false, refusal: belowFloor };
  const at = steps.clock.now();
  const pricing = path.isFree ? freeOf(read.request, at) : steps.price(read.request, at);
  if (!pricing.ok) return pricing;
  const { quote } = pricing;
  const forbidden = quote.models.find(({ name, id }) => !mayUseModel(who, name, id));
  if (forbidden !== undefined) return { ok: false, refusal: { code: "model_not_allowed", model: forbidden.name } };
  const webhook = path.hasWebhook ? await steps.webhooks.read(body) : { ok: true as const, config: noWebhook };
  if (!webhook.ok) return webhook;
  const room = path.isFree
    ? ({ ok: true, leave() {} } as const)
    : await steps.admitTask({ charge: exchange.id, model, taskType: read.request.taskType });
  if (!room.ok) return room;
  const refusal = await hold(steps, exchange, { path, who, quote }, tags.tags);
  if (refusal === null) return { ok: true, quote, mentioned, webhook: webhook.config, leave: room.leave };
  room.leave();
  return { ok: false, refusal };
}

/** The quote of a path that costs nothing: a hold of nothing fits into every budget. */
function freeOf(request: TaskRequest, at: number): { readonly ok: true; readonly quote: TaskQuote } {
  return {
    ok: true,
    quote: { request, at, model: undefined, models: [], hold: noMoney, bounded: true, quantity: null },
  };
}

/** Null when it holds. */
async function hold(
  steps: TaskSteps,
  exchange: Exchange,
  { path: { route }, who, quote }: Omit<Covered, "mentioned">,
  tags: Readonly<Record<string, string>>,
): Promise<Refusal | null> {
  const { model } = quote.request;
  const price = quote.model?.price ?? null;
  const group = quote.model?.group ?? null;
  const retry = readRetry(exchange.header("x-stainless-retry-count"));
  const held = await steps.ledger.hold({
    id: exchange.id,
    kind: "task",
    at: quote.at,
    caller: who.caller,
    route,
    model,
    group,
    stream: false,
    price,
    amount: quote.hold,
    bounded: quote.bounded,
    tags,
    retry,
  });
  if (!held.ok) {
    const fields = [quote.model?.quantity.field ?? "input"];
    return holdRefusal(held, { model, isPriced: price !== null, fields }, steps.scopeName);
  }
  steps.events.admitted({ key: who.key, route, model: quote.model?.id ?? null, group, retry });
  return null;
}

/** What was read as JSON is sent as JSON: another reader of the same bytes could find other fields in them. */
const formType = /^\s*(?:application\/x-www-form-urlencoded|multipart\/form-data)/i;

function forward(steps: TaskSteps, exchange: Exchange, { path, who }: Covered, body: Buffer): Promise<Sent> {
  if (exchange.clientGone) return Promise.resolve({ ok: false, failure: clientLeft, sent: false });
  const headers = steps.gatewayHeaders(exchange, who.caller);
  return steps.calls.send({
    method: exchange.method,
    path: exchange.path + exchange.query,
    headers:
      !path.isFree && formType.test(headers["content-type"] ?? "")
        ? { ...headers, "content-type": "application/json" }
        : headers,
    body: exchange.method === "GET" ? undefined : body,
    exchange,
  });
}

/** Binds the task before the client sees its id. Settles the charge of a creation that made no task of this key. */
async function conclude(
  steps: TaskSteps,
  exchange: Exchange,
  covered: Forwarded,
  sent: Sent,
  creation: Creation,
): Promise<void> {
  const settleAs = (outcome: Outcome) => steps.background(settle(steps, exchange, covered, outcome));
  const passOn = (shown: Shown) => {
    if (sent.ok) passWhole(exchange, sent, steps.mask, shown);
  };
  const created = creation.kind === "created" ? creation.record : undefined;
  const { key } = covered.who.caller;
  const refuseForeign = () => {
    if (!exchange.clientGone) exchange.refuse(noSuchTask);
  };
  if (
    sent.ok &&
    sent.text !== undefined &&
    (await steps.showsForeignTask(sent.text, { requestId: exchange.id, key, own: created?.taskId }))
  ) {
    refuseForeign();
    return settleAs(creation.kind === "created" ? { kind: "unknown", reason: foreignTask } : creation);
  }
  const settleWithoutTask = (outcome: Outcome) =>
    settleAs(covered.path.isFree && sent.ok && sent.head.status < 300 ? { kind: "notSent", reason: "free" } : outcome);
  if (creation.kind !== "created") {
    if (sent.ok) passOn(covered.shown);
    else if (!exchange.clientGone) exchange.refuse(failedCall(sent.failure, sent.sent).refusal);
    return settleWithoutTask(creation);
  }
  const record = begun(creation.record);
  const bound = await bind(steps, exchange.id, covered, record);
  if (bound.ok) {
    if (sent.ok && sent.text !== undefined)
      await bindFurther(steps, exchange, covered, tasksNamed(sent.text), record.taskId);
    passOn(covered.shown);
    steps.wakePoller();
    if (finalStatusOf(record) !== null) steps.background(recordCreated(steps, record.taskId, record));
    return;
  }
  if (bound.reason === "taken") {
    const known = await steps.tasks.find(record.taskId);
    if (known?.key !== key) {
      steps.log.warn(
        { request_id: exchange.id, task_id: record.taskId },
        "the gateway answered with a task of another key; the answer is not shown",
      );
      refuseForeign();
      return settleAs({ kind: "unknown", reason: foreignTask });
    }
    // The gateway answered with a task that is known, as to a repeated idempotency key: that one's charge pays for it. One that the
    // request named itself may have been continued, and nothing says what that cost.
    const shownOfKnown = await steps.webhooks.shownFor(known.charge);
    passOn((text) => shownOfKnown(covered.shown(text)));
    return settleAs(
      covered.mentioned.has(record.taskId)
        ? { kind: "unknown", reason: "task_continued" }
        : { kind: "notSent", reason: "task_known" },
    );
  }
  steps.log.error(
    { request_id: exchange.id, task_id: record.taskId, reason: bound.reason },
    "a task could not be written down; recovery posts its hold",
  );
  exchange.refuse({ code: "ledger_unavailable" });
}

/**
 * The record in a creation's answer. "success" says that the task was taken, unless it states an end or what was used: nothing is
 * completed before it is made.
 */
function begun<Record extends TaskRecord>(record: Record): Record {
  return record.status === "completed" && record.endedAt === null && record.consumption === null
    ? { ...record, status: "pending" }
    : record;
}

/** More tasks than this in one answer are no creation's. */
const furtherMax = 100;

/** Gives further tasks of one answer a charge each, within the budget where there is room: they run, whatever it says. */
async function bindFurther(
  steps: TaskSteps,
  exchange: Exchange,
  covered: Covered,
  named: ReadonlySet<string>,
  first: string,
): Promise<void> {
  for (const taskId of [...named].filter((id) => id !== first && !covered.mentioned.has(id)).slice(0, furtherMax)) {
    if ((await steps.tasks.find(taskId)) !== undefined) continue;
    const charge = steps.newId();
    const { who, path, quote } = covered;
    const { model } = quote.request;
    const asked = {
      id: charge,
      kind: "task",
      at: quote.at,
      caller: who.caller,
      route: path.route,
      model,
      group: quote.model?.group ?? null,
      stream: false,
      price: quote.model?.price ?? null,
      tags: {},
      retry: 0,
    } as const;
    const held = await steps.ledger.hold({ ...asked, amount: quote.hold, bounded: quote.bounded });
    if (!held.ok) await steps.ledger.hold({ ...asked, amount: noMoney, bounded: true });
    const nothing = {
      taskId,
      status: "pending",
      startedAt: null,
      endedAt: null,
      consumption: null,
      isPrivatePool: false,
      hasError: false,
      errors: [],
    } as const;
    const bound = await bind(steps, charge, covered, nothing);
    if (!bound.ok)
      steps.log.error(
        { request_id: exchange.id, task_id: taskId, reason: bound.reason },
        "a further task of a creation could not be written down; nothing pays for it",
      );
  }
}

function bind(
  { tasks, clock, random }: TaskSteps,
  charge: string,
  { who, quote }: Covered,
  record: TaskRecord & { readonly taskId: string },
): Promise<BindResult> {
  const { taskId, status, startedAt } = record;
  const { model, taskType } = quote.request;
  const createdAt = clock.now();
  const task = {
    taskId,
    charge,
    key: who.caller.key,
    model,
    taskType,
    status,
    createdAt,
    startedAt,
    quantity: quote.quantity,
  };
  const deadlineAt = deadlineOf(task);
  return tasks.bind({ ...task, deadlineAt, nextPollAt: nextPollAt({ createdAt, deadlineAt }, createdAt, random()) });
}

function settle(
  steps: TaskSteps,
  exchange: Exchange,
  { path: { route }, who, quote }: Covered,
  outcome: Outcome,
): Promise<void> {
  const { clock } = steps;
  const end = {
    at: clock.now(),
    status: exchange.status,
    servedModel: null,
    gatewayRequestId: null,
    durationMs: Math.round(clock.monotonic() - exchange.startedAt),
    firstTokenMs: null,
  };
  const price = quote.model?.price?.version ?? null;
  return steps.settle({ held: { id: exchange.id, route, hold: quote.hold, price }, quote, who, outcome, end });
}

async function recordCreated({ tasks, tracker }: TaskSteps, taskId: string, record: TaskRecord): Promise<void> {
  const task = await tasks.find(taskId);
  if (task !== undefined) await tracker.onRecord(task, record, "client");
}

/** authenticate ─▶ own task? ─▶ forward ─▶ answer; what the record says settles the task afterwards */
export function retrieveTask(steps: TaskSteps, askedOf: AskedOf = unifiedAsked): Handler {
  return ofOwnTasks(steps, askedOf, async (exchange, tasks, asked) => {
    const shown = await passAnswer(steps, exchange, tasks, asked);
    if (shown !== undefined) steps.background(steps.tracker.onRecord(shown.task, shown.record, "client"));
  });
}

/** As a retrieval, with the gateway asked to cancel the tasks: whether it did so, their records say. */
export function cancelTask(steps: TaskSteps, askedOf: AskedOf = unifiedAsked): Handler {
  return ofOwnTasks(steps, askedOf, async (exchange, tasks, asked) => {
    const shown = await passAnswer(steps, exchange, tasks, asked);
    for (const task of tasks) {
      const isOver = shown !== undefined && shown.task === task && finalStatusOf(shown.record) !== null;
      if (exchange.status !== null && exchange.status < 300)
        steps.background(
          (isOver ? steps.tracker.onRecord(task, shown.record, "client") : steps.tracker.pollSoon(task)).then(
            steps.wakePoller,
          ),
        );
    }
  });
}

/** The tasks that a request asks for, by their ids, and what of it is forwarded. */
export interface AskedTasks {
  readonly taskIds: readonly string[];
  readonly path: string;
  readonly body: Buffer | undefined;
}

/** Reads which tasks a request asks for; `release` gives its body's memory back. */
export type AskedOf = (
  exchange: Exchange,
) => Promise<
  | { readonly ok: true; readonly asked: AskedTasks; readonly release: () => void }
  | { readonly ok: false; readonly refusal: Refusal | null }
>;

const unifiedAsked: AskedOf = async (exchange) => {
  const taskId = decodeURIComponent(exchange.path.slice(taskPath.length + 1));
  return {
    ok: true,
    asked: { taskIds: [taskId], path: `${taskPath}/${encodeURIComponent(taskId)}`, body: undefined },
    release: () => {},
  };
};

/**
 * A handler of requests that name tasks: for their owner alone. To anyone else there are none, whether they exist or not.
 * Asking for a task costs nothing, so no limit counts it.
 */
function ofOwnTasks(
  steps: TaskSteps,
  askedOf: AskedOf,
  handle: (exchange: Exchange, tasks: readonly Task[], asked: AskedTasks) => Promise<void>,
): Handler {
  return withKey(steps.authenticate, async (exchange, who) => {
    const read = await askedOf(exchange);
    if (!read.ok) return read.refusal === null ? notForwarded : refuse(exchange, read.refusal);
    const { asked, release } = read;
    try {
      const tasks: Task[] = [];
      for (const taskId of asked.taskIds) {
        const task = isTaskId(taskId) ? await steps.tasks.find(taskId) : undefined;
        if (task === undefined || task.key !== who.caller.key) return refuse(exchange, noSuchTask);
        tasks.push(task);
      }
      // Whatever else the request names may be what its answer is about.
      const mentioned = tasksMentioned(asked.body ?? nothing, exchange.query);
      if (tasks.length === 0 || [...mentioned].some((id) => !asked.taskIds.includes(id)))
        return refuse(exchange, noSuchTask);
      await handle(exchange, tasks, asked);
      return notForwarded;
    } finally {
      release();
    }
  });
}

const nothing = Buffer.alloc(0);

/** Sends the request on and gives the client its answer; the record in it with its task, where it is one of these. */
async function passAnswer(
  steps: TaskSteps,
  exchange: Exchange,
  tasks: readonly Task[],
  asked: AskedTasks,
): Promise<{ readonly task: Task; readonly record: TaskRecord } | undefined> {
  const key = tasks[0]?.key ?? "";
  const sent = await steps.calls.send({
    method: exchange.method,
    path: asked.path + exchange.query,
    headers: steps.gatewayHeaders(exchange, { key, team: null }),
    body: asked.body,
    exchange,
  });
  if (!sent.ok) {
    if (!exchange.clientGone) exchange.refuse(failedCall(sent.failure, sent.sent).refusal);
    return undefined;
  }
  if (sent.text !== undefined && (await steps.showsForeignTask(sent.text, { requestId: exchange.id, key }))) {
    if (!exchange.clientGone) exchange.refuse(noSuchTask);
    return undefined;
  }
  const shown = await Promise.all(tasks.map(({ charge }) => steps.webhooks.shownFor(charge)));
  passWhole(exchange, sent, steps.mask, (text) => shown.reduce((bytes, show) => show(bytes), text));
  const record = sent.head.status < 300 && sent.text !== undefined ? readTaskRecord(sent.text) : undefined;
  const task = tasks.find(({ taskId }) => taskId === record?.taskId);
  return task && record && { task, record };
}

/** Gives the client an answer that lists tasks, with those of its key alone. */
export function listTasks(steps: TaskSteps): Handler {
  return withKey(steps.authenticate, async (exchange, { caller }) => {
    const { key } = caller;
    const headers = steps.gatewayHeaders(exchange, caller);
    const sent = await steps.calls.send({
      method: exchange.method,
      path: exchange.path + exchange.query,
      headers,
      body: undefined,
      exchange,
    });
    if (!sent.ok) {
      if (!exchange.clientGone) exchange.refuse(failedCall(sent.failure, sent.sent).refusal);
      return notForwarded;
    }
    const { text } = sent;
    if (
      sent.head.status >= 300 &&
      text !== undefined &&
      !(await steps.showsForeignTask(text, { requestId: exchange.id, key }))
    ) {
      passWhole(exchange, sent, steps.mask);
      return notForwarded;
    }
    const own: Task[] = [];
    for (const taskId of text === undefined ? [] : tasksNamed(text)) {
      const task = await steps.tasks.find(taskId);
      if (task?.key === key) own.push(task);
    }
    const shown = await Promise.all(own.map(({ charge }) => steps.webhooks.shownFor(charge)));
    const list = Buffer.from(withOwnRecordsOnly(text ?? nothing, new Set(own.map(({ taskId }) => taskId))));
    const answered = shown.reduce((bytes, show) => show(bytes), steps.mask(list));
    exchange.answer(sent.head.status, [["content-type", "application/json"]], answered);
    return notForwarded;
  });
}

/** A look at a task by Farebox itself, for the poller: retrieved with the gateway's credential, and taken to heart. */
export function pollTask({ calls, tracker }: Pick<TaskSteps, "calls" | "tracker">): (task: Task) => Promise<void> {
  return async (task) => {
    const path = `${taskPath}/${encodeURIComponent(task.taskId)}`;
    const headers = { accept: "application/json", "accept-encoding": "identity" };
    const sent = await calls.send({ method: "GET", path, headers, body: undefined, exchange: null });
    const record = sent.ok && sent.head.status < 300 && sent.text !== undefined ? readTaskRecord(sent.text) : undefined;
    await (record === undefined ? tracker.onPollFailed(task) : tracker.onRecord(task, record, "poller"));
  };
}
