import { noMoney } from "../core/money.ts";
import { invalid, type OrRefused } from "../core/refusals.ts";
import type { ChargePosted } from "../ports/events.ts";
import { BodyBytes, type Exchange, type Handler } from "../ports/exchange.ts";
import type { ChargeEnd } from "../ports/ledger.ts";
import { equalFolded } from "../wire/findings.ts";
import { readTaskRequest, type TaskRequest, type TaskRequestResult } from "../wire/task-request.ts";
import { tasksMentioned } from "../wire/task.ts";
import { noWebhook, type WebhookConfig } from "../wire/webhook-config.ts";
import { mayUseModel, type Authenticated, type Sender } from "./authenticate.ts";
import { gatewayHeaders } from "./forward.ts";
import { noPriceMark } from "./billed.ts";
import { holdRefusal, writeHold } from "./hold.ts";
import {
  notSent,
  pipeline,
  type Covered,
  type Ended,
  type FinallyForwarded,
  type Identified,
  type Refused,
  type RequestKind,
} from "./pipeline.ts";
import { noSuchTask, unchangedAnswer } from "./response.ts";
import { knownName } from "./price.ts";
import { settle } from "./settle.ts";
import { inspectCreation, outcomeOf } from "./task-answer.ts";
import { priceTask, type TaskPricing, type TaskQuote } from "./task-price.ts";
import { heldForInspection, taskPath, type TaskSteps } from "./task-retrieval.ts";

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

interface CreationRequest {
  readonly request: TaskRequest;
  /** Ids of tasks that the request names. The gateway's answer may repeat them. */
  readonly mentioned: ReadonlySet<string>;
}

type Quote = TaskQuote & Pick<CreationRequest, "mentioned">;

/** Creation with a durable hold. */
interface Creation extends Covered {
  readonly quote: Quote;
  /** Body as the client sent it. */
  readonly body: Buffer;
  readonly webhook: WebhookConfig;
  readonly sender: Sender;
  /** Stops counting this creation as a running task. Called once the creation has ended. */
  readonly leave: () => void;
}

/** Returns the handler of requests that create a task. */
export function createTask(steps: TaskSteps, path: CreationPath = unifiedCreation): Handler {
  return pipeline(steps, new TaskCreations(steps, path));
}

/** Steps of requests that create a task. The charge is settled when the task ends. */
class TaskCreations implements RequestKind<CreationRequest, Quote, Creation> {
  readonly route: string;
  readonly isFree: boolean;
  readonly #steps: TaskSteps;
  readonly #path: CreationPath;

  constructor(steps: TaskSteps, path: CreationPath) {
    this.route = path.route;
    this.isFree = path.isFree;
    this.#steps = steps;
    this.#path = path;
  }

  read(exchange: Exchange, who: Authenticated, body: BodyBytes) {
    return readCreation(this.#steps, this.#path, exchange, who, body.whole);
  }

  userOf({ request }: CreationRequest): string | null {
    return request.user;
  }

  price(
    { request, mentioned }: CreationRequest,
    who: Authenticated,
    at: number,
  ): Refused | { readonly ok: true; readonly quote: Quote } {
    const pricing: TaskPricing = this.isFree ? freeQuote(request, at) : priceTask(this.#steps, request, at);
    if (!pricing.ok) return pricing;
    const { quote } = pricing;
    const catalogue = this.#steps.catalogue();
    const forbidden = quote.models.find((named) => !mayUseModel(who, named, catalogue));
    if (forbidden !== undefined)
      return { ok: false, refusal: { code: "model_not_allowed", model: forbidden.name }, model: knownName(quote) };
    return { ok: true, quote: { ...quote, mentioned } };
  }

  /** Takes a slot under the limit of running tasks, and holds the largest possible cost of the task. */
  async cover(
    exchange: Exchange,
    { who, slot, sender, retry }: Identified,
    quote: Quote,
    { whole: body }: BodyBytes,
  ): Promise<OrRefused<{ covered: Creation }>> {
    const steps = this.#steps;
    const { route, hasWebhook } = this.#path;
    const { id } = exchange;
    const webhook = hasWebhook ? await steps.webhooks.read(body) : { ok: true as const, config: noWebhook };
    if (!webhook.ok) return webhook;
    const { request, model } = quote;
    const admission = this.isFree
      ? ({ ok: true, leave() {} } as const)
      : await steps.admitTask({ charge: id, model: request.model, taskType: request.taskType });
    if (!admission.ok) return admission;
    const { leave } = admission;
    let isCovered = false;
    try {
      const held = await writeHold(steps.ledger, { id, kind: "task", route, who, quote, sender, retry }, quote.hold);
      if (!held.ok) {
        const fields = [model?.quantity.field ?? "input"];
        const asked = { model: request.model, isPriced: model?.price != null, fields };
        return { ok: false, refusal: await holdRefusal(steps, held, asked, who.caller) };
      }
      isCovered = true;
      const charge = { id, route, hold: quote.hold, price: model?.price?.version ?? null };
      const { config } = webhook;
      return { ok: true, covered: { who, slot, charge, quote, stream: false, body, webhook: config, sender, leave } };
    } finally {
      if (!isCovered) leave();
    }
  }

  /** Puts Farebox's webhook into the request, and sends it. */
  async forward(exchange: Exchange, covered: Creation): Promise<FinallyForwarded> {
    const steps = this.#steps;
    const { isFree, hasWebhook } = this.#path;
    const prepared = hasWebhook
      ? await steps.webhooks.addCallback(covered.body, exchange.id, covered.webhook)
      : { ok: true as const, body: covered.body, shown: unchangedAnswer };
    if (exchange.clientGone) return notSent("client_left");
    if (!prepared.ok) {
      exchange.refuse(prepared.refusal);
      return notSent(prepared.refusal.code);
    }
    const { body, shown } = prepared;
    const creation = { ...covered, mentioned: covered.quote.mentioned, isFree, shown };
    const isSent = exchange.method !== "GET";
    const form = isFree || body.length === 0 ? "unread" : "json";
    const { ending, overheadMs } = await steps.forwarder.forward({
      ...heldForInspection,
      exchange,
      path: exchange.path + exchange.query,
      headers: gatewayHeaders(steps.idempotencySecret, exchange, covered.who.caller, isSent ? form : "none"),
      body: isSent ? new BodyBytes([body]) : undefined,
      ownHeaders: covered.charge.price === null && !isFree ? [noPriceMark] : [],
      inspect: (status, plain) => inspectCreation(steps, exchange, creation, status, plain),
    });
    if (ending.kind === "usageRefused")
      throw new Error("the gateway refused stream usage for a request that did not ask for it");
    return { ending, terms: null, gatewayRequestId: null, firstTokenMs: null, overheadMs };
  }

  leave(covered: Creation): void {
    covered.leave();
  }

  settle(covered: Creation, { ending }: Ended, end: ChargeEnd, release: () => void): Promise<ChargePosted | null> {
    release();
    return settle(this.#steps, covered, outcomeOf(ending, covered), end);
  }
}

async function readCreation(
  steps: TaskSteps,
  path: CreationPath,
  exchange: Exchange,
  { caller }: Authenticated,
  body: Buffer,
): Promise<{ readonly ok: true; readonly request: CreationRequest } | Refused> {
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
