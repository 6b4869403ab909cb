import type { Task } from "../../core/tasks.ts";
import type { DueQuery, DueTasks, TaskPage, TaskQuery } from "../../ports/task-store.ts";
import type { RunningTasks, TaskReadings } from "../readings.ts";
import { taskOf, taskPage, type TaskRow } from "../rows/tasks.ts";
import type { Statements } from "./connection.ts";
import { withNumbers } from "../numbers.ts";

/** Short reads of tasks. */
export class TaskReads implements TaskReadings {
  readonly #db: Statements;

  constructor(db: Statements) {
    this.#db = db;
  }

  async find(taskId: string): Promise<Task | undefined> {
    return found(
      await this.#db.row<TaskRow>({ name: "task", text: "select * from tasks where task_id = $1" }, [taskId]),
    );
  }

  async ofCharge(charge: string): Promise<Task | undefined> {
    return found(await this.#db.row<TaskRow>("select * from tasks where charge = $1", [charge]));
  }

  async due({ now, limit, pauseMsMax, except }: DueQuery): Promise<DueTasks> {
    const others = "settled_at is null and task_id <> all($1)";
    const next = await this.#db.row<{ at: bigint | null }>(
      `select min(next_poll_at) as at from tasks where ${others} and next_poll_at > $2 and next_poll_at <= $3`,
      [except, now, now + pauseMsMax],
    );
    const rows = await this.#db.rows<TaskRow>(
      `select * from tasks where ${others} and (next_poll_at <= $2 or next_poll_at > $3) order by next_poll_at limit $4`,
      [except, now, now + pauseMsMax, limit],
    );
    return { tasks: rows.map(withNumbers).map(taskOf), nextPollAt: next?.at == null ? null : Number(next.at) };
  }

  async running(): Promise<number> {
    const row = await this.#db.row<{ count: bigint }>("select count(*) from tasks where settled_at is null");
    return Number(row?.count);
  }

  async runningTasks(): Promise<RunningTasks> {
    return this.#db.rows(
      `select charge, model, task_type as "taskType" from tasks where settled_at is null and status <> 'completed'`,
    );
  }

  async list({ key, running, limit, after }: TaskQuery): Promise<TaskPage> {
    const values: unknown[] = [limit + 1];
    const parameter = (value: unknown) => `$${values.push(value)}`;
    const conditions = [
      ...(key === undefined ? [] : [`key = ${parameter(key)}`]),
      ...(running === undefined ? [] : [`settled_at is ${running ? "" : "not "}null`]),
      ...(after === undefined ? [] : [`seq < (select seq from tasks where task_id = ${parameter(after)})`]),
    ];
    const where = conditions.length === 0 ? "" : `where ${conditions.join(" and ")}`;
    const rows = await this.#db.rows<TaskRow>(`select * from tasks ${where} order by seq desc limit $1`, values);
    return taskPage(rows.map(withNumbers), limit);
  }
}

function found(row: TaskRow | undefined): Task | undefined {
  return row && taskOf(withNumbers(row));
}
