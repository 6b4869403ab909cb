import { picoUsdMax, type PicoUsd } from "../core/money.ts";
import { deadlineOf, finalStatusOf, nextPollAt, type Task, type TaskRecord } from "../core/tasks.ts";
import type { BodyBytes, Exchange } from "../ports/exchange.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { ChargeEnd, Charging, HoldResult } from "../ports/ledger.ts";
import type { TaskStore } from "../ports/stores.ts";
import { isAccepted, readCreatedTasks, type CreatedTask } from "../wire/created-tasks.ts";
import { mayNameTask } from "../wire/task.ts";
import { writeHold, type PendingCharge, type RequestToHold } from "./hold.ts";
import type { PricedRequest } from "./output-cap.ts";
import { foreignTaskReason, noSuchTask, unchangedAnswer, withhold, type TaskOwner, type Verdict } from "./response.ts";
import { settleCharge, type SettleDeps, type SettleParams } from "./settle.ts";

/** Task that the gateway's answer names, with the charge that pays for it. */
export type TaskClaim = Pick<
  Task,
  "taskId" | "charge" | "key" | "model" | "taskType" | "status" | "startedAt" | "quantity"
>;

/**
 * `bound`: the charge pays for the task, and is settled when the task ends. `known`: another charge of the same key
 * pays for the task. `foreign`: a charge of another key pays for it. `unavailable`: the ledger could not bind the task.
 */
export type Claimed = "bound" | "known" | "foreign" | "unavailable";

export type ClaimTask = (claim: TaskClaim) => Promise<Claimed>;

interface ClaimDeps {
  readonly tasks: Pick<TaskStore, "bind" | "find">;
  readonly clock: Clock;
  readonly catalogue: () => Pick<Catalogue, "taskTimeLimits">;
  /** Returns a random number of at least 0 and below 1. */
  readonly random: () => number;
  /** Wakes the poller, because the time of a task's next poll may have changed. */
  readonly wakePoller: () => void;
}

/** Returns a function that binds a task to the charge that pays for it, and sets the time of its first poll. */
export function createTaskClaims({ tasks, clock, catalogue, random, wakePoller }: ClaimDeps): ClaimTask {
  return async (claim) => {
    const createdAt = clock.now();
    const task = { ...claim, createdAt };
    const deadlineAt = deadlineOf(catalogue().taskTimeLimits, task);
    const pollAt = nextPollAt({ createdAt, deadlineAt }, createdAt, random());
    const bound = await tasks.bind({ ...task, deadlineAt, nextPollAt: pollAt });
    if (bound.ok) wakePoller();
    if (bound.ok) return "bound";
    if (bound.reason !== "taken") return "unavailable";
    return (await tasks.find(claim.taskId))?.key === claim.key ? "known" : "foreign";
  };
}

/** Largest number of tasks of one answer that are bound. The others are charged together. */
export const tasksBoundMax = 100;

/** Request whose answer names tasks. */
interface RequestWithTasks extends Pick<RequestToHold, "route" | "who" | "sender"> {
  readonly quote: RequestToHold["quote"] & SettleParams["quote"];
  /** Charge of the request. It pays for the first new task. */
  readonly charge: string;
  /** Hold of each task; null for a task without a price. */
  readonly hold: PicoUsd | null;
  readonly taskType: string | null;
  readonly quantity: string | null;
  readonly end: () => ChargeEnd;
  /** Prepares the charge of a further task. Returns false if it could not be prepared. */
  readonly prepare?: (charge: string) => Promise<boolean>;
}

interface BindResult {
  /** True if the charge of the request pays for one of the tasks. */
  readonly isCharged: boolean;
  /** Result for all tasks. `known`: an earlier charge of the same key pays for each of them. */
  readonly claimed: Claimed;
}

interface BindSteps extends SettleDeps {
  readonly ledger: Charging;
  /** Binds a task that the gateway's answer names to the charge that pays for it. */
  readonly claimTask: ClaimTask;
  readonly taskOwner: TaskOwner;
  readonly newId: () => string;
}

/**
 * Binds the tasks that an answer names, before the client sees their ids. The charge of the request pays for the first
 * new task. Each other new task gets a charge of its own with the same hold, tags and user, even above the limits of
 * budgets, because the gateway already runs the task.
 */
export async function bindTasks(
  steps: BindSteps,
  made: readonly Pick<CreatedTask, "taskId" | "status" | "startedAt">[],
  request: RequestWithTasks,
): Promise<BindResult> {
  const { key } = request.who.caller;
  const { model } = request.quote.request;
  const { taskType, quantity } = request;
  let isCharged = false;
  const stop = async (claimed: Claimed, unpaid: number): Promise<BindResult> => {
    if (unpaid > 0) await chargeUnbound(steps, request, unpaid);
    return { isCharged, claimed };
  };
  for (const [index, { taskId, status, startedAt }] of made.slice(0, tasksBoundMax).entries()) {
    const later = made.length - index - 1;
    const paying = isCharged
      ? await holdAnother(steps, request, taskId)
      : { ok: true as const, charge: request.charge };
    if (!paying.ok && paying.claimed === "known") continue;
    if (!paying.ok) return stop(paying.claimed, paying.claimed === "foreign" ? later : later + 1);
    const { charge } = paying;
    const claimed = await steps.claimTask({ taskId, charge, key, model, taskType, status, startedAt, quantity });
    // Another answer named the task first, and that answer's charge pays for the task.
    if (isCharged && (claimed === "known" || claimed === "foreign"))
      await steps.ledger.void(charge, "task_known", request.end());
    if (claimed === "bound") isCharged = true;
    else if (claimed !== "known") {
      const fields = { request_id: request.charge, task_id: taskId, claimed };
      steps.log.error(fields, "a task of an answer could not be bound; the answer is not shown");
      return stop(claimed, later);
    }
  }
  return isCharged ? stop("bound", made.length - tasksBoundMax) : { isCharged, claimed: "known" };
}

