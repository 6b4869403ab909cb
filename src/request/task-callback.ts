import { LRUCache } from "lru-cache";
import { isUtf8 } from "node:buffer";
import { callbackPath } from "../core/task-routes.ts";
import type { Task } from "../core/tasks.ts";
import type { Clock } from "../ports/clock.ts";
import { type Exchange, notForwarded, refuse, type Handler, type Summary } from "../ports/exchange.ts";
import type { Log } from "../ports/log.ts";
import type { Outbox } from "../ports/outbox.ts";
import type { Seal } from "../ports/seal.ts";
import type { TaskCallbacks, TaskStore } from "../ports/stores.ts";
import { readTaskRecord, tasksNamed } from "../wire/task.ts";
import { SlidingWindow } from "./sliding-window.ts";
import { authenticateCallback, isCallbackOf, isEvent, relay, type AuthenticCallback } from "./task-webhooks.ts";

/** Largest callback payload, in bytes. The limit is large because a record may contain an image. */
const bodyBytesMax = 4 * 1024 * 1024;
/** Largest number of callbacks of one task in a minute. The gateway sends an event at most three times. */
const callsPerMinuteMax = 30;
/** Largest number of tasks whose callbacks are counted. */
const countedTasksMax = 10_000;

const tokenPattern = /^[0-9a-f]{64}$/;

interface TaskCallbackDeps {
  readonly callbacks: TaskCallbacks;
  readonly seal: Seal;
  readonly outbox: Outbox;
  readonly clock: Clock;
  readonly log: Log;
  readonly newId: () => string;
  readonly tasks: Pick<TaskStore, "find" | "ofCharge">;
  /** Fetches and applies the task's record, because Farebox does not trust what a callback states. */
  readonly poll: (task: Task) => Promise<void>;
  /** Takes over work that continues after the answer, so that a shutdown can wait for it. */
  readonly background: (work: Promise<void>) => void;
  /** Called after a payload was put into the outbox. */
  readonly wakeDelivery: () => void;
}

/**
 * Handles `POST /v1/farebox/callbacks/{token}`, by which the gateway reports an event of a task. Relays the payload to
 * the client and polls the task. A forged callback gets 404, as an unknown path does.
 */
export function taskCallback(deps: TaskCallbackDeps): Handler {
  // Created at the first callback, because the cache allocates the memory of all its entries at once.
  let counts: LRUCache<string, SlidingWindow> | undefined;
  const retryAfterSeconds = (charge: string): number => {
    const now = deps.clock.monotonic();
    counts ??= new LRUCache({ max: countedTasksMax });
    const window = counts.get(charge) ?? new SlidingWindow();
    counts.set(charge, window);
    if (window.sum(now) >= callsPerMinuteMax) return Math.ceil(window.msUntilAtMost(callsPerMinuteMax - 1, now) / 1000);
    window.add(1, now);
    return 0;
  };
  const polling = new Set<string>();
  /** Polls a task that is neither settled nor being polled, so that repeated callbacks cause no further polls. */
  const pollOnce = async (task: Task): Promise<void> => {
    if (task.settledAt !== null || polling.has(task.taskId)) return;
    polling.add(task.taskId);
    try {
      await deps.poll(task);
    } catch (error) {
      deps.log.error({ task_id: task.taskId, err: error }, "a poll of a task failed");
    } finally {
      polling.delete(task.taskId);
    }
  };
  return async (exchange) => {
    const token = exchange.path.slice(callbackPath.length + 1);
    const found = tokenPattern.test(token)
      ? await authenticateCallback(deps, token, exchange.header("x-webhook-secret"))
      : undefined;
    if (found === undefined) return refuse(exchange, { code: "not_found", message: "There is no such callback." });
    const waitSeconds = retryAfterSeconds(found.charge);
    if (waitSeconds > 0) {
      const exceeded = { scope: `task:${found.charge}`, kind: "rpm", limit: callsPerMinuteMax, needed: null } as const;
      return refuse(exchange, { code: "rate_limit_exceeded", exceeded, retryAfterSeconds: waitSeconds });
    }
    const body = await exchange.readBody(bodyBytesMax);
    if (!body.ok) return body.refusal === null ? notForwarded : refuse(exchange, body.refusal);
    return accept(deps, exchange, found, body.bytes.whole, (task) => deps.background(pollOnce(task))).finally(
      body.release,
    );
  };
}

/**
 * Answers once the payload is in the outbox. From then on, the payload reaches the client even if this process ends.
 */
async function accept(
  deps: TaskCallbackDeps,
  exchange: Exchange,
  found: AuthenticCallback,
  payload: Buffer,
  poll: (task: Task) => void,
): Promise<Summary> {
  if (!isUtf8(payload) || !isEvent(payload))
    return refuse(exchange, { code: "invalid_json", message: "The payload must be a JSON object with 'data'." });
  const first = await deps.tasks.ofCharge(found.charge);
  const named = readTaskRecord(payload)?.taskId ?? null;
  // The answer to the creation may have named several tasks, all with this callback.
  const task = first === undefined || named === null || named === first.taskId ? first : await deps.tasks.find(named);
  if ((first !== undefined && task === undefined) || (await namesOtherTask(deps, found, payload))) {
    return refuse(exchange, {
      code: "invalid_request",
      param: "data.task_id",
      message: "The payload names a different task from the one that this callback was created for.",
    });
  }
  if (found.theirs.endpoint !== "") {
    if (!(await relay(deps, found, payload))) return refuse(exchange, { code: "ledger_unavailable" });
    deps.wakeDelivery();
  }
  // A task that is not bound yet needs no poll here, because the poller follows it once it is bound.
  if (task !== undefined) poll(task);
  exchange.answer(200, [["content-type", "application/json"]], '{"received":true}');
  return notForwarded;
}

/**
 * Returns true if a payload names a task of another creation. The callback's own tasks may not be bound yet.
 */
async function namesOtherTask(deps: TaskCallbackDeps, found: AuthenticCallback, payload: Buffer): Promise<boolean> {
  for (const taskId of tasksNamed(payload)) {
    const known = await deps.tasks.find(taskId);
    if (known !== undefined && !(await isCallbackOf(deps, found, known.charge))) return true;
  }
  return false;
}
