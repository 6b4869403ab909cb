import { outcomeOfError, outcomeOfStatus, type Outcome } from "../core/settlement.ts";
import { finalStatusOf, type TaskFailure, type TaskRecord } from "../core/tasks.ts";
import type { Exchange } from "../ports/exchange.ts";
import { readCreatedTasks, readCreationError, type CreatedTask, type CreatedTasks } from "../wire/created-tasks.ts";
import { tasksNamed } from "../wire/task.ts";
import type { Sender } from "./authenticate.ts";
import { endOf, type Covered, type Ended } from "./pipeline.ts";
import {
  unchangedAnswer,
  withhold,
  type AnswerChange,
  type Verdict,
  foreignTaskReason,
  noSuchTask,
  showsForeignTask,
} from "./response.ts";
import { asAccepted, bindTasks } from "./task-ownership.ts";
import type { TaskQuote } from "./task-price.ts";
import type { TaskSteps } from "./task-retrieval.ts";

/** Request to create a task, as it is sent to the gateway. */
export interface SentCreation extends Covered {
  readonly quote: TaskQuote;
  /** Ids of tasks that the request names. The gateway's answer may repeat them. */
  readonly mentioned: ReadonlySet<string>;
  /** True if the request costs nothing unless its answer names a new task. */
  readonly isFree: boolean;
  /** Body as the client sent it. */
  readonly body: Buffer;
  readonly sender: Sender;
  /** Changes answers about the task for its client. */
  readonly shown: AnswerChange;
}

/**
 * Binds the created tasks before the client sees their ids. If no task of this key was created, decides how the charge
 * ends.
 */
export async function inspectCreation(
  steps: TaskSteps,
  exchange: Exchange,
  creation: SentCreation,
  status: number,
  plain: Buffer | undefined,
): Promise<Verdict> {
  if (plain === undefined) return verdictWithoutTask(creation, status, plain);
  const { key } = creation.who.caller;
  const { tasks: made, idKind } = status < 300 ? createdIn(creation, plain) : noneCreated;
  const named = new Set([...tasksNamed(plain), ...made.map(({ taskId }) => taskId)]);
  const isForeign = await showsForeignTask(steps, named, { requestId: exchange.id, key });
  if (isForeign)
    return made.length > 0
      ? withholdForeign(exchange)
      : withhold(exchange, noSuchTask, verdictWithoutTask(creation, status, plain).ending);
  const { mentioned } = creation;
  const continuing = made.filter(({ taskId }) => mentioned.has(taskId));
  const [continued] = continuing;
  // Only one id may be that of an older task or a repetition of the request. A request that guesses the ids of several
  // new tasks must not make them free.
  const isOld = (task: CreatedTask) =>
    continuing.length === 1
      ? task === continued
      : idKind !== "task" && made.length === 1 && requestContains(exchange, creation, task.taskId);
  const fresh = made.filter((task) => !isOld(task));
  const bound = await bindCreated(steps, exchange, creation, fresh);
  if (bound !== "known") return bound;
  if (continued !== undefined) {
    const repeated = await bindCreated(steps, exchange, creation, [continued]);
    if (repeated !== "known") return repeated;
    // The request names the task, so the gateway may have continued it at an unknown cost.
    return verdictOnKnown(steps, creation, continued.taskId, { kind: "unknown", reason: "task_continued" });
  }
  const [first] = fresh;
  if (first === undefined) return verdictWithoutTask(creation, status, plain);
  // The gateway may answer a repeated idempotency key with a known task. An earlier charge pays for that task. An id in
  // a member such as `id` may be that of something else, such as the account.
  const isRepeat = idKind === "task" && fresh.every(({ isPlainId }) => isPlainId !== true);
  const outcome: Outcome = isRepeat
    ? { kind: "notSent", reason: "task_known" }
    : { kind: "unknown", reason: "unreadable_answer" };
  return verdictOnKnown(steps, creation, first.taskId, outcome);
}

const noneCreated: CreatedTasks = { tasks: [], idKind: "task" };

/**
 * Returns the tasks that an answer names, unless it refuses the creation. On a free path, only ids under a task's name
 * count.
 */
function createdIn({ isFree }: SentCreation, plain: Buffer): CreatedTasks {
  const created = readCreatedTasks(plain);
  if (created.idKind !== "task" && (isFree || readCreationError(plain) !== undefined)) return noneCreated;
  return { ...created, tasks: created.tasks.map(asAccepted) };
}

/** Returns true if the request contains an id, so that the answer may only repeat it. */
function requestContains({ path, query }: Exchange, { body }: SentCreation, taskId: string): boolean {
  return body.includes(taskId) || (path + query).includes(taskId);
}

/** Returns the verdict on an answer that names no task of this key. */
function verdictWithoutTask(creation: SentCreation, status: number, plain: Buffer | undefined): Verdict {
  const outcome: Outcome =
    creation.isFree && status < 300
      ? { kind: "notSent", reason: "free" }
      : outcomeWithoutTask(status, plain, creation.quote.model?.billsServerErrors ?? false);
  return { show: creation.shown, ending: { kind: "judged", outcome } };
}

function withholdForeign(exchange: Exchange): Verdict {
  return withhold(exchange, noSuchTask, { kind: "unknown", reason: foreignTaskReason });
}

/** Returns the verdict on an answer with a task that the key created before. */
async function verdictOnKnown(
  { tasks, webhooks }: TaskSteps,
  { shown }: SentCreation,
  taskId: string,
  outcome: Outcome,
): Promise<Verdict> {
  const charge = (await tasks.find(taskId))?.charge;
  const changeForKnown = charge === undefined ? unchangedAnswer : await webhooks.shownFor(charge);
  return { show: (text) => changeForKnown(shown(text)), ending: { kind: "judged", outcome } };
}

/** Binds created tasks. Returns `known` if earlier charges pay for all of them. */
async function bindCreated(
  steps: TaskSteps,
  exchange: Exchange,
  creation: SentCreation,
  created: readonly CreatedTask[],
): Promise<Verdict | "known"> {
  const { who, charge, quote, sender } = creation;
  const { isCharged, claimed } = await bindTasks(steps, created, {
    charge: exchange.id,
    route: charge.route,
    hold: quote.hold,
    taskType: quote.request.taskType,
    quantity: quote.quantity,
    who,
    quote,
    sender,
    end: () => endOf(exchange, steps.clock),
    prepare: (further) => steps.webhooks.shareCallback(exchange.id, further),
  });
  for (const record of isCharged ? created : [])
    if (finalStatusOf(record) !== null) steps.background(recordCreated(steps, record.taskId, record));
  switch (claimed) {
    case "bound":
      return { show: creation.shown, ending: { kind: "task" } };
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
export function outcomeOf(ending: Ended["ending"], { quote }: { readonly quote: TaskQuote }): Outcome {
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
