import type { Shortage } from "../core/budget.ts";
import type { Refusal } from "../core/refusals.ts";
import { finalStatusOf, type Task, type TaskRecord } from "../core/tasks.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { TaskStore } from "../ports/task-store.ts";
import { passthrough } from "../wire/endpoints/passthrough.ts";
import { isTaskId, readTaskRecord, tasksMentioned, tasksNamed, withOwnRecordsOnly } from "../wire/task.ts";
import { taskAnswerBytesMax, type RecordFetcher } from "./fetch-whole.ts";
import type { ForwardParams } from "./forward.ts";
import { notForwarded, refuse, withKey, type Handler } from "./handler.ts";
import type { Mask } from "./mask.ts";
import type { PipelineSteps } from "./pipeline.ts";
import { unchangedAnswer, withhold, type ResponseEnding } from "./response.ts";
import type { AdmitTask } from "./task-ceilings.ts";
import { noSuchTask, showsForeignTask } from "./task-ownership.ts";
import type { TaskPriceDeps } from "./task-price.ts";
import type { TaskTracker } from "./task-tracker.ts";
import type { TaskWebhooks } from "./task-webhooks.ts";

/** The path of every family's tasks. */
export const taskPath = "/api/v1/task";

/** The steps of tasks, in addition to those of every request. */
export interface TaskSteps extends PipelineSteps, TaskPriceDeps {
  /** Returns the name under which a user knows a budget's scope. */
  readonly scopeName: (shortage: Shortage) => Promise<string>;
  readonly mask: Mask;
  readonly tasks: TaskStore;
  readonly tracker: TaskTracker;
  readonly webhooks: TaskWebhooks;
  readonly admitTask: AdmitTask;
  readonly random: () => number;
  readonly newId: () => string;
  /** Reports a task that the poller is to follow. */
  readonly wakePoller: () => void;
}

/** authenticate ─▶ own task? ─▶ forward ─▶ answer; what the record says settles the task afterwards */
export function retrieveTask(steps: TaskSteps, askedOf: AskedOf = unifiedAsked): Handler {
  return ofOwnTasks(steps, askedOf, async (exchange, tasks, asked) => {
    const shown = await passAnswer(steps, exchange, tasks, asked);
    if (shown !== undefined) steps.background(steps.tracker.onRecord(shown.task, shown.record, "client"));
  });
}

/** Asks the gateway to cancel the tasks. Their records say whether it did. */
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

/** The tasks that a request asks for, by id, and the request to forward. */
interface AskedTasks {
  readonly taskIds: readonly string[];
  readonly path: string;
  readonly body: Buffer | undefined;
}

/** Reads which tasks a request asks for; `release` frees the memory of its body. */
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
 * Handles requests that name tasks, for their owner alone: to anyone else they do not exist.
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

/** Answers about tasks are held whole, and read by their inspection alone. */
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

/** The end of a request that has no charge of its own. */
const withoutCharge: ResponseEnding = { kind: "task" };

/** Sends the request on and gives the client its answer. Returns the record in it with its task, where it is one of these. */
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
    headers: steps.gatewayHeaders(exchange, { key, team: null }),
    body: asked.body,
    async inspect(status, plain) {
      if (plain !== undefined && (await showsForeignTask(steps, plain, { requestId: exchange.id, key })))
        return withhold(exchange, noSuchTask, withoutCharge);
      const shown = await Promise.all(tasks.map(({ charge }) => steps.webhooks.shownFor(charge)));
      record = status < 300 && plain !== undefined ? readTaskRecord(plain) : undefined;
      return { ending: withoutCharge, show: (text) => shown.reduce((bytes, show) => show(bytes), text) };
    },
  });
  const task = tasks.find(({ taskId }) => taskId === record?.taskId);
  return task && record && { task, record };
}

/** Gives the client an answer that lists tasks, with those of its key alone. */
export function listTasks(steps: TaskSteps): Handler {
  return withKey(steps.authenticate, async (exchange, { caller }) => {
    const { key } = caller;
    await steps.forwarder.forward({
      ...heldForInspection,
      exchange,
      path: exchange.path + exchange.query,
      headers: steps.gatewayHeaders(exchange, caller),
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

/** Returns the records of a list that are of a key's tasks, as their client is to see them. */
async function ownTasksIn({ tasks, webhooks, mask }: TaskSteps, list: Buffer, key: string): Promise<Buffer> {
  const own: Task[] = [];
  for (const taskId of tasksNamed(list)) {
    const task = await tasks.find(taskId);
    if (task?.key === key) own.push(task);
  }
  const shown = await Promise.all(own.map(({ charge }) => webhooks.shownFor(charge)));
  const records = Buffer.from(withOwnRecordsOnly(list, new Set(own.map(({ taskId }) => taskId))));
  return shown.reduce((bytes, show) => show(bytes), mask(records));
}

/** Fetches a task's record for Farebox itself, with the gateway's credential. */
export function pollTask(records: RecordFetcher, tracker: TaskTracker): (task: Task) => Promise<void> {
  return async (task) => {
    const answer = await records.fetch(`${taskPath}/${encodeURIComponent(task.taskId)}`);
    const record = answer && readTaskRecord(answer);
    await (record === undefined ? tracker.onPollFailed(task) : tracker.onRecord(task, record, "poller"));
  };
}
