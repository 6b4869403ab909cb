import { fareboxAdmin } from "../core/keys.ts";
import { noDoubts } from "../core/usage.ts";
import { noMoney, subtract, sum } from "../core/money.ts";
import {
  clientPauseMs,
  consumptionWaitMs,
  deadlineOf,
  failureReason,
  finalStatusOf,
  generalLimitMs,
  awaitsConsumption,
  isPastTimeLimit,
  nextPollAt,
  observationEveryMs,
  type FinalStatus,
  type Task,
  type TaskRecord,
  type TaskTimeLimits,
} from "../core/tasks.ts";
import {
  lacksConsumption,
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
import type { KeyStore, TaskEnding, TaskStore } from "../ports/stores.ts";
import type { LedgerMaintenance, LedgerQueries } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";

/** Origin of a task's record: a request of a client, or the poller. */
type RecordOrigin = "client" | "poller";

/** Record that the gateway sent, with its origin. `record` is null if a poll got none. */
interface ReceivedRecord {
  readonly record: TaskRecord | null;
  readonly from: RecordOrigin;
}

/** Largest number of corrections of one charge. Later changes of its task's record are ignored. */
const correctionsMax = 20;

interface TrackerDeps {
  readonly tasks: TaskStore;
  readonly ledger: LedgerQueries & LedgerMaintenance;
  readonly keys: KeyStore;
  readonly catalogue: () => Catalogue;
  readonly events: Events;
  readonly clock: Clock;
  readonly log: Log;
  /** Returns a random number of at least 0 and below 1. */
  readonly random: () => number;
}

/** Applies task records from clients and the poller. Settles each task once. */
export class TaskTracker {
  readonly #deps: TrackerDeps;
  /** Settlements in progress, by task id. Concurrent records of one task wait for the same settlement. */
  readonly #settling = new Map<string, Promise<void>>();
  readonly #unitsPerUsd = (type: string) => this.#deps.catalogue().taskUnits.get(type)?.toString();

  constructor(deps: TrackerDeps) {
    this.#deps = deps;
  }

  /** Applies a record of the task. Stores its progress, or settles the task if it has ended. */
  async onRecord(task: Task, record: TaskRecord, from: RecordOrigin): Promise<void> {
    const { clock, log } = this.#deps;
    if (record.taskId !== null && record.taskId !== task.taskId) {
      log.warn({ task_id: task.taskId }, "the gateway answered with the record of another task");
      return;
    }
    const { consumption, isPrivatePool } = record;
    const limits = this.#deps.catalogue().taskTimeLimits;
    const status = finalStatusWithLimits(task, record, { from, now: clock.now(), limits });
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
      return outcome === null || isKnown ? undefined : this.#correct(task, outcome);
    }
    if (status !== null && outcome !== null) return this.#settleOnce(task, status, outcome, { record, from });
    const deadlineAt = deadlineOf(limits, { ...task, startedAt: record.startedAt ?? task.startedAt });
    if (from === "poller" && clock.now() >= deadlineAt)
      return this.#settleOnce(task, "failed", { kind: "expired", consumption }, { record, from });
    return this.#note(task, record, from);
  }

  /** Schedules the next poll after a poll that got no record. Settles the task at its time limit. */
  async onPollFailed(task: Task): Promise<void> {
    if (task.settledAt !== null) return;
    const now = this.#deps.clock.now();
    const missing = { record: null, from: "poller" } as const;
    if (awaitsConsumption(task)) {
      return now >= task.deadlineAt
        ? this.#settleOnce(task, "completed", { kind: "ended", status: "completed", consumption: null }, missing)
        : this.#note(task, null, "poller");
    }
    // Without a record, the time limit of the task's family cannot be checked, so the general limit ends the task.
    if (now >= task.createdAt + generalLimitMs)
      return this.#settleOnce(task, "failed", { kind: "expired", consumption: null }, missing);
    return this.#note(task, null, "poller");
  }

  /** Schedules the next poll soon, because the client has asked the gateway to cancel the task. */
  async pollSoon(task: Task): Promise<void> {
    if (task.settledAt === null) await this.#note(task, null, "soon");
  }

  #settleOnce(task: Task, ...how: [FinalStatus, TaskOutcome, ReceivedRecord]): Promise<void> {
    const running = this.#settling.get(task.taskId);
    if (running !== undefined) return running;
    const work = this.#settle(task, ...how).finally(() => this.#settling.delete(task.taskId));
    this.#settling.set(task.taskId, work);
    return work;
  }

  async #settle(
    task: Task,
    status: FinalStatus,
    outcome: TaskOutcome,
    { record, from }: ReceivedRecord,
  ): Promise<void> {
    const { clock } = this.#deps;
    const found = await this.#reservedFor(task);
    if (found === undefined) return;
    const { charge, reserved } = found;
    const isPastDeadline = awaitsConsumption(task) && clock.now() >= task.deadlineAt;
    if (lacksConsumption(reserved, outcome) && !isPastDeadline) return this.#note(task, record, from);
    const settled = taskSettlementFor(reserved, outcome, this.#unitsPerUsd);
    const hasTimedOut = outcome.kind === "expired" || outcome.isPastTimeLimit === true;
    const failure = status !== "failed" ? null : hasTimedOut ? "time_limit" : failureReason(record?.errors ?? []);
    const times = { startedAt: record?.startedAt ?? task.startedAt, endedAt: record?.endedAt ?? null };
    await this.#write(task, charge, {
      ...settled,
      end: chargeEnd(task, charge, clock.now()),
      status,
      failure,
      ...times,
    });
  }

  async #write(task: Task, charge: Charge, end: TaskEnding): Promise<void> {
    const { tasks, log } = this.#deps;
    const result = await tasks.end(task, end);
    if (!result.ok) {
      log.error({ task_id: task.taskId, reason: result.reason }, "a task could not be settled; the poller tries again");
      return;
    }
    if (result.first) await reportSettled(this.#deps, task, charge, end, result);
  }

  /** Stores the task's progress and the time of its next poll. */
  async #note(task: Task, record: TaskRecord | null, from: RecordOrigin | "soon"): Promise<void> {
    const { tasks, clock, random } = this.#deps;
    const now = clock.now();
    const status = (record && finalStatusOf(record)) ?? record?.status ?? task.status;
    const startedAt = record?.startedAt ?? task.startedAt;
    const isNew = status !== task.status || startedAt !== task.startedAt;
    if (from === "client" && !isNew && now - task.seenAt < observationEveryMs) return;
    const confirmUntil = awaitsConsumption(task) ? task.deadlineAt : now + consumptionWaitMs;
    const isDone = status === "completed";
    const limits = this.#deps.catalogue().taskTimeLimits;
    const deadlineAt = isDone ? confirmUntil : deadlineOf(limits, { ...task, startedAt });
    const pollingSince = isDone ? confirmUntil - consumptionWaitMs : task.createdAt;
    const next =
      from === "client"
        ? Math.min(now + clientPauseMs, Math.max(deadlineAt, now))
        : nextPollAt({ createdAt: from === "soon" ? now : pollingSince, deadlineAt }, now, random());
    await tasks.observe(task.taskId, { status, startedAt, seenAt: now, nextPollAt: next, deadlineAt });
  }

  /** Corrects the charge of a settled task whose record states another amount, up or down. */
  async #correct(task: Task, outcome: TaskOutcome): Promise<void> {
    const { ledger, clock, log } = this.#deps;
    const found = await this.#reservedFor(task);
    if (found === undefined || found.charge.state !== "posted") return;
    const { charge, reserved } = found;
    const stated = laterAmounts(reserved, outcome, this.#unitsPerUsd);
    if (stated === null) return;
    const { charges: corrections, next } = await ledger.charges({ adjusts: charge.id, limit: correctionsMax });
    const rows = [charge, ...corrections];
    const charged = sum(rows.map(({ cost }) => cost ?? noMoney));
    const amount = subtract(stated.charged, charged);
    if (amount === noMoney || next !== null) return;
    const listAmount = subtract(stated.list, sum(rows.map(({ listCost }) => listCost ?? noMoney)));
    // If several processes apply the same record at once, their equal ids make one correction. A later correction of
    // the same amount gets another id.
    const id = `adj-${task.charge}-${corrections.length + 1}`;
    const why = "a later record of the task states another amount";
    const result = await ledger.adjust(charge.id, { id, at: clock.now(), amount, listAmount, why, by: fareboxAdmin });
    log.warn(
      { request_id: charge.id, task_id: task.taskId, from: charged.toString(), to: stated.charged.toString(), result },
      why,
    );
  }

  /** Returns the task's hold with its charge; undefined if retention has deleted the charge. */
  async #reservedFor(task: Task): Promise<{ readonly charge: Charge; readonly reserved: ReservedTask } | undefined> {
    const { ledger } = this.#deps;
    const charge = await ledger.charge(task.charge);
    if (charge === undefined) return undefined;
    const price = charge.priceId === null ? null : ((await ledger.price(charge.priceId)) ?? null);
    return { charge, reserved: { hold: charge.hold, price, quantity: task.quantity } };
  }
}

