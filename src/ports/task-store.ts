import type { Settlement } from "../core/settlement.ts";
import type { FinalStatus, Task, TaskFailure, TaskStatus } from "../core/tasks.ts";
import type { TaskInputs } from "../core/task-settlement.ts";
import type { ChargeEnd, SettleResult } from "./ledger.ts";

/**
 * Tasks and the charges that pay for them, written in the ledger's transactions. The store retries `bind` and `end`
 * until they are written. A result with `ok: true` is durable.
 */
export interface TaskStore {
  /** Binds a task to the pending charge that pays for it. Idempotent by the charge. */
  bind(task: NewTask): Promise<BindResult>;
  find(taskId: string): Promise<Task | undefined>;
  /** Returns the task that a charge pays for; undefined while it is not bound. */
  ofCharge(charge: string): Promise<Task | undefined>;
  /** Stores what a running task's record states. Ignores a settled task. Returns false if it could not be written. */
  observe(taskId: string, observation: TaskObservation): Promise<boolean>;
  /**
   * Posts or voids the task's charge and ends the task, in one transaction, even above the limits of budgets. A repeat
   * returns the first result and changes nothing.
   */
  end(task: Pick<Task, "taskId" | "charge">, ending: TaskEnding): Promise<SettleResult>;
  /** Returns tasks to poll, longest overdue first, and the time of the next poll. */
  due(query: DueQuery): Promise<DueTasks>;
  /** Returns the number of unsettled tasks. */
  running(): Promise<number>;
  /** Returns tasks that run at the gateway. Excludes completed tasks that are polled only for their consumption. */
  runningTasks(): Promise<readonly Pick<Task, "charge" | "model" | "taskType">[]>;
  /** Returns a page of tasks, newest first. */
  list(query: TaskQuery): Promise<TaskPage>;
}

/** A task to bind. It is not settled yet. */
export type NewTask = Pick<
  Task,
  "taskId" | "charge" | "key" | "model" | "taskType" | "status" | "createdAt" | "startedAt" | "deadlineAt" | "quantity"
> & { readonly nextPollAt: number };

export type BindResult =
  | { readonly ok: true }
  /** `taken`: another charge pays for this task. `no_such_charge`: no pending charge of a task has this id. */
  | { readonly ok: false; readonly reason: "taken" | "no_such_charge" | "unavailable" };

/** State of a running task, from its record. */
export interface TaskObservation {
  readonly status: TaskStatus;
  readonly startedAt: number | null;
  readonly seenAt: number;
  readonly nextPollAt: number;
  readonly deadlineAt: number;
}

export interface TaskEnding {
  readonly settlement: Settlement;
  readonly end: ChargeEnd;
  readonly status: FinalStatus;
  readonly startedAt: number | null;
  /** End time that the gateway states; null if it states none. */
  readonly endedAt: number | null;
  readonly failure: TaskFailure | null;
  readonly inputs: TaskInputs;
}

export interface DueQuery {
  readonly now: number;
  readonly limit: number;
  /** Longest valid pause, in milliseconds. A poll that is due later was scheduled before the clock was set back. */
  readonly pauseMsMax: number;
  /** Tasks that are being polled. */
  readonly except: readonly string[];
}

export interface DueTasks {
  readonly tasks: readonly Task[];
  /** Earliest time at which another task is due; null if there is none. */
  readonly nextPollAt: number | null;
}

export interface TaskQuery {
  readonly key?: string;
  readonly running?: boolean;
  /** 1 to 1000. */
  readonly limit: number;
  /** Id of the last task on the previous page. */
  readonly after?: string;
}

export interface TaskPage {
  readonly tasks: readonly Task[];
  readonly next: string | null;
}
