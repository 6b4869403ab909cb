import type { Task, TaskStatus } from "../../core/tasks.ts";
import type { TaskFailure } from "../../core/task-failures.ts";
import type { SettleResult } from "../../ports/ledger.ts";
import type { BindResult, DueQuery, DueTasks, NewTask, TaskEnding, TaskPage, TaskQuery, TaskSight, TaskStore } from "../../ports/task-store.ts";
import { postCommand, voidCommand } from "./commands.ts";
import type { Connection, Statement } from "./connection.ts";
import type { CommandQueue } from "./queue.ts";

const unavailable = { ok: false, reason: "unavailable" } as const;

/** Tasks in the ledger's file: writes through the queue of the one writer, short reads on this thread. */
export class SqliteTaskStore implements TaskStore {
  readonly #queue: CommandQueue;
  readonly #db: Connection;
  readonly #find: Statement;
  readonly #ofCharge: Statement;
  readonly #due: Statement;
  readonly #running: Statement;
  readonly #runningTasks: Statement;

  constructor(queue: CommandQueue, db: Connection) {
    this.#queue = queue;
    this.#db = db;
    this.#find = db.prepare("select * from tasks where task_id = ?");
    this.#ofCharge = db.prepare("select * from tasks where charge = ?");
    this.#due = db.prepare("select * from tasks where settled_at is null order by next_poll_at");
    this.#runningTasks = db.prepare("select charge, model, task_type taskType from tasks where settled_at is null");
    this.#running = db.prepare("select count(*) from tasks where settled_at is null").pluck();
  }

  async bind(task: NewTask): Promise<BindResult> {
    const answer = await this.#queue.submit(["bindTask", task]);
    return answer.ok ? answer.reply : unavailable;
  }

  async find(taskId: string): Promise<Task | undefined> {
    const row = this.#find.get(taskId) as TaskRow | undefined;
    return row && taskOf(row);
  }

  async ofCharge(charge: string): Promise<Task | undefined> {
    const row = this.#ofCharge.get(charge) as TaskRow | undefined;
    return row && taskOf(row);
  }

  async saw(taskId: string, sight: TaskSight): Promise<boolean> {
    return (await this.#queue.submit(["sawTask", taskId, sight])).ok;
  }

  async end({ taskId, charge }: Pick<Task, "taskId" | "charge">, ending: TaskEnding): Promise<SettleResult> {
    const { settlement, end, ...facts } = ending;
    const settling = settlement.kind === "void" ? voidCommand(charge, settlement.reason, end) : postCommand(charge, settlement, end);
    const answer = await this.#queue.submit(["endTask", settling, taskId, { ...facts, at: end.at }]);
    return answer.ok ? answer.reply : unavailable;
  }

  /** Read in the order of time until one is not due: few are looked at beyond those that are answered. */
  async due({ now, limit, pauseMsMax, besides }: DueQuery): Promise<DueTasks> {
    const tasks: Task[] = [];
    for (const row of this.#due.iterate() as IterableIterator<TaskRow>) {
      if (besides.includes(row.task_id)) continue;
      const at = row.next_poll_at ?? now;
      if (at > now && at <= now + pauseMsMax) return { tasks, nextPollAt: at };
      if (tasks.length < limit) tasks.push(taskOf(row));
    }
    return { tasks, nextPollAt: null };
  }

  async running(): Promise<number> {
    return this.#running.get() as number;
  }

  async runningTasks(): ReturnType<TaskStore["runningTasks"]> {
    return this.#runningTasks.all() as Awaited<ReturnType<TaskStore["runningTasks"]>>;
  }

  async list({ key, running, limit, after }: TaskQuery): Promise<TaskPage> {
    const conditions = [
      ...(key === undefined ? [] : ["key = :key"]),
      ...(running === undefined ? [] : [`settled_at is ${running ? "" : "not "}null`]),
      ...(after === undefined ? [] : ["seq < (select seq from tasks where task_id = :after)"]),
    ];
    const where = conditions.length === 0 ? "" : `where ${conditions.join(" and ")}`;
    const rows = this.#db
      .prepare(`select * from tasks ${where} order by seq desc limit :limit`)
      .all({ ...(key !== undefined && { key }), ...(after !== undefined && { after }), limit: limit + 1 }) as TaskRow[];
    const tasks = rows.slice(0, limit).map(taskOf);
    return { tasks, next: rows.length > limit ? (tasks.at(-1)?.taskId ?? null) : null };
  }
}

/** Of a row of `charges`: whether it pays for a task that is known, which alone ends it. */
export const runsTask = "(kind = 'task' and exists (select 1 from tasks where tasks.charge = charges.id))";

/** What of an ending stands in the task's own row. */
export type TaskEndFacts = Omit<TaskEnding, "settlement" | "end"> & { readonly at: number };

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

export function sawTask(db: Connection, taskId: string, sight: TaskSight): true {
  db.prepare(
    `update tasks set status = :status, started_at = :startedAt, seen_at = :seenAt, next_poll_at = :nextPollAt, deadline_at = :deadlineAt
     where task_id = :taskId and settled_at is null`,
  ).run({ taskId, ...sight });
  return true;
}

/** After its charge was ended, in the same transaction. */
export function endTask(db: Connection, taskId: string, { inputs, ...facts }: TaskEndFacts): void {
  const { consumption, unitsPerUsd, quantity } = inputs;
  db.prepare(
    `update tasks set status = :status, started_at = :startedAt, ended_at = :endedAt, settled_at = :at, seen_at = :at,
       next_poll_at = null, failure = :failure, usage_type = :type, usage_units = :units, units_per_usd = :unitsPerUsd, quantity = :quantity
     where task_id = :taskId and settled_at is null`,
  ).run({ taskId, ...facts, type: consumption?.type ?? null, units: consumption?.units ?? null, unitsPerUsd, quantity });
}

export interface TaskRow {
  readonly task_id: string;
  readonly charge: string;
  readonly key: string;
  readonly model: string;
  readonly task_type: string | null;
  readonly status: TaskStatus;
  readonly created_at: number;
  readonly started_at: number | null;
  readonly ended_at: number | null;
  readonly settled_at: number | null;
  readonly seen_at: number;
  readonly next_poll_at: number | null;
  readonly deadline_at: number;
  readonly failure: TaskFailure | null;
  readonly usage_type: string | null;
  readonly usage_units: string | null;
  readonly units_per_usd: string | null;
  readonly quantity: string | null;
}

export function taskOf(row: TaskRow): Task {
  const { key, model, status, failure, quantity } = row;
  return {
    taskId: row.task_id,
    charge: row.charge,
    key,
    model,
    taskType: row.task_type,
    status,
    createdAt: row.created_at,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    settledAt: row.settled_at,
    seenAt: row.seen_at,
    nextPollAt: row.next_poll_at,
    deadlineAt: row.deadline_at,
    failure,
    consumption: row.usage_type === null || row.usage_units === null ? null : { type: row.usage_type, units: row.usage_units },
    unitsPerUsd: row.units_per_usd,
    quantity,
  };
}
