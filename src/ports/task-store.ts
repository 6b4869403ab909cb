import type { Settlement } from "../core/settlement.ts";
import type { TaskFailure } from "../core/task-failures.ts";
import type { TaskInputs } from "../core/task-cost.ts";
import type { FinalStatus, Task, TaskStatus } from "../core/tasks.ts";
import type { ChargeEnd, SettleResult } from "./ledger.ts";

/**
 * Tasks beside the charges that pay for them, in the ledger's own transactions. What must not be lost (`bind`, `end`) is
 * tried until it is written; a promise that resolves with `ok` is durable.
 */
export interface TaskStore {
  /** Writes down which task a pending charge pays for. Idempotent by the charge. */
  bind(task: NewTask): Promise<BindResult>;
  find(taskId: string): Promise<Task | undefined>;
  /** The task that a charge pays for; undefined while it is not bound. */
  ofCharge(charge: string): Promise<Task | undefined>;
  /** Takes note of a running task's record; nothing happens to one that is settled. False where it could not be written. */
  observe(taskId: string, sight: TaskObservation): Promise<boolean>;
  /**
   * Posts or voids the task's charge and ends the task, in one transaction; a repeat is answered with the first result and
   * changes nothing. Never refused for lack of room.
   */
  end(task: Pick<Task, "taskId" | "charge">, ending: TaskEnding): Promise<SettleResult>;
  /** Tasks that the poller is to look at, those first that are due longest, and when the next one is. */
  due(query: DueQuery): Promise<DueTasks>;
  /** How many are not settled. */
  running(): Promise<number>;
  /** All that run at the gateway: those that have completed and are asked for their consumption do not. */
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

/** What a record says of a task that runs on. */
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
  /** A poll that is due later than this from now was set by a clock that has stepped back: it is due. */
  readonly pauseMsMax: number;
  /** Tasks that are being looked at. */
  readonly except: readonly string[];
}

export interface DueTasks {
  readonly tasks: readonly Task[];
  /** When the first of the others is due; null where none is. */
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
