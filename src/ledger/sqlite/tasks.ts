import type { BindResult, NewTask, TaskObservation } from "../../ports/task-store.ts";
import type { TaskEndDetails } from "../commands.ts";
import type { Connection } from "./connection.ts";

/** Binds a task to its charge. The caller has checked that the charge is a pending one of a task. */
export function bindTask(db: Connection, task: NewTask, isPending: boolean): BindResult {
  const known = db.prepare("select charge from tasks where task_id = ?").pluck().get(task.taskId);
  if (known !== undefined) return known === task.charge ? { ok: true } : { ok: false, reason: "taken" };
  const isBound = db.prepare("select 1 from tasks where charge = ?").get(task.charge) !== undefined;
  if (!isPending || isBound) return { ok: false, reason: "no_such_charge" };
  db.prepare(
    `insert into tasks (task_id, charge, key, model, task_type, status, created_at, started_at, seen_at, next_poll_at, deadline_at, quantity)
     values (:taskId, :charge, :key, :model, :taskType, :status, :createdAt, :startedAt, :createdAt, :nextPollAt, :deadlineAt, :quantity)`,
  ).run(task);
  return { ok: true };
}

export function observeTask(db: Connection, taskId: string, observation: TaskObservation): true {
  db.prepare(
    `update tasks set status = :status, started_at = :startedAt, seen_at = :seenAt, next_poll_at = :nextPollAt, deadline_at = :deadlineAt
     where task_id = :taskId and settled_at is null`,
  ).run({ taskId, ...observation });
  return true;
}

/** Ends a task in the transaction that settled its charge. */
export function endTask(db: Connection, taskId: string, { inputs, ...details }: TaskEndDetails): void {
  const { consumption, unitsPerUsd, quantity } = inputs;
  db.prepare(
    `update tasks set status = :status, started_at = :startedAt, ended_at = :endedAt, settled_at = :at, seen_at = :at,
       next_poll_at = null, failure = :failure, usage_type = :type, usage_units = :units, units_per_usd = :unitsPerUsd, quantity = :quantity
     where task_id = :taskId and settled_at is null`,
  ).run({
    ...details,
    taskId,
    type: consumption?.type ?? null,
    units: consumption?.units ?? null,
    unitsPerUsd,
    quantity,
  });
}
