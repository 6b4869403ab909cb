/** States of a task, whatever words the gateway uses. `unknown`: an unknown word; the task may still run. */
export const taskStatuses = ["pending", "running", "completed", "failed", "cancelled", "unknown"] as const;
export type TaskStatus = (typeof taskStatuses)[number];

/** The states that a task does not leave. */
export type FinalStatus = Extract<TaskStatus, "completed" | "failed" | "cancelled">;

export function isFinal(status: TaskStatus): status is FinalStatus {
  return status === "completed" || status === "failed" || status === "cancelled";
}

/** Consumption of a task, as the gateway states it. */
export interface Consumption {
  /** `meta.usage.type` in small letters, `used_credits` for that field of the envelope form; "" where none is stated. */
  readonly type: string;
  /** In the gateway's units: a plain decimal, exactly as stated. */
  readonly units: string;
}

/** Known content of the gateway's task record. Times are milliseconds since 1970 UTC; null where unset. */
export interface TaskRecord {
  /** Null where the record names none. */
  readonly taskId: string | null;
  readonly status: TaskStatus;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** Null where the record states none. May be stated while the task runs; final when the task is. */
  readonly consumption: Consumption | null;
  /** True if the account's own pool ran it. */
  readonly isPrivatePool: boolean;
  /** True if it states an error; its texts are used only for their meaning. */
  readonly hasError: boolean;
  readonly errors: readonly string[];
}

/**
 * Returns the final status in a record; null while the task runs. An unknown word with an end time is decided by the
 * error.
 */
export function finalStatusOf({ status, endedAt, hasError }: TaskRecord): FinalStatus | null {
  if (isFinal(status)) return status;
  if (status !== "unknown" || endedAt === null) return null;
  return hasError ? "failed" : "completed";
}

/** A task of a key, stored with its charge. Times are milliseconds since 1970 UTC. */
export interface Task {
  readonly taskId: string;
  /** Charge that pays for it. */
  readonly charge: string;
  /** Owner: the key's id, "" for callers without one. */
  readonly key: string;
  readonly model: string;
  /** Null where the creation named none. */
  readonly taskType: string | null;
  readonly status: TaskStatus;
  /** Time at which its id was stored. */
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** Time at which its charge was posted or voided; null while it runs. */
  readonly settledAt: number | null;
  /** Time at which a client or the poller last read its record. */
  readonly seenAt: number;
  /** Next poll; null when it is settled. */
  readonly nextPollAt: number | null;
  /** Time from which it counts as failed; for a completed task, the end of polling for its consumption. */
  readonly deadlineAt: number;
  readonly failure: TaskFailure | null;
  readonly consumption: Consumption | null;
  /** Units of consumption for one USD, if they priced it; null where they stay raw. */
  readonly unitsPerUsd: string | null;
  /** Pieces, seconds or tasks that the price is for: of the request, and once settled of the charge. */
  readonly quantity: string | null;
}

/** Run time after which a task of a family counts as failed, from its start if known. Milliseconds. */
interface TimeLimit {
  /** Pattern for the names of the model and the task type. */
  readonly family: RegExp;
  readonly limitMs: number;
}

/** The families that state a time limit. Music: 15 minutes from `started_at` (gateway interface, section 8). */
const timeLimits: readonly TimeLimit[] = [{ family: /suno|music|udio/i, limitMs: 15 * 60_000 }];

/** Time for which a completed task without consumption is polled again, in milliseconds. */
export const confirmMs = 10 * 60_000;

/** Reports that a task has completed but is not settled, because its record states no consumption. */
export function isConfirming({ status, settledAt }: Pick<Task, "status" | "settledAt">): boolean {
  return status === "completed" && settledAt === null;
}

/** Longest wait for a task of any family, from its creation. Milliseconds. */
export const generalLimitMs = 24 * 3_600_000;

/** Time the gateway may need to report a task that it ended at its limit, in milliseconds. */
const limitGraceMs = 60_000;

