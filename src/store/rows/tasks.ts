import type { Task, TaskStatus } from "../../core/tasks.ts";
import type { TaskFailure } from "../../core/task-failures.ts";
import type { TaskPage } from "../../ports/task-store.ts";
import type { TaskEndFacts } from "../commands.ts";

/** A row of `tasks`; times fit a number. */
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
    consumption:
      row.usage_type === null || row.usage_units === null ? null : { type: row.usage_type, units: row.usage_units },
    unitsPerUsd: row.units_per_usd,
    quantity,
  };
}

/** The page of so many tasks, from one row more than it takes, if there is one. */
export function taskPage(rows: readonly TaskRow[], limit: number): TaskPage {
  const tasks = rows.slice(0, limit).map(taskOf);
  return { tasks, next: rows.length > limit ? (tasks.at(-1)?.taskId ?? null) : null };
}

/** What of an ending stands in the task's row, flat. */
export function endedTask({ inputs, ...facts }: TaskEndFacts) {
  const { consumption, unitsPerUsd, quantity } = inputs;
  return { ...facts, type: consumption?.type ?? null, units: consumption?.units ?? null, unitsPerUsd, quantity };
}
