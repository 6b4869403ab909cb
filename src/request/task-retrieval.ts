import type { Refusal } from "../core/refusals.ts";
import { finalStatusOf, type Task, type TaskRecord } from "../core/tasks.ts";
import { BodyBytes, type Exchange, notForwarded, refuse, type Handler } from "../ports/exchange.ts";
import type { TaskStore } from "../ports/stores.ts";
import { passthrough } from "../wire/endpoints/passthrough.ts";
import { readCreatedTasks } from "../wire/created-tasks.ts";
import {
  isTaskId,
  readPolledRecord,
  readTaskRecord,
  tasksMentioned,
  tasksNamed,
  withOwnRecordsOnly,
} from "../wire/task.ts";
import { taskAnswerBytesMax, type RecordFetcher } from "./fetch-whole.ts";
import { gatewayHeaders, type ForwardParams } from "./forward.ts";
import { withKey } from "./authenticate.ts";
import type { ShortageView } from "./hold.ts";
import { type Mask, unchangedAnswer, withhold, type ResponseEnding, noSuchTask, showsForeignTask } from "./response.ts";
import type { PipelineSteps } from "./pipeline.ts";
import type { AdmitTask } from "./task-ceilings.ts";
import type { TaskPriceDeps } from "./task-price.ts";
import type { TaskTracker } from "./task-tracker.ts";
import type { TaskWebhooks } from "./task-webhooks.ts";

/** The gateway's unified path. It serves the tasks of every model family. */
export const taskPath = "/api/v1/task";

/** Dependencies of requests for tasks, in addition to those of every request. */
export interface TaskSteps extends PipelineSteps, TaskPriceDeps, ShortageView {
  readonly mask: Mask;
  readonly tasks: TaskStore;
  readonly tracker: TaskTracker;
  readonly webhooks: TaskWebhooks;
  readonly admitTask: AdmitTask;
  /** Wakes the poller, because the time of a task's next poll may have changed. */
  readonly wakePoller: () => void;
}

/**
 * Returns a handler that forwards requests for task records, and passes the answers to the owner of the tasks.
 * Afterwards, applies the record to its task.
 */
export function retrieveTask(
  steps: TaskSteps,
  route = unifiedRoute,
  readAsked: ReadAskedTasks = readUnifiedPath,
): Handler {
  return withOwnTasks(steps, route, readAsked, async (exchange, tasks, asked) => {
    const shown = await passAnswer(steps, exchange, tasks, asked);
    if (shown !== undefined) steps.background(steps.tracker.onRecord(shown.task, shown.record, "client"));
  });
}

/**
 * Returns a handler that forwards requests to cancel tasks. The later record of a task shows whether the gateway
 * canceled it.
 */
