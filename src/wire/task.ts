import { namePattern } from "../core/keys.ts";
import { plainDecimal } from "../core/money.ts";
import type { Consumption, TaskRecord, TaskStatus } from "../core/tasks.ts";
import {
  isObject,
  jsonElements,
  jsonMembers,
  listOr,
  membersNamed,
  objectOr,
  parseJson,
  type JsonObject,
} from "./json.ts";
import { equalFolded } from "./findings.ts";
import { plainName, isAbsent, meansSuccess, readStatedError } from "./stated-error.ts";

/**
 * Reads the gateway's record of a task (gateway interface, sections 2.2, 2.3 and 6). Returns undefined for any other
 * text. Accepts the unified form (`timestamp`, `data`, or in the envelope `code`, `data`, `message`) and the envelope
 * form (`task_info`, `task_result`). Also accepts the answer to a creation, and the payload of a webhook. Ignores
 * unknown fields, and known fields with an unexpected type.
 */
export function readTaskRecord(text: Buffer | string): TaskRecord | undefined {
  const root = parseExactly(text.toString());
  if (!isObject(root) || root instanceof Digits) return undefined;
  return taskRecordIn(isObject(root["data"]) ? root["data"] : root);
}

/** Reads a parsed record without its envelope. Numbers are `Digits`. */
export function taskRecordIn(data: JsonObject): TaskRecord {
  const info = objectOr(data["task_info"]);
  const result = objectOr(data["task_result"]);
  const meta = objectOr(data["meta"]);
  const errors = errorTexts(data, result);
  return {
    taskId: idOf(data["task_id"]),
    status: statusOf(data["status"]),
    startedAt: timeOf(meta["started_at"]) ?? timeOf(info["started_at"]),
    endedAt: timeOf(meta["ended_at"]) ?? timeOf(info["completed_at"]) ?? timeOf(info["ended_at"]),
    consumption: consumptionOf(meta, result),
    isPrivatePool: meta["is_using_private_pool"] === true,
    hasError: errors.length > 0 || statesCode(objectOr(data["error"])["code"]),
    errors,
  };
}

/**
 * Reads the answer to a poll. Returns undefined if the answer names no task and its envelope states an error, or if the
 * gateway does not know the task. Such an answer says nothing about the task: it may still run, or the answer to its
 * creation may have named it by another id.
 */
export function readPolledRecord(text: Buffer): TaskRecord | undefined {
  const record = readTaskRecord(text);
  if (record === undefined || record.errors.some(saysUnknownTask)) return undefined;
  if (record.taskId !== null) return record;
  const { data: _, ...envelope } = objectOr(parseJson(text.toString()));
  return readStatedError(envelope, true) === undefined ? record : undefined;
}