type PayingCharge =
  | { readonly ok: true; readonly charge: string }
  | { readonly ok: false; readonly claimed: Exclude<Claimed, "bound"> };

/** Writes the hold of a further task, unless a charge already pays for the task. */
async function holdAnother(steps: BindSteps, request: RequestWithTasks, taskId: string): Promise<PayingCharge> {
  const owner = await steps.taskOwner(taskId);
  if (owner !== undefined) return { ok: false, claimed: owner === request.who.caller.key ? "known" : "foreign" };
  const charge = steps.newId();
  const isPrepared = (await request.prepare?.(charge)) ?? true;
  const result = isPrepared ? await holdOwed(steps, request, charge, request.hold) : null;
  if (result?.ok === true) return { ok: true, charge };
  const fields = { request_id: request.charge, task_id: taskId, reason: result?.reason ?? "unavailable" };
  steps.log.error(fields, "a task of an answer could not be charged; the answer is not shown");
  return { ok: false, claimed: "unavailable" };
}

function holdOwed(
  { ledger }: BindSteps,
  { route, who, quote, sender }: RequestWithTasks,
  id: string,
  amount: PicoUsd | null,
): Promise<HoldResult> {
  return writeHold(ledger, { id, kind: "task", route, who, quote, sender, retry: 0 }, amount, { isOwed: true });
}

/** Charges the holds of tasks that could not be bound, or that are too many. */
async function chargeUnbound(steps: BindSteps, request: RequestWithTasks, count: number): Promise<void> {
  const { route, who, quote, charge } = request;
  const all = (request.hold ?? 0n) * BigInt(count);
  const hold = request.hold === null ? null : ((all > picoUsdMax ? picoUsdMax : all) as PicoUsd);
  const id = steps.newId();
  steps.log.error({ request_id: charge, tasks: count }, "tasks of an answer are not bound; their holds are charged");
  if (!(await holdOwed(steps, request, id, hold)).ok) return;
  const pending = { id, route, hold, price: quote.model?.price?.version ?? null };
  const outcome = { kind: "unknown", reason: "tasks_not_bound" } as const;
  await settleCharge(steps, { charge: pending, quote, who, outcome, end: request.end() });
}

/** Largest answer of an unknown path that is read although it has no member such as `task_id`, in bytes. */
const smallBytesMax = 16_384;

/**
 * Returns the tasks that the answer to a request on an unknown path names, except those that the request names. Reads
 * only members that are surely ids of tasks, and leaves out tasks that have already ended: such an answer may be a list
 * of older tasks.
 */
export function tasksMadeBy(
  answer: Buffer,
  request: { readonly target: string; readonly body: BodyBytes },
): readonly CreatedTask[] {
  // Avoids parsing most answers, because they name no task.
  if (answer.length > smallBytesMax && !mayNameTask(answer)) return [];
  const { tasks, idKind } = readCreatedTasks(answer);
  if (
    tasks.length === 0 ||
    idKind === "id" ||
    (idKind === "text" && !(isAccepted(answer) && !answer.includes('"usage"')))
  )
    return [];
  return tasks
    .map(asAccepted)
    .filter((task) => tasks.length === 1 || finalStatusOf(task) === null)
    .filter(
      // More tasks than are bound are not searched for, because that would take long.
      ({ taskId }, index) =>
        index >= tasksBoundMax || !(request.target.includes(taskId) || request.body.whole.includes(taskId)),
    );
}

/** Binds the tasks that the answer names, before the client gets their ids. */
export async function bindMade(
  steps: BindSteps,
  exchange: Exchange,
  {
    charge,
    held: { quote, body },
    who,
    sender,
  }: Pick<RequestWithTasks, "who" | "sender"> & { readonly charge: PendingCharge; readonly held: PricedRequest },
  plain: Buffer,
  end: () => ChargeEnd,
): Promise<Verdict | null> {
  const made = tasksMadeBy(plain, { target: decodeURIComponent(exchange.path) + exchange.query, body });
  if (made.length === 0) return null;
  const { isCharged, claimed } = await bindTasks(steps, made, {
    charge: charge.id,
    route: charge.route,
    hold: quote.hold,
    taskType: null,
    quantity: null,
    who,
    quote,
    sender,
    end,
  });
  switch (claimed) {
    case "bound":
      return { ending: { kind: "task" }, show: unchangedAnswer };
    case "known":
      return null;
    case "foreign":
      return withhold(
        exchange,
        noSuchTask,
        isCharged ? { kind: "task" } : { kind: "unknown", reason: foreignTaskReason },
      );
    case "unavailable":
      return withhold(
        exchange,
        { code: "ledger_unavailable", forwarded: true },
        isCharged ? { kind: "task" } : { kind: "unknown", reason: "task_not_recorded" },
      );
  }
}

/**
 * Returns the record of a new task. A "completed" record with neither an end time nor a consumption means that the task
 * was accepted, not completed.
 */
export function asAccepted<Made extends TaskRecord>(record: Made): Made {
  return record.status === "completed" && record.endedAt === null && record.consumption === null
    ? { ...record, status: "pending" }
    : record;
}
