import type { Task } from "../../core/tasks.ts";
import type {
  BindResult,
  DueQuery,
  DueTasks,
  NewTask,
  TaskPage,
  TaskQuery,
  TaskObservation,
} from "../../ports/task-store.ts";
import type { TaskEndFacts } from "../commands.ts";
import type { RunningTasks, TaskReadings } from "../readings.ts";
import { endedTask, taskOf, taskPage, type TaskRow } from "../rows/tasks.ts";
import type { Connection, Statement } from "./connection.ts";

/** Short reads of tasks, on whichever connection. */
export class TaskReads implements TaskReadings {
  readonly #db: Connection;
  readonly #find: Statement;
  readonly #ofCharge: Statement;
  readonly #due: Statement;
  readonly #running: Statement;
  readonly #runningTasks: Statement;

  constructor(db: Connection) {
    this.#db = db;
    this.#find = db.prepare("select * from tasks where task_id = ?");
    this.#ofCharge = db.prepare("select * from tasks where charge = ?");
    this.#due = db.prepare("select * from tasks where settled_at is null order by next_poll_at");
    this.#runningTasks = db.prepare(
      "select charge, model, task_type taskType from tasks where settled_at is null and status <> 'completed'",
    );
    this.#running = db.prepare("select count(*) from tasks where settled_at is null").pluck();
  }

  find(taskId: string): Task | undefined {
    const row = this.#find.get(taskId) as TaskRow | undefined;
    return row && taskOf(row);
  }

  ofCharge(charge: string): Task | undefined {
    const row = this.#ofCharge.get(charge) as TaskRow | undefined;
    return row && taskOf(row);
  }

  /** Read in the order of time until one is not due: few are looked at beyond those that are answered. */
  due({ now, limit, pauseMsMax, except }: DueQuery): DueTasks {
    const tasks: Task[] = [];
    for (const row of this.#due.iterate() as IterableIterator<TaskRow>) {
      if (except.includes(row.task_id)) continue;
      const at = row.next_poll_at ?? now;
      if (at > now && at <= now + pauseMsMax) return { tasks, nextPollAt: at };
      if (tasks.length < limit) tasks.push(taskOf(row));
    }
    return { tasks, nextPollAt: null };
  }

  running(): number {
    return this.#running.get() as number;
  }

  runningTasks(): RunningTasks {
    return this.#runningTasks.all() as unknown as RunningTasks;
  }

  list({ key, running, limit, after }: TaskQuery): TaskPage {
    const conditions = [
      ...(key === undefined ? [] : ["key = :key"]),
      ...(running === undefined ? [] : [`settled_at is ${running ? "" : "not "}null`]),
      ...(after === undefined ? [] : ["seq < (select seq from tasks where task_id = :after)"]),
    ];
    const where = conditions.length === 0 ? "" : `where ${conditions.join(" and ")}`;
    const rows = this.#db
      .prepare(`select * from tasks ${where} order by seq desc limit :limit`)
      .all({ ...(key !== undefined && { key }), ...(after !== undefined && { after }), limit: limit + 1 }) as TaskRow[];
    return taskPage(rows, limit);
  }
}

/** Of a row of `charges`: whether it pays for a task that is known, which alone ends it. */
export const runsTask = "(kind = 'task' and exists (select 1 from tasks where tasks.charge = charges.id))";

/** Writes which task the charge pays for; its caller has seen that the charge is a pending one of a task. */
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

export function sawTask(db: Connection, taskId: string, sight: TaskObservation): true {
  db.prepare(
    `update tasks set status = :status, started_at = :startedAt, seen_at = :seenAt, next_poll_at = :nextPollAt, deadline_at = :deadlineAt
     where task_id = :taskId and settled_at is null`,
  ).run({ taskId, ...sight });
  return true;
}

/** After its charge was ended, in the same transaction. */
export function endTask(db: Connection, taskId: string, facts: TaskEndFacts): void {
  db.prepare(
    `update tasks set status = :status, started_at = :startedAt, ended_at = :endedAt, settled_at = :at, seen_at = :at,
       next_poll_at = null, failure = :failure, usage_type = :type, usage_units = :units, units_per_usd = :unitsPerUsd, quantity = :quantity
     where task_id = :taskId and settled_at is null`,
  ).run({ taskId, ...endedTask(facts) });
}
