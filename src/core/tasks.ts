import { hourMs, minuteMs } from "./time.ts";

/**
 * States of a task, independent of the gateway's words for them. `unknown`: Farebox does not know the gateway's word,
 * and the task may still be running.
 */
export const taskStatuses = ["pending", "running", "completed", "failed", "cancelled", "unknown"] as const;
export type TaskStatus = (typeof taskStatuses)[number];

/** States that are final. */
export type FinalStatus = Extract<TaskStatus, "completed" | "failed" | "cancelled">;

export function isFinal(status: TaskStatus): status is FinalStatus {
  return status === "completed" || status === "failed" || status === "cancelled";
}

/** Consumption of a task, as stated by the gateway. */
export interface Consumption {
  /**
   * `meta.usage.type` in lower case, or `used_credits` if the record has that field instead; "" if the record states no
   * type.
   */
  readonly type: string;
  /** Number of the gateway's units: a plain decimal, exactly as stated. */
  readonly units: string;
}

/** The known content of the gateway's task record. Times are milliseconds since 1970 UTC; null if unset. */
export interface TaskRecord {
  /** Null if the record names no task. */
  readonly taskId: string | null;
  readonly status: TaskStatus;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** Null if the record states none. A running task's record may state a preliminary consumption. */
  readonly consumption: Consumption | null;
  /** True if the account's private pool ran the task. */
  readonly isPrivatePool: boolean;
  /** True if the record states an error. */
  readonly hasError: boolean;
  /** Texts of the error, from which Farebox derives a reason. They are never stored. */
  readonly errors: readonly string[];
}

/**
 * Returns the final status in a record; null while the task runs. If the status word is unknown but an end time is
 * stated, the task failed if the record has an error and completed otherwise.
 */
export function finalStatusOf({ status, endedAt, hasError }: TaskRecord): FinalStatus | null {
  if (isFinal(status)) return status;
  if (status !== "unknown" || endedAt === null) return null;
  return hasError ? "failed" : "completed";
}

/** A task of a key, stored with its charge. Times are milliseconds since 1970 UTC. */
export interface Task {
  readonly taskId: string;
  /** The charge that pays for the task. */
  readonly charge: string;
  /** Id of the key that owns the task; "" for a client without a key. */
  readonly key: string;
  readonly model: string;
  /** Null if the creation request named no type. */
  readonly taskType: string | null;
  readonly status: TaskStatus;
  /** Time at which the task's id was stored. */
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** Time at which the task's charge was posted or voided; null while the task is not settled. */
  readonly settledAt: number | null;
  /** Time at which a client or the poller last read the task's record. */
  readonly seenAt: number;
  /** Time of the next poll; null once the task is settled. */
  readonly nextPollAt: number | null;
  /** Time at which Farebox stops waiting for the task to end or, once it is completed, for its consumption. */
  readonly deadlineAt: number;
  readonly failure: TaskFailure | null;
  readonly consumption: Consumption | null;
  /** Number of units per USD if the consumption was priced; null otherwise. */
  readonly unitsPerUsd: string | null;
  /**
   * Number of pieces, seconds or tasks to which the price applies: until settlement the requested number, then the
   * charged number; null if there is none.
   */
  readonly quantity: string | null;
}

/**
 * Longest run times of task families in milliseconds, as the price files state them. A task that runs longer counts as
 * failed. A family is a word in lower case in the name of a task's model or type.
 */
export type TaskTimeLimits = ReadonlyMap<string, number>;

/** Time for which the poller polls a completed task that states no consumption, in milliseconds. */
export const consumptionWaitMs = 10 * minuteMs;

/** Returns true if a task has completed but is not settled, because its record states no consumption. */
export function awaitsConsumption({ status, settledAt }: Pick<Task, "status" | "settledAt">): boolean {
  return status === "completed" && settledAt === null;
}

/** Longest wait for a task of any family after its creation, in milliseconds. */
export const generalLimitMs = 24 * hourMs;

/** Time that the gateway may need to report a task that it stopped at the time limit, in milliseconds. */
const limitGraceMs = minuteMs;

