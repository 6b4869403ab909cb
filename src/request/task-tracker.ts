import { fareboxAdmin } from "../core/keys.ts";
import { noDoubts } from "../core/usage.ts";
import { noMoney, subtract, sum } from "../core/money.ts";
import {
  clientPauseMs,
  confirmMs,
  deadlineOf,
  failureReason,
  finalStatusOf,
  generalLimitMs,
  isConfirming,
  isPastTimeLimit,
  nextPollAt,
  observationEveryMs,
  type FinalStatus,
  type Task,
  type TaskRecord,
} from "../core/tasks.ts";
import {
  isUnstated,
  laterAmounts,
  taskSettlementFor,
  type ReservedTask,
  type TaskOutcome,
  type TaskSettlement,
} from "../core/task-settlement.ts";
import type { Charge } from "../core/charge.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { LedgerMaintenance, LedgerQueries } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { TaskEnding, TaskStore } from "../ports/task-store.ts";

/** Origin of a task's record: a request of its client, or the poller. */
type RecordSource = "client" | "poller";

/** A record of a task, null if there is none, and its origin. */
interface Polled {
  readonly record: TaskRecord | null;
  readonly by: RecordSource;
}

/** Most corrections of one charge. Later changes of its task's record are ignored. */
const correctionsMax = 20;

/** Applies task records from clients and the poller. Settles each task once. */
export interface TaskTracker {
  /** Applies a record of the task: notes it, or ends the task. */
  onRecord(task: Task, record: TaskRecord, by: RecordSource): Promise<void>;
  /** Schedules the next poll after one without a record. Settles the task at its time limit. */
  onPollFailed(task: Task): Promise<void>;
  /** Has the task polled soon: its client has asked the gateway to cancel it. */
  pollSoon(task: Task): Promise<void>;
}

export function createTaskTracker(deps: {
  readonly tasks: TaskStore;
  readonly ledger: LedgerQueries & LedgerMaintenance;
  readonly keys: KeyStore;
  readonly catalogue: () => Catalogue;
  readonly events: Events;
  readonly clock: Clock;
  readonly log: Log;
  /** At least 0, below 1. */
  readonly random: () => number;
}): TaskTracker {
  const { tasks, ledger, clock, log } = deps;
  /** Ends that are being written, by task id: concurrent records of one task wait for the same write. */
  const ending = new Map<string, Promise<void>>();

  const write = async (task: Task, charge: Charge, end: TaskEnding): Promise<void> => {
    const result = await tasks.end(task, end);
    if (!result.ok) {
      log.error({ task_id: task.taskId, reason: result.reason }, "a task could not be settled; the poller tries again");
      return;
    }
    if (!result.first) return;
    await reportEnd(deps, task, charge, end, result);
  };

  const unitsPerUsd = (type: string) => deps.catalogue().taskUnits.get(type)?.toString();

  /** Returns the task's hold with its charge; undefined where retention has deleted it. */
  const reservedFor = async (
    task: Task,
  ): Promise<{ readonly charge: Charge; readonly reserved: ReservedTask } | undefined> => {
    const charge = await ledger.charge(task.charge);
    if (charge === undefined) return undefined;
    const price = charge.priceId === null ? null : ((await ledger.price(charge.priceId)) ?? null);
    return { charge, reserved: { hold: charge.hold, price, quantity: task.quantity } };
  };

  const conclude = async (
    task: Task,
    status: FinalStatus,
    outcome: TaskOutcome,
    { record, by }: Polled,
  ): Promise<void> => {
    const found = await reservedFor(task);
    if (found === undefined) return;
    const { charge, reserved } = found;
    const isLate = isConfirming(task) && clock.now() >= task.deadlineAt;
    if (isUnstated(reserved, outcome) && !isLate) return note(task, record, by);
    const settled = taskSettlementFor(reserved, outcome, unitsPerUsd);
    const hasRunOut = outcome.kind === "expired" || outcome.isPastTimeLimit === true;
    const failure = status !== "failed" ? null : hasRunOut ? "time_limit" : failureReason(record?.errors ?? []);
    const times = { startedAt: record?.startedAt ?? task.startedAt, endedAt: record?.endedAt ?? null };
    await write(task, charge, { ...settled, end: chargeEnd(task, charge, clock.now()), status, failure, ...times });
  };

  const end = (task: Task, ...how: [FinalStatus, TaskOutcome, Polled]): Promise<void> => {
    const running = ending.get(task.taskId);
    if (running !== undefined) return running;
    const work = conclude(task, ...how).finally(() => ending.delete(task.taskId));
    ending.set(task.taskId, work);
    return work;
  };

  /** Stores what is new, and the time of the next poll. */
  const note = async (task: Task, record: TaskRecord | null, by: RecordSource | "soon"): Promise<void> => {
    const now = clock.now();
    const status = (record && finalStatusOf(record)) ?? record?.status ?? task.status;
    const startedAt = record?.startedAt ?? task.startedAt;
    const isNew = status !== task.status || startedAt !== task.startedAt;
    if (by === "client" && !isNew && now - task.seenAt < observationEveryMs) return;
    const confirmUntil = isConfirming(task) ? task.deadlineAt : now + confirmMs;
    const isDone = status === "completed";
    const deadlineAt = isDone ? confirmUntil : deadlineOf({ ...task, startedAt });
    const bornAt = isDone ? confirmUntil - confirmMs : task.createdAt;
    const next =
      by === "client"
        ? Math.min(now + clientPauseMs, Math.max(deadlineAt, now))
        : nextPollAt({ createdAt: by === "soon" ? now : bornAt, deadlineAt }, now, deps.random());
    await tasks.observe(task.taskId, { status, startedAt, seenAt: now, nextPollAt: next, deadlineAt });
  };

  /** Corrects the charge of a settled task whose record states another amount, up or down. */
  const correct = async (task: Task, outcome: TaskOutcome): Promise<void> => {
    const found = await reservedFor(task);
    if (found === undefined || found.charge.state !== "posted") return;
    const { charge, reserved } = found;
    const stated = laterAmounts(reserved, outcome, unitsPerUsd);
    if (stated === null) return;
    const { charges: corrections, next } = await ledger.charges({ adjusts: charge.id, limit: correctionsMax });
    const rows = [charge, ...corrections];
    const charged = sum(rows.map(({ cost }) => cost ?? noMoney));
    const amount = subtract(stated.charged, charged);
    if (amount === noMoney || next !== null) return;
    const listAmount = subtract(stated.list, sum(rows.map(({ listCost }) => listCost ?? noMoney)));
    // The same record seen by several at once is one correction; the same amount after another one is a new one.
    const id = `adj-${task.charge}-${corrections.length + 1}`;
    const why = "a later record of the task states another amount";
    const result = await ledger.adjust(charge.id, { id, at: clock.now(), amount, listAmount, why, by: fareboxAdmin });
    log.warn(
      { request_id: charge.id, task_id: task.taskId, from: charged.toString(), to: stated.charged.toString(), result },
      why,
    );
  };

  return {
    async onRecord(task, record, by) {
      if (record.taskId !== null && record.taskId !== task.taskId) {
        log.warn({ task_id: task.taskId }, "the gateway answered with the record of another task");
        return;
      }
      const { consumption, isPrivatePool } = record;
      const status = stateOf(task, record, by, clock.now());
      const isLate = status === "failed" && finalStatusOf(record) !== "failed";
      const outcome =
        status === null
          ? null
          : ({ kind: "ended", status, consumption, isPrivatePool, ...(isLate && { isPastTimeLimit: true }) } as const);
      if (task.settledAt !== null) {
        const isKnown =
          status === task.status &&
          consumption?.units === task.consumption?.units &&
          consumption?.type === task.consumption?.type;
        return outcome === null || isKnown ? undefined : correct(task, outcome);
      }
      if (status !== null && outcome !== null) return end(task, status, outcome, { record, by });
      const deadlineAt = deadlineOf({ ...task, startedAt: record.startedAt ?? task.startedAt });
      if (by === "poller" && clock.now() >= deadlineAt)
        return end(task, "failed", { kind: "expired", consumption }, { record, by });
      return note(task, record, by);
    },
    async onPollFailed(task) {
      if (task.settledAt !== null) return;
      const now = clock.now();
      const missing = { record: null, by: "poller" } as const;
      if (isConfirming(task)) {
        return now >= task.deadlineAt
          ? end(task, "completed", { kind: "ended", status: "completed", consumption: null }, missing)
          : note(task, null, "poller");
      }
      // Without a record a family's limit may have been kept; no one waits beyond the general one.
      if (now >= task.createdAt + generalLimitMs)
        return end(task, "failed", { kind: "expired", consumption: null }, missing);
      return note(task, null, "poller");
    },
    pollSoon: (task) => (task.settledAt === null ? note(task, null, "soon") : Promise.resolve()),
  };
}