function timeLimitOf({ model, taskType }: Pick<Task, "model" | "taskType">): number | null {
  const names = `${model} ${taskType ?? ""}`;
  return timeLimits.find(({ family }) => family.test(names))?.limitMs ?? null;
}

/**
 * Returns the end of waiting for a task: the family's limit after its start, at most the general limit after its
 * creation.
 */
export function deadlineOf(task: Pick<Task, "model" | "taskType" | "createdAt" | "startedAt">): number {
  const general = task.createdAt + generalLimitMs;
  const limitMs = timeLimitOf(task);
  if (task.startedAt === null || limitMs === null) return general;
  // A start before the creation comes from another clock.
  return Math.min(general, Math.max(task.startedAt, task.createdAt) + limitMs + limitGraceMs);
}

/**
 * Reports that the gateway treats the task as failed because it exceeded its family's time limit, from its start to its
 * end, or to `now`.
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
 * Returns the next poll of a task: soon while it is new, every minute when it is old. Each pause varies by up to a
 * quarter, so that tasks created together are not polled together. `random`: at least 0, below 1.
 */
export function nextPollAt(task: Pick<Task, "createdAt" | "deadlineAt">, now: number, random: number): number {
  const age = Math.max(now - task.createdAt, 0);
  const pause = Math.min(Math.max(age / 4, pollPauseMs.least), pollPauseMs.most);
  const next = now + Math.round(pause * (0.75 + random / 2));
  // Polls at the deadline, so that the task ends then and not up to a minute later.
  return task.deadlineAt > now ? Math.min(next, task.deadlineAt) : next;
}

/** Pause of the poller after each request of a client for the task, in milliseconds. */
export const clientPauseMs = pollPauseMs.most;

/** Shortest time between two stored observations of a client that show nothing new, in milliseconds. */
export const observationEveryMs = 10_000;

/** Longest valid pause: a later poll was set by a clock that has since stepped back. Milliseconds. */
export const pollPauseMsMax = pollPauseMs.most * 1.25;

/**
 * Reasons of task failures, as far as their free texts are understood (gateway interface, section 7). `other`: none of
 * these.
 */
export const taskFailures = [
  "input_media",
  "request_format",
  "network",
  "upstream_no_credit",
  "upstream_rate_limit",
  "upstream_overload",
  "time_limit",
  "private_pool_only",
  "no_private_account",
  "plan_lacks_access",
  "image_quota",
  "upstream_timeout",
  "redirect",
  "content_refused",
  "other",
] as const;
export type TaskFailure = (typeof taskFailures)[number];

/**
 * Patterns of each reason, in the order in which they are tried: specific ones first. Texts are compared in lower case.
 */
const meanings: readonly (readonly [TaskFailure, RegExp])[] = [
  [
    "no_private_account",
    /no (?:available|connected|usable|active).{0,40}account|account.{0,40}private (?:group|pool)|private group.{0,60}account/,
  ],
  [
    "private_pool_only",
    /(?:not |un)support\w* (?:in|for|under|by) (?:the )?(?:ppu|pay[- ]as[- ]you[- ]go)|(?:byoa|host[- ]your[- ]account) (?:mode )?only|only (?:available |supported )?(?:in|for|with) (?:the )?(?:byoa|host[- ]your)/,
  ],
  [
    "plan_lacks_access",
    /plan.{0,60}(?:access|support|allow|include|permi|upgrade)|upgrade (?:your|the) (?:plan|subscription)|subscription.{0,40}(?:access|require)/,
  ],
  [
    "image_quota",
    /image.{0,30}quota|quota.{0,40}(?:image|not enough|insufficient)|insufficient.{0,20}quota|user quota/,
  ],
  [
    "upstream_no_credit",
    /(?:no|not enough|insufficient|out of|lack of|run out of) (?:\w+ )?(?:credit|balance|fund|point)|credit.{0,30}(?:insufficient|not enough|exhausted|used up)|payment required/,
  ],
  ["upstream_rate_limit", /rate.?limit|too many requests|\b429\b|too many (?:running|concurrent)/],
  ["upstream_timeout", /\b(?:524|504)\b|gateway time.?out/],
  ["time_limit", /context deadline|deadline exceeded|time allowance|exceeded.{0,30}time|time limit|ran too long/],
  [
    "input_media",
    /(?:download|fetch|load|decode|verify|access|read|retrieve|identify).{0,40}(?:image|video|audio|media|file|picture|url)|(?:image|video|audio|media|file|picture).{0,60}(?:cannot|can not|can't|could not|couldn't|fail|invalid|unknown|unsupported|not (?:be |a )?(?:valid|supported|accessible|found))|(?:unknown|unsupported|invalid) (?:image|video|audio|media|file)/,
  ],
  [
    "request_format",
    /json.{0,40}(?:unmarshal|mismatch|parse|type|syntax|invalid)|(?:un)?marshal|cannot parse|type mismatch|invalid (?:request|parameter|param|argument|body|input)|expected format|bad request|missing (?:required )?(?:field|parameter)/,
  ],
  ["redirect", /\b307\b|temporary redirect/],
  [
    "upstream_overload",
    /overload|server (?:is )?busy|at capacity|service unavailable|\b503\b|high (?:demand|load)|try again later/,
  ],
  [
    "network",
    /handshake|connection (?:reset|refused|closed|timed out)|network|\btls\b|\beof\b|broken pipe|no such host|i\/o timeout|time.?out|timed out/,
  ],
  [
    "content_refused",
    /moderat|nsfw|sensitive|policy|prohibited|inappropriate|unsafe|copyright|flagged|content (?:filter|check|violat)/,
  ],
];