/**
 * Returns the final status of a task by its record and the time limits; null while the task runs. A task that ran
 * longer than its family's time limit has failed. The limits do not apply to a settled task, because they may have
 * changed since its settlement.
 */
function finalStatusWithLimits(
  task: Task,
  record: TaskRecord,
  { from, now, limits }: { readonly from: RecordOrigin; readonly now: number; readonly limits: TaskTimeLimits },
): FinalStatus | null {
  const status = finalStatusOf(record);
  if (task.settledAt !== null) return status;
  const ran = { ...task, startedAt: record.startedAt ?? task.startedAt };
  if (status === "completed") {
    const isLate =
      record.consumption !== null && record.endedAt !== null && isPastTimeLimit(limits, ran, record.endedAt, now);
    return isLate ? "failed" : status;
  }
  return status === null && from === "poller" && isPastTimeLimit(limits, ran, null, now) ? "failed" : status;
}

/** Returns the end of a task's charge. Its status is 200, because the creation of the task succeeded. */
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
async function reportSettled(
  { keys, catalogue, events, log }: TrackerDeps,
  task: Task,
  charge: Charge,
  { settlement, status, failure }: TaskEnding & TaskSettlement,
  { cost, overage }: { readonly cost: Charge["cost"]; readonly overage: Charge["overage"] },
): Promise<void> {
  const key = charge.key === "" ? undefined : await keys.findById(charge.key);
  const model = catalogue().findTask(task.model, task.taskType, charge.at)?.id ?? null;
  events.taskEnded({ model, status, failure });
  if (settlement.kind === "void") return;
  const { source, listCost, tokens, reason, doubts = noDoubts } = settlement;
  events.posted({
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
  log.warn(fields, "a task was settled with an uncertain cost or an overage");
}
