import { LRUCache } from "lru-cache";
import { isUtf8 } from "node:buffer";
import type { Task } from "../core/tasks.ts";
import type { Clock } from "../ports/clock.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { Log } from "../ports/log.ts";
import type { Outbox } from "../ports/outbox.ts";
import type { Seal } from "../ports/seal.ts";
import type { TaskCallbacks } from "../ports/task-callbacks.ts";
import { readTaskRecord, tasksNamed } from "../wire/task.ts";
import { notForwarded, refuse, type Handler, type Summary } from "./handler.ts";
import { SlidingWindow } from "./sliding-window.ts";
import { authenticate, callbackPath, isEvent, relay, type Authentic } from "./task-webhooks.ts";

/** Largest payload, in bytes: a record may have a picture in it. */
const bodyBytesMax = 4 * 1024 * 1024;
/** Most callbacks of one task in a minute: the gateway sends an event at most three times. */
const callsPerMinuteMax = 30;
/** Tasks whose callbacks are counted. */
const countedTasksMax = 10_000;

const tokenPattern = /^[0-9a-f]{64}$/;

interface TaskCallbackDeps {
  readonly callbacks: TaskCallbacks;
  readonly seal: Seal;
  readonly outbox: Outbox;
  readonly clock: Clock;
  readonly log: Log;
  readonly newId: () => string;
  /** The task that a charge pays for; undefined while it is not known. */
  readonly taskOf: (charge: string) => Promise<Task | undefined>;
  readonly find: (taskId: string) => Promise<Task | undefined>;
  /** Fetches and applies the task's record: a callback's own statements are not trusted. */
  readonly poll: (task: Task) => Promise<void>;
  /** Takes over work that continues after the answer, so that a shutdown can wait for it. */
  readonly background: (work: Promise<void>) => void;
  /** Something was put into the outbox. */
  readonly wakeDelivery: () => void;
}

/**
 * `POST /v1/farebox/callbacks/{token}`: the gateway says that something happened to a task. That is a hint to look at the
 * task ourselves, and its payload is relayed to the client. A forged one gets the answer of an unknown path.
 */
export function taskCallback(deps: TaskCallbackDeps): Handler {
  // Room for all is taken at once, which a proxy without callbacks does not need.
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
  /** One look at a time, and none at a task that is settled: callbacks that are repeated cost next to nothing. */
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
      ? await authenticate(deps, token, exchange.header("x-webhook-secret"))
      : undefined;
    if (found === undefined) return refuse(exchange, { code: "not_found", message: "There is no such callback." });
    const waitSeconds = retryAfterSeconds(found.charge);
    if (waitSeconds > 0) {
      const met = { scope: `task:${found.charge}`, kind: "rpm", limit: callsPerMinuteMax, needed: null } as const;
      return refuse(exchange, { code: "rate_limit_exceeded", met, retryAfterSeconds: waitSeconds });
    }
    const body = await exchange.readBody(bodyBytesMax);
    if (!body.ok) return body.refusal === null ? notForwarded : refuse(exchange, body.refusal);
    return take(deps, exchange, found, body.bytes, (task) => deps.background(pollOnce(task))).finally(body.release);
  };
}

/** Answers once the payload is in the outbox: from then on it reaches the client, whatever becomes of this process. */
async function take(
  deps: TaskCallbackDeps,
  exchange: Exchange,
  found: Authentic,
  payload: Buffer,
  poll: (task: Task) => void,
): Promise<Summary> {
  if (!isUtf8(payload) || !isEvent(payload))
    return refuse(exchange, { code: "invalid_json", message: "The payload must be a JSON object with 'data'." });
  const task = await deps.taskOf(found.charge);
  const named = readTaskRecord(payload)?.taskId ?? null;
  if (
    (task !== undefined && named !== null && named !== task.taskId) ||
    (await showsOther(deps, found.charge, payload))
  ) {
    return refuse(exchange, {
      code: "invalid_request",
      param: "data.task_id",
      message: "The payload is of another task.",
    });
  }
  if (found.theirs.endpoint !== "") {
    if (!(await relay(deps, found, payload))) return refuse(exchange, { code: "ledger_unavailable" });
    deps.wakeDelivery();
  }
  // One that is not bound yet is followed by the poller from the moment at which it is.
  if (task !== undefined) poll(task);
  exchange.answer(200, [["content-type", "application/json"]], '{"received":true}');
  return notForwarded;
}

/** Reports whether a payload shows a task that another charge pays for; its own may not be bound yet. */
async function showsOther({ find }: TaskCallbackDeps, charge: string, payload: Buffer): Promise<boolean> {
  for (const taskId of tasksNamed(payload)) {
    const known = await find(taskId);
    if (known !== undefined && known.charge !== charge) return true;
  }
  return false;
}