export function cancelTask(
  steps: TaskSteps,
  route = unifiedRoute,
  readAsked: ReadAskedTasks = readUnifiedPath,
): Handler {
  return withOwnTasks(steps, route, readAsked, async (exchange, tasks, asked) => {
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

/** Ids of the tasks that a request asks for, and the request to forward. */
interface AskedTasks {
  readonly taskIds: readonly string[];
  readonly path: string;
  readonly body: Buffer | undefined;
}

/** Reads the tasks that a request asks for. `release` frees the memory of its body. */
export type ReadAskedTasks = (
  exchange: Exchange,
) => Promise<
  | { readonly ok: true; readonly asked: AskedTasks; readonly release: () => void }
  | { readonly ok: false; readonly refusal: Refusal | null }
>;

const unifiedRoute = `${taskPath}/:task_id`;

const readUnifiedPath: ReadAskedTasks = async (exchange) => {
  const taskId = decodeURIComponent(exchange.path.slice(taskPath.length + 1));
  return {
    ok: true,
    asked: { taskIds: [taskId], path: `${taskPath}/${encodeURIComponent(taskId)}`, body: undefined },
    release: () => {},
  };
};

/**
 * Returns a handler for requests that name tasks. Refuses a request as not found unless the caller owns every named
 * task. These requests cost nothing, so no limit counts them.
 */
function withOwnTasks(
  steps: TaskSteps,
  route: string,
  readAsked: ReadAskedTasks,
  handle: (exchange: Exchange, tasks: readonly Task[], asked: AskedTasks) => Promise<void>,
): Handler {
  return withKey(steps.authenticate, route, async (exchange, who) => {
    const read = await readAsked(exchange);
    if (!read.ok) return read.refusal === null ? notForwarded : refuse(exchange, read.refusal);
    const { asked, release } = read;
    try {
      const tasks: Task[] = [];
      for (const taskId of asked.taskIds) {
        const task = isTaskId(taskId) ? await steps.tasks.find(taskId) : undefined;
        if (task === undefined || task.key !== who.caller.key) return refuse(exchange, noSuchTask);
        tasks.push(task);
      }
      // The answer could be about any other task that the request names, so the request must name no others.
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

/** Parameters for requests about tasks. An answer is held until it is complete, and only `inspect` reads it. */
export const heldForInspection = {
  endpoint: { ...passthrough, answerReader: () => ({ push: () => undefined, end: () => undefined }) },
  stream: false,
  dropUsageChunk: false,
  cutAtMaximum: null,
  watch: undefined,
  ownHeaders: [],
  wholeBytesMax: taskAnswerBytesMax,
  costHeaders: () => [],
} satisfies Partial<ForwardParams>;

/** Ending of a request without a charge. */
const withoutCharge: ResponseEnding = { kind: "task" };

/**
 * Forwards the request and its answer. Returns the record in the answer and its task; undefined if the answer is not
 * the record of one of `tasks`.
 */
async function passAnswer(
  steps: TaskSteps,
  exchange: Exchange,
  tasks: readonly Task[],
  asked: AskedTasks,
): Promise<{ readonly task: Task; readonly record: TaskRecord } | undefined> {
  const key = tasks[0]?.key ?? "";
  let record: TaskRecord | undefined;
  await steps.forwarder.forward({
    ...heldForInspection,
    exchange,
    path: asked.path + exchange.query,
    headers: gatewayHeaders(
      steps.idempotencySecret,
      exchange,
      { key, team: null },
      asked.body === undefined ? "none" : "json",
    ),
    body: asked.body && new BodyBytes([asked.body]),
    async inspect(status, plain) {
      if (plain !== undefined && (await showsForeignTask(steps, plain, { requestId: exchange.id, key })))
        return withhold(exchange, noSuchTask, withoutCharge);
      const webhookChanges = await Promise.all(tasks.map(({ charge }) => steps.webhooks.shownFor(charge)));
      record = status < 300 && plain !== undefined ? recordAmong(tasks, plain) : undefined;
      return { ending: withoutCharge, show: (text) => webhookChanges.reduce((bytes, show) => show(bytes), text) };
    },
  });
  const task = tasks.find(({ taskId }) => taskId === record?.taskId);
  return task && record && { task, record };
}

/** Returns the record in an answer. If the answer has no `task_id`, a member such as `id` may name one of the tasks. */
function recordAmong(tasks: readonly Task[], plain: Buffer): TaskRecord | undefined {
  const record = readTaskRecord(plain);
  if (record === undefined || record.taskId !== null) return record;
  const { tasks: named } = readCreatedTasks(plain);
  return named.find(({ taskId }) => tasks.some((task) => task.taskId === taskId)) ?? record;
}

/** Returns a handler that forwards requests for a list of tasks. The answer has only the tasks of the client's key. */
export function listTasks(steps: TaskSteps, route: string): Handler {
  return withKey(steps.authenticate, route, async (exchange, { caller }) => {
    const { key } = caller;
    await steps.forwarder.forward({
      ...heldForInspection,
      exchange,
      path: exchange.path + exchange.query,
      headers: gatewayHeaders(steps.idempotencySecret, exchange, caller, "none"),
      body: undefined,
      async inspect(status, plain) {
        const isFailure = status >= 300 && plain !== undefined;
        if (isFailure && !(await showsForeignTask(steps, plain, { requestId: exchange.id, key })))
          return { ending: withoutCharge, show: unchangedAnswer };
        const list = await ownTasksIn(steps, plain ?? nothing, key);
        exchange.answer(status, [["content-type", "application/json"]], list);
        return { ending: withoutCharge, show: null };
      },
    });
    return notForwarded;
  });
}

/** Returns a list with only the records of a key's tasks, with the client's own webhooks in them. */
async function ownTasksIn({ tasks, webhooks, mask }: TaskSteps, list: Buffer, key: string): Promise<Buffer> {
  const own: Task[] = [];
  for (const taskId of tasksNamed(list)) {
    const task = await tasks.find(taskId);
    if (task?.key === key) own.push(task);
  }
  const webhookChanges = await Promise.all(own.map(({ charge }) => webhooks.shownFor(charge)));
  const records = Buffer.from(withOwnRecordsOnly(list, new Set(own.map(({ taskId }) => taskId))));
  return webhookChanges.reduce((bytes, show) => show(bytes), mask(records));
}

/** Returns a function that fetches the record of a task and applies it. */
export function pollTask(records: RecordFetcher, tracker: TaskTracker): (task: Task) => Promise<void> {
  return async (task) => {
    const answer = await records.fetch(`${taskPath}/${encodeURIComponent(task.taskId)}`);
    const record = answer && readPolledRecord(answer);
    await (record === undefined ? tracker.onPollFailed(task) : tracker.onRecord(task, record, "poller"));
  };
}
