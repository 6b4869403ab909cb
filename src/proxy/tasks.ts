import type { Shortage } from "../core/budget.ts";
import type { Refusal } from "../core/refusals.ts";
import { finalStatusOf, type Task, type TaskRecord } from "../core/tasks.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { TaskStore } from "../ports/task-store.ts";
import { withOwnRecordsOnly } from "../wire/own-records.ts";
import { isTaskId, readTaskRecord, tasksMentioned, tasksNamed } from "../wire/task.ts";
import { failedCall } from "./gateway-failure.ts";
import { notForwarded, refuse, withKey, type Handler } from "./handler.ts";
import type { Mask } from "./mask.ts";
import type { PipelineSteps } from "./pipeline.ts";
import type { AdmitTask } from "./task-ceilings.ts";
import { noSuchTask, showsForeignTask } from "./task-ownership.ts";
import type { TaskPriceDeps } from "./task-price.ts";
import type { TaskTracker } from "./task-settlement.ts";
import type { TaskWebhooks } from "./task-webhooks.ts";
import { passWhole, type WholeCalls } from "./whole-calls.ts";

/** The path of every family's tasks. */
export const taskPath = "/api/v1/task";

/** The steps of tasks, in addition to those of every request. */
export interface TaskSteps extends PipelineSteps, TaskPriceDeps {
  /** The name under which a user knows a budget's scope. */
  readonly scopeName: (shortage: Shortage) => Promise<string>;
  readonly calls: WholeCalls;
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
  if (sent.text !== undefined && (await showsForeignTask(steps, sent.text, { requestId: exchange.id, key }))) {
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
      !(await showsForeignTask(steps, text, { requestId: exchange.id, key }))
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
