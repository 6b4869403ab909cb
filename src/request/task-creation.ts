import { noMoney } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import { outcomeOfStatus, type Outcome } from "../core/settlement.ts";
import { failureReason, finalStatusOf, type TaskFailure, type TaskRecord } from "../core/tasks.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { BindResult } from "../ports/task-store.ts";
import { invalid } from "../wire/model-request.ts";
import { equalFolded } from "../wire/findings.ts";
import { readTaskRequest, type TaskRequest, type TaskRequestResult } from "../wire/task-request.ts";
import { readRefusedCreation, readTaskRecord, tasksMentioned, tasksNamed } from "../wire/task.ts";
import { noWebhook, type WebhookConfig } from "../wire/webhook-config.ts";
import { mayUseModel, type Authenticated } from "./authenticate.ts";
import type { Handler } from "./handler.ts";
import { holdRefusal, writeHold } from "./hold.ts";
import {
  endOf,
  notSent,
  pipeline,
  settle,
  type Covered,
  type Ended,
  type FinallyForwarded,
  type Tagged,
} from "./pipeline.ts";
import { unchangedAnswer, withhold, type Shown, type Verdict } from "./response.ts";
import { bindTask, foreignTask, noSuchTask, showsForeignTask } from "./task-ownership.ts";
import { priceTask, type TaskPricing, type TaskQuote } from "./task-price.ts";
import { heldForInspection, taskPath, type TaskSteps } from "./tasks.ts";

/** Differences between the paths that create a task. */
export interface CreationPath {
  /** Its name in charges and metrics. */
  readonly route: string;
  read(body: Buffer): TaskRequestResult;
  /** Fields of the body that are read: the query must not state them. */
  readonly fields: readonly string[];
  /** Index of the path segment that names the task that the new one is made of; null for none. */
  readonly taskSegment: number | null;
  /** True where it costs nothing unless its answer names a task. */
  readonly isFree: boolean;
  /** True where its body has a `config` with a webhook. */
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

interface BodyBytes {
  readonly bytes: Buffer;
  release(): void;
}

interface Asked {
  readonly request: TaskRequest;
  /** Ids of tasks that the request itself names: the gateway's answer may repeat them. */
  readonly mentioned: ReadonlySet<string>;
}

type Quote = TaskQuote & Pick<Asked, "mentioned">;

/** A creation that a durable hold covers. */
interface Creation extends Covered {
  readonly quote: Quote;
  /** The body as it came. */
  readonly body: Buffer;
  readonly webhook: WebhookConfig;
  readonly leave: () => void;
}

/** Answers requests that create a task. They take the steps of every request (`pipeline`); the task settles the charge when it ends. */
export function createTask(steps: TaskSteps, path: CreationPath = unifiedCreation): Handler {
  return pipeline<BodyBytes, Asked, Quote, Creation>(steps, {
    route: path.route,
    async readBody(exchange) {
      const body = await exchange.readBody();
      return body.ok ? { ok: true, body } : body;
    },
    read: (exchange, who, body) => readCreation(steps, path, exchange, who, body.bytes),
    price: (asked, who, at) => price(steps, path, who, asked, at),
    cover: (exchange, from, quote, body) => cover(steps, path, exchange, from, quote, body.bytes),
    forward: (exchange, covered) => forward(steps, path, exchange, covered),
    leave: (covered) => covered.leave(),
    settle: (covered, { ending }, end) => settle(steps, covered, outcomeOf(ending, covered), end),
  });
}

type Refused = { readonly ok: false; readonly refusal: Refusal };

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
  // A request may use a task that the ledger does not know, but only in its body.
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
  const pricing: TaskPricing = path.isFree ? freeOf(request, at) : priceTask(steps, request, at);
  if (!pricing.ok) return pricing;
  const { quote } = pricing;
  const forbidden = quote.models.find(({ name, id }) => !mayUseModel(who, name, id));
  if (forbidden !== undefined) return { ok: false, refusal: { code: "model_not_allowed", model: forbidden.name } };
  return { ok: true, quote: { ...quote, mentioned } };
}

/** The quote of a path that costs nothing: a hold of nothing fits into every budget. */
function freeOf(request: TaskRequest, at: number): { readonly ok: true; readonly quote: TaskQuote } {
  return {
    ok: true,
    quote: { request, at, model: undefined, models: [], hold: noMoney, bounded: true, quantity: null },
  };
}

type Covering = { readonly ok: true; readonly covered: Creation } | Refused;

/** Takes a slot among the tasks that may run, and holds the most that the task can cost. */
async function cover(
  steps: TaskSteps,
  path: CreationPath,
  exchange: Exchange,
  from: Tagged,
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
    const { who, slot } = from;
    const held = { id: exchange.id, route: path.route, hold: quote.hold, price: quote.model?.price?.version ?? null };
    const { leave } = room;
    return { ok: true, covered: { who, slot, held, quote, stream: false, body, webhook: webhook.config, leave } };
  } finally {
    if (!isCovered) room.leave();
  }
}