/** Returns the reason of a failed task: that of the first text that matches one. */
export function failureReason(texts: readonly string[]): TaskFailure {
  for (const text of texts) {
    const found = meanings.find(([, words]) => words.test(text.toLowerCase()));
    if (found !== undefined) return found[0];
  }
  return "other";
}

/** The families of tasks for which the account record states a ceiling of their own. */
export const taskFamilies = ["suno", "luma", "kling", "flux"] as const;
type TaskFamily = (typeof taskFamilies)[number];

/** `all` is the ceiling of all tasks together. */
export const ceilingNames = ["all", ...taskFamilies] as const;
export type CeilingName = (typeof ceilingNames)[number];

/** Most tasks at once, as the account record states it. Null is unknown, never 0. */
export type TaskCeilings = Readonly<Record<CeilingName, number | null>>;

export type TaskCounts = Readonly<Record<CeilingName, number>>;

/** A ceiling that one more task would pass. */
export interface CeilingMet {
  readonly family: CeilingName;
  readonly limit: number;
}

interface TaskNames {
  readonly model: string;
  readonly taskType: string | null;
}

const familyNames: Readonly<Record<TaskFamily, RegExp>> = {
  suno: /suno/i,
  luma: /luma|dream[-_ ]?machine/i,
  kling: /kling/i,
  flux: /flux/i,
};

/** Returns the family that a task's model names, else its type; null for one without a ceiling of its own. */
export function familyOf({ model, taskType }: TaskNames): TaskFamily | null {
  for (const text of [model, taskType ?? ""]) {
    const found = taskFamilies.find((family) => familyNames[family].test(text));
    if (found !== undefined) return found;
  }
  return null;
}

export function countTasks(tasks: Iterable<TaskNames>): TaskCounts {
  const counts: Record<CeilingName, number> = { all: 0, suno: 0, luma: 0, kling: 0, flux: 0 };
  for (const task of tasks) {
    counts.all += 1;
    const family = familyOf(task);
    if (family !== null) counts[family] += 1;
  }
  return counts;
}

/**
 * Returns the ceiling that one more such task would exceed; null for none. A ceiling of 0 is ignored: it may mean "not
 * set", and the gateway decides.
 */
export function ceilingMet(ceilings: TaskCeilings, running: TaskCounts, task: TaskNames): CeilingMet | null {
  const family = familyOf(task);
  for (const name of family === null ? (["all"] as const) : (["all", family] as const)) {
    const limit = ceilings[name];
    if (limit !== null && limit > 0 && running[name] >= limit) return { family: name, limit };
  }
  return null;
}
