import { noMoney } from "../core/money.ts";
import { invalid, type Refusal } from "../core/refusals.ts";
import { outcomeOfError, outcomeOfStatus, type Outcome } from "../core/settlement.ts";
import { finalStatusOf, type TaskFailure, type TaskRecord } from "../core/tasks.ts";
import { BodyBytes, type Exchange, type Handler } from "../ports/exchange.ts";
import { equalFolded } from "../wire/findings.ts";
import { readTaskRequest, type TaskRequest, type TaskRequestResult } from "../wire/task-request.ts";
import { readCreatedTasks, readCreationError, type CreatedTask, type CreatedTasks } from "../wire/created-tasks.ts";
import { tasksMentioned, tasksNamed } from "../wire/task.ts";
import { noWebhook, type WebhookConfig } from "../wire/webhook-config.ts";
import { mayUseModel, type Authenticated, type Sender } from "./authenticate.ts";
import { gatewayHeaders } from "./forward.ts";
import { holdRefusal, writeHold } from "./hold.ts";
import {
  endOf,
  notSent,
  pipeline,
  settle,
  type Covered,
  type Ended,
  type FinallyForwarded,
  type Identified,
  type Refused,
} from "./pipeline.ts";
import {
  unchangedAnswer,
  withhold,
  type AnswerChange,
  type Verdict,
  foreignTask,
  noSuchTask,
  showsForeignTask,
} from "./response.ts";
import { asAccepted, bindTasks } from "./task-ownership.ts";
import { knownName } from "./price.ts";
import { priceTask, type TaskPricing, type TaskQuote } from "./task-price.ts";
import { heldForInspection, taskPath, type TaskSteps } from "./tasks.ts";