/** Returns null if the hold was placed. */
async function hold(
  { ledger, scopeName }: TaskSteps,
  { route }: CreationPath,
  { id }: Exchange,
  { who, tags, retry }: Tagged,
  quote: Quote,
): Promise<Refusal | null> {
  const held = await writeHold(ledger, { id, kind: "task", route, who, quote, tags, retry }, quote.hold);
  if (held.ok) return null;
  const { request, model } = quote;
  const fields = [model?.quantity.field ?? "input"];
  return holdRefusal(held, { model: request.model, isPriced: model?.price != null, fields }, scopeName);
}

/** Forms. A body that was read as JSON is sent as JSON: another reader of its bytes could find other fields. */
const formType = /^\s*(?:application\/x-www-form-urlencoded|multipart\/form-data)/i;

/** Writes our own webhook into a creation, and sends it. */
async function forward(
  steps: TaskSteps,
  path: CreationPath,
  exchange: Exchange,
  covered: Creation,
): Promise<FinallyForwarded> {
  const enlisted = path.hasWebhook
    ? await steps.webhooks.enlist(covered.body, exchange.id, covered.webhook)
    : { ok: true as const, body: covered.body, shown: unchangedAnswer };
  if (exchange.clientGone) return notSent("client_left");
  if (!enlisted.ok) {
    exchange.refuse(enlisted.refusal);
    return notSent(enlisted.refusal.code);
  }
  const { body, shown } = enlisted;
  const headers = steps.gatewayHeaders(exchange, covered.who.caller);
  const isForm = !path.isFree && formType.test(headers["content-type"] ?? "");
  const { ending, overheadMs } = await steps.forwarder.forward({
    ...heldForInspection,
    exchange,
    path: exchange.path + exchange.query,
    headers: isForm ? { ...headers, "content-type": "application/json" } : headers,
    body: exchange.method === "GET" ? undefined : body,
    inspect: (status, plain) => inspect(steps, path, exchange, { ...covered, shown }, status, plain),
  });
  if (ending.kind === "usageRefused") throw new Error("no usage was asked for, and it was refused");
  return { ending, terms: null, gatewayRequestId: null, firstTokenMs: null, overheadMs };
}

/** A creation that was sent. */
interface Sent extends Creation {
  /** Changes answers about the task for its client. */
  readonly shown: Shown;
}

type Created = TaskRecord & { readonly taskId: string };

/** Binds the task before the client sees its id. Says how the charge of a creation ends that made no task of this key. */
async function inspect(
  steps: TaskSteps,
  path: CreationPath,
  exchange: Exchange,
  covered: Sent,
  status: number,
  plain: Buffer | undefined,
): Promise<Verdict> {
  const { key } = covered.who.caller;
  const record = status < 300 && plain !== undefined ? readTaskRecord(plain) : undefined;
  const created = record !== undefined && record.taskId !== null ? { ...record, taskId: record.taskId } : undefined;
  const isForeign =
    plain !== undefined &&
    (await showsForeignTask(steps, plain, { requestId: exchange.id, key, own: created?.taskId }));
  if (plain !== undefined && created !== undefined)
    return isForeign ? withholdForeign(exchange) : bindCreated(steps, exchange, covered, begun(created), plain);
  const outcome = withoutTask(status, plain, covered.quote.model?.billsServerErrors ?? false);
  if (isForeign) return withhold(exchange, noSuchTask, { kind: "judged", outcome });
  const isFree = path.isFree && status < 300;
  return {
    show: covered.shown,
    ending: { kind: "judged", outcome: isFree ? { kind: "notSent", reason: "free" } : outcome },
  };
}

function withholdForeign(exchange: Exchange): Verdict {
  return withhold(exchange, noSuchTask, { kind: "unknown", reason: foreignTask });
}

async function bindCreated(
  steps: TaskSteps,
  exchange: Exchange,
  covered: Sent,
  record: Created,
  plain: Buffer,
): Promise<Verdict> {
  const { taskId } = record;
  const bound = await bind(steps, exchange.id, covered, record);
  if (bound.ok) {
    await bindFurther(steps, exchange, covered, tasksNamed(plain), taskId).catch((error: unknown) =>
      steps.log.error({ request_id: exchange.id, err: error }, "further tasks of a creation could not be recorded"),
    );
    steps.wakePoller();
    if (finalStatusOf(record) !== null) steps.background(recordCreated(steps, taskId, record));
    return { show: covered.shown, ending: { kind: "task" } };
  }
  if (bound.reason !== "taken") {
    steps.log.error(
      { request_id: exchange.id, task_id: taskId, reason: bound.reason },
      "a task could not be recorded; recovery posts its hold",
    );
    // Not settled here: the task may have been bound all the same.
    return withhold(exchange, { code: "ledger_unavailable" }, { kind: "task" });
  }
  const known = await steps.tasks.find(taskId);
  if (known?.key !== covered.who.caller.key) {
    steps.log.warn(
      { request_id: exchange.id, task_id: taskId },
      "the gateway answered with a task of another key; the answer is not shown",
    );
    return withholdForeign(exchange);
  }
  // The gateway answered with a task that is known, as to a repeated idempotency key: that one's charge pays for it. One that the
  // request named itself may have been continued, and nothing says what that cost.
  const shownOfKnown = await steps.webhooks.shownFor(known.charge);
  const outcome: Outcome = covered.quote.mentioned.has(taskId)
    ? { kind: "unknown", reason: "task_continued" }
    : { kind: "notSent", reason: "task_known" };
  return { show: (text) => shownOfKnown(covered.shown(text)), ending: { kind: "judged", outcome } };
}

