import type { Settlement } from "../core/settlement.ts";
import type { FinalStatus, Task, TaskFailure, TaskStatus } from "../core/tasks.ts";
import type { TaskInputs } from "../core/task-settlement.ts";
import type { ChargeEnd, SettleResult } from "./ledger.ts";

/**
 * Tasks with the charges that pay for them, in the ledger's own transactions. `bind` and `end` are retried until they
 * are written; a promise that resolves with `ok` is durable.
 */
export interface TaskStore {
  /** Stores which task a pending charge pays for. Idempotent by the charge. */
  bind(task: NewTask): Promise<BindResult>;
  find(taskId: string): Promise<Task | undefined>;
  /** Returns the task that a charge pays for; undefined while it is not bound. */
  ofCharge(charge: string): Promise<Task | undefined>;
  /** Stores a running task's record; ignores a settled task. False if it could not be written. */
  observe(taskId: string, observation: TaskObservation): Promise<boolean>;
  /**
   * Posts or voids the task's charge and ends the task, in one transaction. A repeat returns the first result and
   * changes nothing. Never refused for lack of room.
   */
  end(task: Pick<Task, "taskId" | "charge">, ending: TaskEnding): Promise<SettleResult>;
  /** Returns tasks to poll, longest due first, and the time of the next one. */
  due(query: DueQuery): Promise<DueTasks>;
  /** Returns the number of unsettled tasks. */
  running(): Promise<number>;
  /** Returns tasks that run at the gateway, without completed ones that are polled for their consumption. */
  runningTasks(): Promise<readonly Pick<Task, "charge" | "model" | "taskType">[]>;
  /** Newest first. */
  list(query: TaskQuery): Promise<TaskPage>;
}

/** A task as it is bound; it is not settled yet. */
export type NewTask = Pick<
  Task,
  "taskId" | "charge" | "key" | "model" | "taskType" | "status" | "createdAt" | "startedAt" | "deadlineAt" | "quantity"
> & { readonly nextPollAt: number };

export type BindResult =
  | { readonly ok: true }
  /** `taken`: another charge pays for this task. `no_such_charge`: there is no such pending charge of a task. */
  | { readonly ok: false; readonly reason: "taken" | "no_such_charge" | "unavailable" };

/** State of a running task, by its record. */
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
  /** As the gateway states it. */
  readonly endedAt: number | null;
  readonly failure: TaskFailure | null;
  readonly inputs: TaskInputs;
}

export interface DueQuery {
  readonly now: number;
  readonly limit: number;
  /** Longest valid pause: a later poll was set by a clock that has since stepped back, so it is due. */
  readonly pauseMsMax: number;
  /** Tasks that are being polled. */
  readonly except: readonly string[];
}

export interface DueTasks {
  readonly tasks: readonly Task[];
  /** Time at which the first of the others is due; null for none. */
  readonly nextPollAt: number | null;
}

export interface TaskQuery {
  readonly key?: string;
  readonly running?: boolean;
  /** 1 to 1000. */
  readonly limit: number;
  /** The id of the last task of the page before. */
  readonly after?: string;
}

export interface TaskPage {
  readonly tasks: readonly Task[];
  readonly next: string | null;
}