const unknownTask =
  /\b(?:no such|unknown) task\b|\btask(?:[ _-]?id)?:?(?: ["']?[\w.:-]+["']?)?:? (?:is |was |could |does |do |has )?(?:not (?:be(?:en)? )?found|not exist|unknown|no longer exists?)|\btask doesn't exist|任务不存在/i;

/** Returns true if an error says that the gateway does not know the task itself, not a task that this one refers to. */
function saysUnknownTask(text: string): boolean {
  return unknownTask.test(text) && !/origin|parent|source|previous|reference/i.test(text);
}

/**
 * Members of an answer that may contain the record of a task, or a list of records. Their names are in the form of
 * `plainName`.
 */
export const recordMembers: ReadonlySet<string> = new Set(
  (
    "data task task_info task_result tasks items list records results result response body " +
    "job jobs prediction predictions generation generations"
  )
    .split(" ")
    .map(plainName),
);
const taskIdNames: ReadonlySet<string> = new Set(["task_id", "task_ids"].map(plainName));
const quotedTask = Buffer.from('"task');
const escapedLetter = Buffer.from("\\u00");
const noTasks: ReadonlySet<string> = new Set();
/** Largest depth at which records are searched. */
const recordDepthMax = 8;

/**
 * Returns the ids of the tasks whose records an answer contains. The answer may contain one record in any form, or a
 * list of records. Ignores ids in other members, such as a repetition of the request.
 */
export function tasksNamed(text: Buffer): ReadonlySet<string> {
  // Avoids parsing most answers, because they name no task.
  if (!mayNameTask(text)) return noTasks;
  const named = new Set<string>();
  const collect = (value: unknown, depth: number): void => {
    if (depth > recordDepthMax) return;
    for (const item of listOr(value)) collect(item, depth + 1);
    if (!isObject(value)) return;
    for (const [name, each] of Object.entries(value)) {
      if (isTaskIdName(name)) for (const id of listOr(each).concat(each).map(idOf)) if (id !== null) named.add(id);
      if (recordMembers.has(plainName(name))) collect(each, depth + 1);
    }
  };
  collect(parseExactly(text.toString()), 0);
  return named;
}

/** Returns true for `task_id`, `taskId`, `task_ids` and the like. */
function isTaskIdName(name: string): boolean {
  return taskIdNames.has(plainName(name));
}

/** Returns true if an answer may contain a member with a name such as `task_id`, even one with escaped letters. */
export function mayNameTask(text: Buffer): boolean {
  for (let at = text.indexOf(quotedTask); at !== -1; at = text.indexOf(quotedTask, at + quotedTask.length)) {
    const from = at + quotedTask.length;
    if (/^[_-]?ids?"/i.test(text.toString("latin1", from, from + 5))) return true;
  }
  return text.includes(escapedLetter) && /\\u00(?:5f|[46]9|6[14b]|44|7[34])/i.test(text.toString("latin1"));
}

/**
 * Matches `task_id`, `origin_task_id`, `task_ids`, `job_id` and similar names, including spellings that lenient readers
 * accept.
 */
const taskIdMember = /(?:task|job|generation|prediction)[_-]?(?:uu)?ids?$/i;

/**
 * Returns the ids of the tasks that a request names: in members of its body at any depth, in its query, and in `more`.
 * A body that is not JSON names none.
 */
export function tasksMentioned(body: Buffer, query: string, more: readonly string[] = []): ReadonlySet<string> {
  const named = new Set(more.filter(isTaskId));
  const collect = (value: unknown): void => {
    for (const item of listOr(value)) collect(item);
    const id = idOf(value);
    if (id !== null) named.add(id);
  };
  for (const [name, value] of new URLSearchParams(query))
    if (taskIdMember.test(name.normalize("NFKC"))) value.split(",").forEach(collect);
  for (const { valueStart, valueEnd } of membersNamed(body, (name) => taskIdMember.test(name.normalize("NFKC")))) {
    collect(parseExactly(body.toString("utf8", valueStart, valueEnd)));
  }
  return named;
}

/** Pattern of a task's id, which must be short because it is a segment of a path and a key in the database. */
const taskIdPattern = /^[\x21-\x7e]{1,200}$/;

export function isTaskId(text: string): boolean {
  return taskIdPattern.test(text) && !/[/\\?#%]/.test(text) && !/^\.{1,2}$/.test(text);
}

export function idOf(value: unknown): string | null {
  const text = value instanceof Digits ? value.text : value;
  return typeof text === "string" && isTaskId(text) ? text : null;
}

const statusWords: Readonly<Record<string, TaskStatus>> = {
  pending: "pending",
  staged: "pending",
  queued: "pending",
  in_queue: "pending",
  enqueued: "pending",
  accepted: "pending",
  submitted: "pending",
  created: "pending",
  waiting: "pending",
  starting: "pending",
  processing: "running",
  running: "running",
  in_progress: "running",
  started: "running",
  retry: "running",
  completed: "completed",
  complete: "completed",
  succeeded: "completed",
  success: "completed",
  finished: "completed",
  done: "completed",
  failed: "failed",
  failure: "failed",
  error: "failed",
  timeout: "failed",
  expired: "failed",
  cancelled: "cancelled",
  canceled: "cancelled",
  aborted: "cancelled",
};

function statusOf(value: unknown): TaskStatus {
  if (typeof value !== "string") return "unknown";
  const word = value
    .trim()
    .toLowerCase()
    .replace(/[\s-]+/g, "_");
  return Object.hasOwn(statusWords, word) ? (statusWords[word] ?? "unknown") : "unknown";
}

/**
 * Reads an ISO 8601 time or a number of seconds since 1970. Returns milliseconds since 1970; null for a zero time, such
 * as year 1, and for any other value.
 */
function timeOf(value: unknown): number | null {
  if (value instanceof Digits) {
    const seconds = Number(value.text);
    return seconds > 0 && seconds < 1e11 ? Math.round(seconds * 1000) : null;
  }
  if (typeof value !== "string" || !/^\d{4}-\d{2}-\d{2}T/.test(value)) return null;
  const at = Date.parse(value);
  return Number.isNaN(at) || at <= 0 ? null : at;
}

/** Returns `meta.usage` of the unified form, or the credits of the envelope form; null if the record has neither. */
function consumptionOf(meta: JsonObject, result: JsonObject): Consumption | null {
  const usage = objectOr(meta["usage"]);
  const consumed = decimalOf(usage["consume"]);
  if (consumed !== null)
    return { type: typeof usage["type"] === "string" ? typeWord(usage["type"]) : "", units: consumed };
  const credits = decimalOf(result["used_credits"]);
  return credits === null ? null : { type: usedCredits, units: credits };
}

/** Type of the envelope form's credits. The catalogue's `task_units` may state their value. */
const usedCredits = "used_credits";

/** Returns a type of consumption as Farebox stores it with the task; "" for a text that is not a plain word. */
function typeWord(text: string): string {
  const word = text.trim().toLowerCase();
  return namePattern.test(word) ? word : "";
}

/** Returns a number of at least 0 as a plain decimal, from a number or a text; null for any other value. */
function decimalOf(value: unknown): string | null {
  const text = value instanceof Digits ? value.text : value;
  return typeof text === "string" ? (plainDecimal(text) ?? null) : null;
}

function errorTexts(data: JsonObject, result: JsonObject): string[] {
  const { raw_message: raw, message, detail } = objectOr(data["error"]);
  const plain = typeof data["error"] === "string" ? data["error"] : undefined;
  const texts = [message, raw, plain, ...listOr(result["error_messages"]), detailText(detail)];
  return texts
    .filter((text): text is string => typeof text === "string" && !isAbsent(text) && !meansSuccess(text))
    .map((text) => text.slice(0, errorCharsMax));
}

/** Number of UTF-16 units that are kept of an error text. */
const errorCharsMax = 2000;

function detailText(detail: unknown): string | undefined {
  if (typeof detail === "string") return detail;
  return isObject(detail) && typeof detail["message"] === "string" ? detail["message"] : undefined;
}

/** Returns true if an error states a code other than success. */
function statesCode(code: unknown): boolean {
  const stated = code instanceof Digits ? Number(code.text) : code;
  return (typeof stated === "number" || typeof stated === "string") && !isAbsent(stated) && !meansSuccess(stated);
}

/** JSON number with its digits as written. */
export class Digits {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/**
 * Parses JSON and keeps the digits of numbers, because money must never be a float. Returns undefined if the text is
 * not JSON.
 */
export function parseExactly(text: string): unknown {
  const keepDigits = (_name: string, value: unknown, context?: { readonly source?: string }) =>
    typeof value === "number" ? new Digits(context?.source ?? String(value)) : value;
  try {
    return JSON.parse(text, keepDigits as (name: string, value: unknown) => unknown);
  } catch {
    return undefined;
  }
}

/** Envelope members that, unlike totals, reveal nothing about the tasks of other keys. */
const envelopeNames = new Set(["code", "message", "msg", "success", "timestamp", "page", "page_size"]);

/** Largest depth of lists and objects. No known answer is deeper. */
const depthMax = 16;

/**
 * Returns an answer that lists tasks, reduced to the records of the tasks in `own`. Keeps these records as written and
 * in their lists. Keeps the envelope, and removes everything else, such as totals.
 */
export function withOwnRecordsOnly(answer: Buffer, own: ReadonlySet<string>): string {
  return kept(answer, own, 0) ?? "{}";
}

/** Returns the part of a value to keep; undefined if it is removed. */
function kept(value: Buffer, own: ReadonlySet<string>, depth: number): string | undefined {
  if (depth > depthMax) return undefined;
  const elements = jsonElements(value, Infinity);
  if (elements !== undefined) {
    const records = elements
      .map((element) => kept(element, own, depth + 1))
      .filter((element) => element !== undefined && element !== "{}" && element !== "[]");
    return `[${records.join(",")}]`;
  }
  if (value[0] !== "{".charCodeAt(0)) return undefined;
  const members = jsonMembers(value);
  if (members.some(({ name }) => equalFolded(name, "task_id") || isTaskIdName(name)))
    return isOwn(value, own) ? value.toString("utf8") : undefined;
  const shown = members.flatMap(({ name, valueStart, valueEnd }) => {
    const text = envelopeNames.has(name) && depth < 2 ? plainText(value.subarray(valueStart, valueEnd)) : undefined;
    const inner = text ?? kept(value.subarray(valueStart, valueEnd), own, depth + 1);
    return inner === undefined ? [] : [`${JSON.stringify(name)}:${inner}`];
  });
  return `{${shown.join(",")}}`;
}

/** Returns a number, a text or a boolean as written; undefined for any other value. */
function plainText(value: Buffer): string | undefined {
  const text = value.toString("utf8");
  return typeof parseJson(text) === "object" ? undefined : text;
}

/** Returns true if a record, and all records in it, belong to the tasks in `own`. */
function isOwn(record: Buffer, own: ReadonlySet<string>): boolean {
  const ids = [...tasksNamed(record)];
  return ids.length > 0 && ids.every((id) => isTaskId(id) && own.has(id));
}