/**
 * Returns the record of a creation's answer. A "success" without an end or a consumption means that the task was accepted, not that it is
 * completed.
 */
function begun<Record extends TaskRecord>(record: Record): Record {
  return record.status === "completed" && record.endedAt === null && record.consumption === null
    ? { ...record, status: "pending" }
    : record;
}

/** Most further tasks of one creation that are charged. */
const furtherMax = 100;

/** Charges each further task of an answer, without a hold if the budget has no room: the task runs either way. */
async function bindFurther(
  steps: TaskSteps,
  exchange: Exchange,
  covered: Creation,
  named: ReadonlySet<string>,
  first: string,
): Promise<void> {
  for (const taskId of [...named]
    .filter((id) => id !== first && !covered.quote.mentioned.has(id))
    .slice(0, furtherMax)) {
    if ((await steps.tasks.find(taskId)) !== undefined) continue;
    const charge = steps.newId();
    const { who, held, quote } = covered;
    const row = { id: charge, kind: "task", route: held.route, who, quote, tags: {}, retry: 0 } as const;
    const holding = await writeHold(steps.ledger, row, quote.hold);
    if (!holding.ok) await writeHold(steps.ledger, row, noMoney, { bounded: true });
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
    if (bound.ok) continue;
    // Another answer that names it was faster, and its charge pays.
    if (bound.reason === "taken") {
      await steps.ledger.void(charge, "task_known", endOf(exchange, steps.clock));
      continue;
    }
    steps.log.error(
      { request_id: exchange.id, task_id: taskId, reason: bound.reason },
      "a further task of a creation could not be recorded; recovery posts its hold",
    );
  }
}

function bind(
  steps: TaskSteps,
  charge: string,
  { who, quote }: Creation,
  { taskId, status, startedAt }: Created,
): Promise<BindResult> {
  const { model, taskType } = quote.request;
  const { key } = who.caller;
  return bindTask(steps, { taskId, charge, key, model, taskType, status, startedAt, quantity: quote.quantity });
}

async function recordCreated({ tasks, tracker }: TaskSteps, taskId: string, record: TaskRecord): Promise<void> {
  const task = await tasks.find(taskId);
  if (task !== undefined) await tracker.onRecord(task, record, "client");
}

/**
 * Decides how a creation without a task ends its charge. An answer that says what is wrong with the request, by its status or by the
 * code in its envelope, has made none; all else leaves it open.
 */
function withoutTask(status: number, plain: Buffer | undefined, billsServerErrors: boolean): Outcome {
  if (status >= 300) return outcomeOfStatus(status, billsServerErrors);
  const refused = plain === undefined ? undefined : refusalIn(plain, billsServerErrors);
  return refused ?? { kind: "unknown", reason: "unreadable_answer" };
}

/** Reasons that leave open whether the gateway made the task before it lost sight of it. */
const openReasons: ReadonlySet<TaskFailure> = new Set(["network", "upstream_timeout", "time_limit"]);

/** Returns how a refusal inside an answer of success ends the charge; undefined for other answers. */
function refusalIn(text: Buffer, billsServerErrors: boolean): Outcome | undefined {
  const refused = readRefusedCreation(text);
  if (refused === undefined) return undefined;
  const { code, texts } = refused;
  if (code !== null && code >= 400 && code <= 599) return outcomeOfStatus(code, billsServerErrors);
  const reason = failureReason(texts);
  const words = reason === "other" ? `gateway_${code ?? "refused"}` : reason;
  return openReasons.has(reason)
    ? { kind: "unknown", reason: words }
    : { kind: "refusedByGateway", status: code ?? 200, reason: words };
}

/** Decides how the charge of a creation ends that has no task. */
function outcomeOf(ending: Ended["ending"], { quote }: Creation): Outcome {
  switch (ending.kind) {
    case "judged":
      return ending.outcome;
    case "status":
      return outcomeOfStatus(ending.status, quote.model?.billsServerErrors ?? false);
    case "notSent":
      return ending;
    case "unknown":
    case "whole":
    case "cut":
      return { kind: "unknown", reason: ending.kind === "unknown" ? ending.reason : "unreadable_answer" };
  }
}