/** Properties that differ between the paths that create a task. */
export interface CreationPath {
  /** Name of the route in charges and metrics. */
  readonly route: string;
  read(body: Buffer): TaskRequestResult;
  /** Fields that Farebox reads in the body. The query must not state them. */
  readonly fields: readonly string[];
  /** Index of the path segment with the id of the task on which the new task is based; null for none. */
  readonly taskSegment: number | null;
  /** True if a request costs nothing unless its answer names a new task. */
  readonly isFree: boolean;
  /** True if the body may have a `config` with a webhook. */
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

interface Asked {
  readonly request: TaskRequest;
  /** Ids of tasks that the request names. The gateway's answer may repeat them. */
  readonly mentioned: ReadonlySet<string>;
}

type Quote = TaskQuote & Pick<Asked, "mentioned">;

/** Creation with a durable hold. */
interface Creation extends Covered {
  readonly quote: Quote;
  /** Body as the client sent it. */
  readonly body: Buffer;
  readonly webhook: WebhookConfig;
  readonly sender: Sender;
  /** Ends the count of this creation as a running task. Called once the creation has ended. */
  readonly leave: () => void;
}

/**
 * Returns a handler of requests that create a task. The handler runs the steps of `pipeline`, but the charge is settled
 * when the task ends.
 */
export function createTask(steps: TaskSteps, path: CreationPath = unifiedCreation): Handler {
  return pipeline<Asked, Quote, Creation>(steps, {
    route: path.route,
    isFree: path.isFree,
    read: (exchange, who, body) => readCreation(steps, path, exchange, who, body.whole),
    userOf: ({ request }) => request.user,
    price: (asked, who, at) => price(steps, path, who, asked, at),
    cover: (exchange, from, quote, body) => cover(steps, path, exchange, from, quote, body.whole),
    forward: (exchange, covered) => forward(steps, path, exchange, covered),
    leave: (covered) => covered.leave(),
    settle: (covered, { ending }, end, release) => {
      release();
      return settle(steps, covered, outcomeOf(ending, covered), end);
    },
  });
}

async function readCreation(
  steps: TaskSteps,
  path: CreationPath,
  exchange: Exchange,
  { caller }: Authenticated,
  body: Buffer,
): Promise<{ readonly ok: true; readonly request: Asked } | Refused> {
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
  // A request may name a task that the ledger does not know, but not in its path.
  const isForeign =
    [...owners.values()].some((owner) => owner !== undefined && owner !== caller.key) ||
    origin.some((taskId) => owners.get(taskId) !== caller.key);
  return isForeign ? { ok: false, refusal: noSuchTask } : { ok: true, request: { request: read.request, mentioned } };
}

function price(
  steps: TaskSteps,
  path: CreationPath,
  who: Authenticated,
  { request, mentioned }: Asked,
  at: number,
): { readonly ok: true; readonly quote: Quote } | Refused {
  const pricing: TaskPricing = path.isFree ? freeQuote(request, at) : priceTask(steps, request, at);
  if (!pricing.ok) return pricing;
  const { quote } = pricing;
  const forbidden = quote.models.find(({ name, id }) => !mayUseModel(who, name, id));
  if (forbidden !== undefined)
    return { ok: false, refusal: { code: "model_not_allowed", model: forbidden.name }, model: knownName(quote) };
  return { ok: true, quote: { ...quote, mentioned } };
}

/** Returns the quote of a path that costs nothing. Its hold of 0 fits into every budget. */
function freeQuote(request: TaskRequest, at: number): { readonly ok: true; readonly quote: TaskQuote } {
  return {
    ok: true,
    quote: {
      request,
      at,
      model: undefined,
      models: [],
      modelIds: [request.model],
      anyModel: true,
      hold: noMoney,
      bounded: true,
      quantity: null,
    },
  };
}

type Covering = { readonly ok: true; readonly covered: Creation } | Refused;

/** Takes a slot under the limit of running tasks, and holds the largest possible cost of the task. */
async function cover(
  steps: TaskSteps,
  path: CreationPath,
  exchange: Exchange,
  from: Identified,
  quote: Quote,
  body: Buffer,
): Promise<Covering> {
  const webhook = path.hasWebhook ? await steps.webhooks.read(body) : { ok: true as const, config: noWebhook };
  if (!webhook.ok) return webhook;
  const { model, taskType } = quote.request;
  const room = path.isFree
    ? ({ ok: true, leave() {} } as const)
    : await steps.admitTask({ charge: exchange.id, model, taskType });
  if (!room.ok) return room;
  let isCovered = false;
  try {
    const refusal = await hold(steps, path, exchange, from, quote);
    if (refusal !== null) return { ok: false, refusal };
    isCovered = true;
    const { who, slot, sender } = from;
    const held = { id: exchange.id, route: path.route, hold: quote.hold, price: quote.model?.price?.version ?? null };
    const { leave } = room;
    return {
      ok: true,
      covered: { who, slot, held, quote, stream: false, body, webhook: webhook.config, sender, leave },
    };
  } finally {
    if (!isCovered) room.leave();
  }
}

/** Holds the amount of the quote. Returns null, or a refusal if the amount could not be held. */
async function hold(
  steps: TaskSteps,
  { route }: CreationPath,
  { id }: Exchange,
  { who, sender, retry }: Identified,
  quote: Quote,
): Promise<Refusal | null> {
  const held = await writeHold(steps.ledger, { id, kind: "task", route, who, quote, sender, retry }, quote.hold);
  if (held.ok) return null;
  const { request, model } = quote;
  const fields = [model?.quantity.field ?? "input"];
  return holdRefusal(steps, held, { model: request.model, isPriced: model?.price != null, fields }, who.caller);
}

/** Writes Farebox's webhook into a creation, and sends it. */
async function forward(
  steps: TaskSteps,
  path: CreationPath,
  exchange: Exchange,
  covered: Creation,
): Promise<FinallyForwarded> {
  const prepared = path.hasWebhook
    ? await steps.webhooks.addCallback(covered.body, exchange.id, covered.webhook)
    : { ok: true as const, body: covered.body, shown: unchangedAnswer };
  if (exchange.clientGone) return notSent("client_left");
  if (!prepared.ok) {
    exchange.refuse(prepared.refusal);
    return notSent(prepared.refusal.code);
  }
  const { body, shown } = prepared;
  const isSent = exchange.method !== "GET";
  const form = path.isFree || body.length === 0 ? "unread" : "json";
  const { ending, overheadMs } = await steps.forwarder.forward({
    ...heldForInspection,
    exchange,
    path: exchange.path + exchange.query,
    headers: gatewayHeaders(steps.idempotencySecret, exchange, covered.who.caller, isSent ? form : "none"),
    body: isSent ? new BodyBytes([body]) : undefined,
    inspect: (status, plain) => inspect(steps, path, exchange, { ...covered, shown }, status, plain),
  });
  if (ending.kind === "usageRefused")
    throw new Error("the gateway refused stream usage for a request that did not ask for it");
  return { ending, terms: null, gatewayRequestId: null, firstTokenMs: null, overheadMs };
}

/** Creation that is sent to the gateway. */
interface Sent extends Creation {
  /** Changes answers about the task for its client. */
  readonly shown: AnswerChange;
}

/**
 * Binds the created tasks before the client sees their ids. If no task of this key was created, decides how the charge
 * ends.
 */
async function inspect(
  steps: TaskSteps,
  path: CreationPath,
  exchange: Exchange,
  covered: Sent,
  status: number,
  plain: Buffer | undefined,
): Promise<Verdict> {
  if (plain === undefined) return judged(path, covered, status, plain);
  const { key } = covered.who.caller;
  const { tasks: made, by } = status < 300 ? createdIn(path, plain) : noneCreated;
  const named = new Set([...tasksNamed(plain), ...made.map(({ taskId }) => taskId)]);
  const isForeign = await showsForeignTask(steps, named, { requestId: exchange.id, key });
  if (isForeign)
    return made.length > 0
      ? withholdForeign(exchange)
      : withhold(exchange, noSuchTask, judged(path, covered, status, plain).ending);
  const { mentioned } = covered.quote;
  const continuing = made.filter(({ taskId }) => mentioned.has(taskId));
  const [continued] = continuing;
  // Only one id may be that of an older task or a repetition of the request. A request that guesses the ids of several
  // new tasks must not make them free.
  const isOld = (task: CreatedTask) =>
    continuing.length === 1
      ? task === continued
      : by !== "task" && made.length === 1 && sends(exchange, covered, task.taskId);
  const fresh = made.filter((task) => !isOld(task));
  const bound = await bindCreated(steps, exchange, covered, fresh);
  if (bound !== "known") return bound;
  if (continued !== undefined) {
    const repeated = await bindCreated(steps, exchange, covered, [continued]);
    if (repeated !== "known") return repeated;
    // The request names the task, so the gateway may have continued it at an unknown cost.
    return known(steps, covered, continued.taskId, { kind: "unknown", reason: "task_continued" });
  }
  const [first] = fresh;
  if (first === undefined) return judged(path, covered, status, plain);
  // The gateway may answer a repeated idempotency key with a known task. An earlier charge pays for that task. An id in
  // a member such as `id` may be that of something else, such as the account.
  const isRepeat = by === "task" && fresh.every(({ isPlainId }) => isPlainId !== true);
  const outcome: Outcome = isRepeat
    ? { kind: "notSent", reason: "task_known" }
    : { kind: "unknown", reason: "unreadable_answer" };
  return known(steps, covered, first.taskId, outcome);
}

const noneCreated: CreatedTasks = { tasks: [], by: "task" };

/** Returns the tasks that an answer names, unless it refuses the creation. A free path creates no task without its name. */
function createdIn(path: CreationPath, plain: Buffer): CreatedTasks {
  const created = readCreatedTasks(plain);
  if (created.by !== "task" && (path.isFree || readCreationError(plain) !== undefined)) return noneCreated;
  return { ...created, tasks: created.tasks.map(asAccepted) };
}

/** Returns true if the request contains an id, so that the answer may only repeat it. */
function sends({ path, query }: Exchange, { body }: Creation, taskId: string): boolean {
  return body.includes(taskId) || (path + query).includes(taskId);
}

/** Returns the verdict on an answer that names no task of this key. */
function judged(path: CreationPath, covered: Sent, status: number, plain: Buffer | undefined): Verdict {
  const isFree = path.isFree && status < 300;
  const outcome: Outcome = isFree
    ? { kind: "notSent", reason: "free" }
    : outcomeWithoutTask(status, plain, covered.quote.model?.billsServerErrors ?? false);
  return { show: covered.shown, ending: { kind: "judged", outcome } };
}

function withholdForeign(exchange: Exchange): Verdict {
  return withhold(exchange, noSuchTask, { kind: "unknown", reason: foreignTask });
}

/** Returns the verdict on an answer with a task that the key created before. */
async function known(
  { tasks, webhooks }: TaskSteps,
  { shown }: Sent,
  taskId: string,
  outcome: Outcome,
): Promise<Verdict> {
  const charge = (await tasks.find(taskId))?.charge;
  const shownOfKnown = charge === undefined ? unchangedAnswer : await webhooks.shownFor(charge);
  return { show: (text) => shownOfKnown(shown(text)), ending: { kind: "judged", outcome } };
}

/** Binds created tasks. Returns `known` if earlier charges pay for all of them. */
async function bindCreated(
  steps: TaskSteps,
  exchange: Exchange,
  covered: Sent,
  created: readonly CreatedTask[],
): Promise<Verdict | "known"> {
  const { who, held, quote, sender } = covered;
  const { isCharged, claimed } = await bindTasks(steps, created, {
    charge: exchange.id,
    route: held.route,
    hold: quote.hold,
    taskType: quote.request.taskType,
    quantity: quote.quantity,
    who,
    quote,
    sender,
    end: () => endOf(exchange, steps.clock),
    prepare: (charge) => steps.webhooks.shareCallback(exchange.id, charge),
  });
  for (const record of isCharged ? created : [])
    if (finalStatusOf(record) !== null) steps.background(recordCreated(steps, record.taskId, record));
  switch (claimed) {
    case "bound":
      return { show: covered.shown, ending: { kind: "task" } };
    case "known":
      return "known";
    case "foreign":
      return isCharged ? withhold(exchange, noSuchTask, { kind: "task" }) : withholdForeign(exchange);
    case "unavailable":
      // The charge is not settled here, because the task may have been bound nevertheless.
      return withhold(exchange, { code: "ledger_unavailable", forwarded: true }, { kind: "task" });
  }
}

async function recordCreated({ tasks, tracker }: TaskSteps, taskId: string, record: TaskRecord): Promise<void> {
  const task = await tasks.find(taskId);
  if (task !== undefined) await tracker.onRecord(task, record, "client");
}

/**
 * Returns the outcome of a creation whose answer names no task. An error status, or an error code in the answer's
 * envelope, decides the outcome. For any other answer the outcome is unknown, because the gateway may have created a
 * task.
 */
function outcomeWithoutTask(status: number, plain: Buffer | undefined, billsServerErrors: boolean): Outcome {
  if (status >= 300) return outcomeOfStatus(status, billsServerErrors);
  const error = plain && readCreationError(plain);
  if (error === undefined) return { kind: "unknown", reason: "unreadable_answer" };
  // After a network error, the gateway does not know whether the service behind it created the task.
  return error.reason === ("network" satisfies TaskFailure)
    ? { kind: "unknown", reason: error.reason }
    : outcomeOfError(error, billsServerErrors);
}

/** Returns the outcome of a creation that bound no task. */
function outcomeOf(ending: Ended["ending"], { quote }: Creation): Outcome {
  switch (ending.kind) {
    case "judged":
      return ending.outcome;
    case "status":
      return outcomeOfStatus(ending.status, quote.model?.billsServerErrors ?? false);
    case "error":
      return outcomeOfError(ending.error, quote.model?.billsServerErrors ?? false);
    case "notSent":
      return ending;
    case "unknown":
    case "whole":
    case "cut":
      return { kind: "unknown", reason: ending.kind === "unknown" ? ending.reason : "unreadable_answer" };
  }
}
