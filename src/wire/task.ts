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

/**
 * Reads the gateway's record of a task (gateway interface, sections 2.2, 2.3 and 6). Undefined for any other text.
 * Ignores unknown fields, and known ones of another type. The forms: the unified one (`timestamp`, `data`, also under
 * `code`, `data`, `message`), the envelope form (`task_info`, `task_result`), a creation's answer, a webhook's payload.
 */
export function readTaskRecord(text: Buffer | string): TaskRecord | undefined {
  const root = parseExactly(text.toString());
  if (!isObject(root) || root instanceof Digits) return undefined;
  const data = isObject(root["data"]) ? root["data"] : root;
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

/** Members of an answer that hold the record of a task, or a list of records. */
const recordMembers = ["data", "task", "task_info", "task_result", "tasks", "items", "list", "records", "results"];
const taskIdMember = Buffer.from('"task_id"');
const noTasks: ReadonlySet<string> = new Set();
/** Records nest in at most so many of these. */
const recordDepthMax = 8;

/**
 * Returns the ids of the tasks whose records an answer shows: of one record in any form, or of each record in a list. An
 * id within what a record repeats of its request is no record.
 */
export function tasksNamed(text: Buffer): ReadonlySet<string> {
  // Most answers name no task and are not parsed for it.
  if (!text.includes(taskIdMember) && !hasEscapedTaskId(text)) return noTasks;
  const named = new Set<string>();
  const collect = (value: unknown, depth: number): void => {
    if (depth > recordDepthMax) return;
    for (const item of listOr(value)) collect(item, depth + 1);
    if (!isObject(value)) return;
    const id = idOf(value["task_id"]);
    if (id !== null) named.add(id);
    for (const member of recordMembers) collect(value[member], depth + 1);
  };
  collect(parseExactly(text.toString()), 0);
  return named;
}

/** Reports that a letter of `task_id` may be escaped, so that the name is not found in the bytes. */
function hasEscapedTaskId(text: Buffer): boolean {
  return text.includes("\\u00") && /\\u00(?:5f|6[149b]|7[34])/i.test(text.toString("latin1"));
}

/** A refusal that came with a status of success: the code in its envelope, null where it has none, and its texts. */
interface RefusedCreation {
  readonly code: number | null;
  readonly texts: readonly string[];
}

/**
 * Reads a refusal inside an answer of success, such as `{"code":10001,"data":null}`. It names no task. Either its code
 * is an error and its data is empty, or its record states a failure that used nothing. Undefined for any other answer.
 */
export function readRefusedCreation(text: Buffer): RefusedCreation | undefined {
  const root = parseExactly(text.toString());
  if (!isObject(root) || root instanceof Digits || tasksNamed(text).size > 0) return undefined;
  const code = codeOf(root["code"]);
  const record = readTaskRecord(text);
  const hasFailed = record !== undefined && (record.status === "failed" || record.status === "cancelled");
  const usedNothing = record?.consumption == null || record.consumption.units === "0";
  const isHttpError = code !== null && code >= 400 && code <= 599;
  const isRefused =
    isHttpError || (code !== null && !isSuccess(code) && isEmpty(root["data"])) || (hasFailed && usedNothing);
  if (!isRefused) return undefined;
  const texts = [root["message"], root["msg"], root["error"]].filter(
    (each): each is string => typeof each === "string",
  );
  return { code, texts: [...texts, ...(record?.errors ?? [])].map((each) => each.slice(0, errorCharsMax)) };
}

/** 200 is the gateway's success; clients have seen 0. */
function isSuccess(code: number): boolean {
  return code === 0 || (code >= 200 && code <= 299);
}

function isEmpty(data: unknown): boolean {
  if (data === undefined || data === null || data === "") return true;
  return typeof data === "object" && !(data instanceof Digits) && Object.keys(data).length === 0;
}

/** The gateway's own code in an answer's envelope; null where it has none. */
function codeOf(code: unknown): number | null {
  const stated = code instanceof Digits ? code.text : code;
  return typeof stated === "string" && /^-?\d{1,9}$/.test(stated) ? Number(stated) : null;
}

/** `task_id`, `origin_task_id`, `task_ids` and their like, in the spellings of other readers too. */
const taskMember = /task[_-]?ids?$/i;

/**
 * Returns the ids of the tasks that a request names: in such members of its body at any depth, in its query, and in `more`. A body that
 * is no JSON names none.
 */
export function tasksMentioned(body: Buffer, query: string, more: readonly string[] = []): ReadonlySet<string> {
  const named = new Set(more.filter(isTaskId));
  const collect = (value: unknown): void => {
    for (const item of listOr(value)) collect(item);
    const id = idOf(value);
    if (id !== null) named.add(id);
  };
  for (const [name, value] of new URLSearchParams(query))
    if (taskMember.test(name.normalize("NFKC"))) value.split(",").forEach(collect);
  for (const { valueStart, valueEnd } of membersNamed(body, (name) => taskMember.test(name.normalize("NFKC")))) {
    collect(parseExactly(body.toString("utf8", valueStart, valueEnd)));
  }
  return named;
}

/** An id is a path's segment and a database's key, so it is short. */
const taskIdPattern = /^[\x21-\x7e]{1,200}$/;

export function isTaskId(text: string): boolean {
  return taskIdPattern.test(text) && !/[/\\?#%]/.test(text) && !/^\.{1,2}$/.test(text);
}

function idOf(value: unknown): string | null {
  const text = value instanceof Digits ? value.text : value;
  return typeof text === "string" && isTaskId(text) ? text : null;
}

const statusWords: Readonly<Record<string, TaskStatus>> = {
  pending: "pending",
  staged: "pending",
  queued: "pending",
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

/** An ISO 8601 time, or seconds since 1970; null for the zero time of year 1, for "" and for what is none. */
function timeOf(value: unknown): number | null {
  if (value instanceof Digits) {
    const seconds = Number(value.text);
    return seconds > 0 && seconds < 1e11 ? Math.round(seconds * 1000) : null;
  }
  if (typeof value !== "string" || !/^\d{4}-\d{2}-\d{2}T/.test(value)) return null;
  const at = Date.parse(value);
  return Number.isNaN(at) || at <= 0 ? null : at;
}

/** `meta.usage` of the unified form, else the credits of the envelope form. */
function consumptionOf(meta: JsonObject, result: JsonObject): Consumption | null {
  const usage = objectOr(meta["usage"]);
  const consumed = decimalOf(usage["consume"]);
  if (consumed !== null)
    return { type: typeof usage["type"] === "string" ? typeWord(usage["type"]) : "", units: consumed };
  const credits = decimalOf(result["used_credits"]);
  return credits === null ? null : { type: usedCredits, units: credits };
}

/** Type of the envelope form's credits, whose worth the catalogue's `task_units` may state. */
const usedCredits = "used_credits";

/** A type is a word that is written down with the task; a text of another kind is none. */
function typeWord(text: string): string {
  const word = text.trim().toLowerCase();
  return namePattern.test(word) ? word : "";
}

/** A number as it was written, or a text of one. Below zero is nothing that was used. */
function decimalOf(value: unknown): string | null {
  const text = value instanceof Digits ? value.text : value;
  return typeof text === "string" ? (plainDecimal(text) ?? null) : null;
}

function errorTexts(data: JsonObject, result: JsonObject): string[] {
  const { raw_message: raw, message, detail } = objectOr(data["error"]);
  const plain = typeof data["error"] === "string" ? data["error"] : undefined;
  const texts = [message, raw, plain, ...listOr(result["error_messages"]), detailText(detail)];
  return texts
    .filter((text): text is string => typeof text === "string" && text.trim() !== "")
    .map((text) => text.slice(0, errorCharsMax));
}

/** Longest error text that is searched for its meaning. */
const errorCharsMax = 2000;

function detailText(detail: unknown): string | undefined {
  if (typeof detail === "string") return detail;
  return isObject(detail) && typeof detail["message"] === "string" ? detail["message"] : undefined;
}

/** Any code other than 0 is an error. */
function statesCode(code: unknown): boolean {
  if (code instanceof Digits) return !/^-?0+(?:\.0+)?$/.test(code.text);
  return typeof code === "string" && code !== "" && code !== "0";
}

/** A number in the digits in which it was written. */
class Digits {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Parsed JSON with every number as it was written, because money must not pass through a float; undefined for no JSON. */
function parseExactly(text: string): unknown {
  const keepDigits = (_name: string, value: unknown, context?: { readonly source?: string }) =>
    typeof value === "number" ? new Digits(context?.source ?? String(value)) : value;
  try {
    return JSON.parse(text, keepDigits as (name: string, value: unknown) => unknown);
  } catch {
    return undefined;
  }
}

/** Envelope members that reveal nothing of other keys' tasks, unlike totals. */
const envelopeNames = new Set(["code", "message", "msg", "success", "timestamp", "page", "page_size"]);

/** Lists nest no deeper in any answer that is known. */
const depthMax = 16;

/**
 * Returns an answer that lists tasks with the records of these tasks alone, each as it was written, in the lists that they are in.
 * Whatever else it states, totals among it, is left out beside its envelope.
 */
export function withOwnRecordsOnly(answer: Buffer, own: ReadonlySet<string>): string {
  return kept(answer, own, 0) ?? "{}";
}

/** Undefined for what is left out. */
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
  if (members.some(({ name }) => equalFolded(name, "task_id")))
    return isOwn(value, own) ? value.toString("utf8") : undefined;
  const shown = members.flatMap(({ name, valueStart, valueEnd }) => {
    const text = envelopeNames.has(name) && depth < 2 ? plainText(value.subarray(valueStart, valueEnd)) : undefined;
    const inner = text ?? kept(value.subarray(valueStart, valueEnd), own, depth + 1);
    return inner === undefined ? [] : [`${JSON.stringify(name)}:${inner}`];
  });
  return `{${shown.join(",")}}`;
}

/** A number, a text or a flag, as it is written. */
function plainText(value: Buffer): string | undefined {
  const text = value.toString("utf8");
  return typeof parseJson(text) === "object" ? undefined : text;
}

/** Reports that a record, with all records in it, belongs only to these tasks. */
function isOwn(record: Buffer, own: ReadonlySet<string>): boolean {
  const ids = [...tasksNamed(record)];
  return ids.length > 0 && ids.every((id) => isTaskId(id) && own.has(id));
}