/**
 * Returns how a task has ended by its record; null while it runs. One that ran longer than its family may has failed: its last record
 * settles it. One that completed without a stated consumption is asked for it first, as any other.
 */
function stateOf(task: Task, record: TaskRecord, by: RecordSource, now: number): FinalStatus | null {
  const status = finalStatusOf(record);
  const ran = { ...task, startedAt: record.startedAt ?? task.startedAt };
  if (status === "completed") {
    const isLate = record.consumption !== null && record.endedAt !== null && isPastTimeLimit(ran, record.endedAt, now);
    return isLate ? "failed" : status;
  }
  return status === null && by === "poller" && isPastTimeLimit(ran, null, now) ? "failed" : status;
}

/** Describes the end of a task's charge. Its creation was answered with success; the gateway knows it by the task's id. */
function chargeEnd(task: Task, charge: Charge, at: number) {
  return {
    at,
    status: 200,
    servedModel: null,
    gatewayRequestId: task.taskId,
    durationMs: Math.max(at - charge.at, 0),
    firstTokenMs: null,
  };
}

/** Reports a settled task to the metrics and the log. */
async function reportEnd(
  deps: { readonly keys: KeyStore; readonly catalogue: () => Catalogue; readonly events: Events; readonly log: Log },
  task: Task,
  charge: Charge,
  { settlement, status, failure }: TaskEnding & TaskSettlement,
  { cost, overage }: { readonly cost: Charge["cost"]; readonly overage: Charge["overage"] },
): Promise<void> {
  const key = charge.key === "" ? undefined : await deps.keys.findById(charge.key);
  const model = deps.catalogue().findTask(task.model, task.taskType, charge.at)?.id ?? null;
  deps.events.taskEnded({ model, status, failure });
  if (settlement.kind === "void") return;
  const { source, listCost, tokens, reason, doubts = noDoubts } = settlement;
  deps.events.posted({
    id: charge.id,
    key: key === undefined ? null : { id: key.id, name: key.name, team: charge.team },
    route: charge.route,
    model,
    group: charge.group,
    source,
    cost,
    listCost,
    overage,
    tokens,
    doubts,
  });
  if (source === "reported" && overage === 0n) return;
  const fields = { request_id: charge.id, task_id: task.taskId, source, reason, doubts, overage: overage.toString() };
  deps.log.warn(fields, "a task was settled without a plain report");
}