/** Returns the words of a name in lower case: "suno", "v4" for "SunoV4" and for "suno-v4". */
function wordsOf(name: string): string[] {
  return name
    .replace(/([\p{Ll}\p{N}])(\p{Lu})|(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1$3 $2$4")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u);
}

/**
 * Returns the time limit of a task's family, the longest one if the task is of several families; null without a limit.
 */
export function timeLimitOf(limits: TaskTimeLimits, { model, taskType }: TaskNames): number | null {
  const words = new Set([model, ...(taskType === null ? [] : [taskType])].flatMap(wordsOf));
  let longest: number | null = null;
  for (const [family, limitMs] of limits) if (words.has(family)) longest = Math.max(longest ?? 0, limitMs);
  return longest;
}

/**
 * Returns the time at which Farebox stops waiting for a task: one minute after the task reaches its family's time
 * limit, counted from its start, but at the latest the general limit after its creation.
 */
export function deadlineOf(
  limits: TaskTimeLimits,
  task: Pick<Task, "model" | "taskType" | "createdAt" | "startedAt">,
): number {
  const general = task.createdAt + generalLimitMs;
  const limitMs = timeLimitOf(limits, task);
  if (task.startedAt === null || limitMs === null) return general;
  // A start time before the creation time comes from a different clock.
  return Math.min(general, Math.max(task.startedAt, task.createdAt) + limitMs + limitGraceMs);
}

/**
 * Returns true if the gateway treats the task as failed because it ran longer than its family's time limit. A task
 * without an end time counts as failed from its deadline until the general limit.
 */
export function isPastTimeLimit(
  limits: TaskTimeLimits,
  task: Pick<Task, "model" | "taskType" | "createdAt" | "startedAt">,
  endedAt: number | null,
  now: number,
): boolean {
  const limitMs = timeLimitOf(limits, task);
  if (limitMs === null || task.startedAt === null) return false;
  if (endedAt !== null) return endedAt - task.startedAt > limitMs;
  return now >= deadlineOf(limits, task) && now < task.createdAt + generalLimitMs;
}

const pollPauseMs = { least: 3_000, most: 60_000 } as const;

/**
 * Returns the time of a task's next poll. Pauses grow with the task's age, up to a minute. Each varies by up to a
 * quarter, so that tasks created together are not polled together. `random` is at least 0 and below 1.
 */
export function nextPollAt(task: Pick<Task, "createdAt" | "deadlineAt">, now: number, random: number): number {
  const age = Math.max(now - task.createdAt, 0);
  const pause = Math.min(Math.max(age / 4, pollPauseMs.least), pollPauseMs.most);
  const next = now + Math.round(pause * (0.75 + random / 2));
  // Polls at the deadline, so that the task is settled then and not up to a minute later.
  return task.deadlineAt > now ? Math.min(next, task.deadlineAt) : next;
}

/** Pause before the next poll after a client has fetched the task's record, in milliseconds. */
export const clientPauseMs = pollPauseMs.most;

/** Time for which an unchanged record that a client fetches is not stored again, in milliseconds. */
export const observationEveryMs = 10_000;

/** Longest pause before a poll, in milliseconds. A later poll was scheduled before the clock was set back. */
export const pollPauseMsMax = pollPauseMs.most * 1.25;

/**
 * Reasons for task failures, derived from the gateway's free text (gateway interface, section 7). `other`: no pattern
 * matches.
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

/** Patterns of each reason, most specific first; the first match applies. Texts are compared in lower case. */
const failurePatterns: readonly (readonly [TaskFailure, RegExp])[] = [
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

/** Returns the reason for a task failure, from the first text that matches a pattern; `other` if no text matches. */
export function failureReason(texts: readonly string[]): TaskFailure {
  for (const text of texts) {
    const found = failurePatterns.find(([, pattern]) => pattern.test(text.toLowerCase()));
    if (found !== undefined) return found[0];
  }
  return "other";
}

/** Task families for which the account record states a separate ceiling. */
export const taskFamilies = ["suno", "luma", "kling", "flux"] as const;
type TaskFamily = (typeof taskFamilies)[number];

/** Names of the ceilings in the account record. `all` limits all tasks together. */
export const ceilingNames = ["all", ...taskFamilies] as const;
export type CeilingName = (typeof ceilingNames)[number];

/** Most tasks that may run at once, as stated by the account record. Null if unknown; 0 only if the record states 0. */
export type TaskCeilings = Readonly<Record<CeilingName, number | null>>;

export type TaskCounts = Readonly<Record<CeilingName, number>>;

/** A ceiling that one more task would exceed. */
export interface ExceededCeiling {
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

/**
 * Returns the family in the name of a task's model, or otherwise in its type. Returns null if neither names a family
 * with a separate ceiling.
 */
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
 * Returns the ceiling that one more task of this kind would exceed; null if there is none. A ceiling of 0 may mean
 * "not set", so it is ignored and the gateway decides.
 */
export function exceededCeiling(ceilings: TaskCeilings, running: TaskCounts, task: TaskNames): ExceededCeiling | null {
  const family = familyOf(task);
  for (const name of family === null ? (["all"] as const) : (["all", family] as const)) {
    const limit = ceilings[name];
    if (limit !== null && limit > 0 && running[name] >= limit) return { family: name, limit };
  }
  return null;
}
