import type { TaskFailure } from "./task-failures.ts";

/** The words for a task's state, whatever the gateway's own. `unknown` is a word that nobody knows: the task may still run. */
export const taskStatuses = ["pending", "running", "completed", "failed", "cancelled", "unknown"] as const;
export type TaskStatus = (typeof taskStatuses)[number];

/** The states that a task does not leave. */
export type FinalStatus = Extract<TaskStatus, "completed" | "failed" | "cancelled">;

export function isFinal(status: TaskStatus): status is FinalStatus {
  return status === "completed" || status === "failed" || status === "cancelled";
}

/** What a task used up, as the gateway states it. */
export interface Consumption {
  /** `meta.usage.type` in small letters, `used_credits` for that field of the envelope form; "" where none is stated. */
  readonly type: string;
  /** In the gateway's units: a plain decimal, exactly as stated. */
  readonly units: string;
}

/** What Farebox understands of the gateway's record of a task. Times are milliseconds since 1970 UTC; null where unset. */
export interface TaskRecord {
  /** Null where the record names none. */
  readonly taskId: string | null;
  readonly status: TaskStatus;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** Null where the record states none. May be stated while the task runs; it is final when the task is. */
  readonly consumption: Consumption | null;
  /** Whether it says that the account's own pool made it. */
  readonly isPrivatePool: boolean;
  /** Whether it states an error, and its texts, for their meaning only. */
  readonly hasError: boolean;
  readonly errors: readonly string[];
}

/** How a record says that its task has ended; null while it has not. An unknown word beside an end is read by the error. */
export function finalStatusOf({ status, endedAt, hasError }: TaskRecord): FinalStatus | null {
  if (isFinal(status)) return status;
  if (status !== "unknown" || endedAt === null) return null;
  return hasError ? "failed" : "completed";
}

/** A task that a key has made, beside its charge. Times are milliseconds since 1970 UTC. */
export interface Task {
  readonly taskId: string;
  /** The charge that pays for it. */
  readonly charge: string;
  /** Who owns it: the key's id, "" for callers without one. */
  readonly key: string;
  readonly model: string;
  /** Null where the creation named none. */
  readonly taskType: string | null;
  readonly status: TaskStatus;
  /** When its id was written down. */
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** When its charge was posted or voided; null while it runs. */
  readonly settledAt: number | null;
  /** When its record was last read, by a client or by the poller. */
  readonly seenAt: number;
  /** When the poller looks at it; null when it is settled. */
  readonly nextPollAt: number | null;
  /** From then on it is taken for failed; for a completed one, from then on its consumption is no longer asked for. */
  readonly deadlineAt: number;
  readonly failure: TaskFailure | null;
  readonly consumption: Consumption | null;
  /** Which units of consumption make one USD, where they priced it; null where they stay raw. */
  readonly unitsPerUsd: string | null;
  /** How many pieces, seconds or tasks the catalogue's price is for: of the request, and once settled of what was charged. */
  readonly quantity: string | null;
}

/** A task that ran for so long is taken for failed, from its start where that is known. Milliseconds. */
interface TimeLimit {
  /** In the names of the model and the task type. */
  readonly family: RegExp;
  readonly limitMs: number;
}

/** The families that state a time limit. Music: 15 minutes from `started_at` (gateway interface, section 8). */
const timeLimits: readonly TimeLimit[] = [{ family: /suno|music|udio/i, limitMs: 15 * 60_000 }];

/** How long a completed task that states no consumption is asked for it again. Milliseconds. */
export const confirmMs = 10 * 60_000;

/** Whether the task has completed and is not settled yet, because its record states no consumption. */
export function isConfirming({ status, settledAt }: Pick<Task, "status" | "settledAt">): boolean {
  return status === "completed" && settledAt === null;
}

/** Nobody waits longer for a task of any family, from its creation. Milliseconds. */
export const generalLimitMs = 24 * 3_600_000;

/** The gateway ends a task at its limit and may need this long to say so. Milliseconds. */
const limitGraceMs = 60_000;

function timeLimitOf({ model, taskType }: Pick<Task, "model" | "taskType">): number | null {
  const names = `${model} ${taskType ?? ""}`;
  return timeLimits.find(({ family }) => family.test(names))?.limitMs ?? null;
}

/** When Farebox stops waiting for a task: the family's limit after its start, the general one after its creation. */
export function deadlineOf(task: Pick<Task, "model" | "taskType" | "createdAt" | "startedAt">): number {
  const general = task.createdAt + generalLimitMs;
  const limitMs = timeLimitOf(task);
  if (task.startedAt === null || limitMs === null) return general;
  // A start that lies before the creation is another clock's.
  return Math.min(general, Math.max(task.startedAt, task.createdAt) + limitMs + limitGraceMs);
}

/**
 * Whether the gateway treats the task as failed because it ran longer than its family may, from its start to its end; up to `now`
 * where it has not ended.
 */
export function isPastTimeLimit(
  task: Pick<Task, "model" | "taskType" | "createdAt" | "startedAt">,
  endedAt: number | null,
  now: number,
): boolean {
  const limitMs = timeLimitOf(task);
  if (limitMs === null || task.startedAt === null) return false;
  if (endedAt !== null) return endedAt - task.startedAt > limitMs;
  return now >= deadlineOf(task) && now < task.createdAt + generalLimitMs;
}

const pollPauseMs = { least: 3_000, most: 60_000 } as const;

/**
 * When the poller looks at a task again: soon while it is young, every minute when it is old, each pause longer or shorter
 * by up to a quarter so that tasks made together are not looked at together. `random`: at least 0, below 1.
 */
export function nextPollAt(task: Pick<Task, "createdAt" | "deadlineAt">, now: number, random: number): number {
  const age = Math.max(now - task.createdAt, 0);
  const pause = Math.min(Math.max(age / 4, pollPauseMs.least), pollPauseMs.most);
  const next = now + Math.round(pause * (0.75 + random / 2));
  // Once at the deadline, so that it ends then and not up to a minute later.
  return task.deadlineAt > now ? Math.min(next, task.deadlineAt) : next;
}

/** The poller leaves a task that a client asks for to the client, for as long as this after each time. Milliseconds. */
export const clientPauseMs = pollPauseMs.most;

/** A client's look at a task that tells nothing new is written down at most this often. Milliseconds. */
export const observationEveryMs = 10_000;

/** A poll that is due later than any pause allows was set by a clock that has stepped back since. Milliseconds. */
export const pollPauseMsMax = pollPauseMs.most * 1.25;
