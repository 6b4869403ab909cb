import type { StatedError } from "../core/settlement.ts";
import type { TaskRecord } from "../core/tasks.ts";
import { isObject, listOr, objectOr, parseJson, type JsonObject } from "./json.ts";
import { plainName, hasOnlyError, readStatedError, saysAccepted, statedError } from "./stated-error.ts";
import { Digits, idOf, parseExactly, readTaskRecord, taskRecordIn, recordMembers } from "./task.ts";

export interface CreatedTask extends TaskRecord {
  readonly taskId: string;
  /** True if the id is in a member such as `id` of a record named after tasks. It may be the id of a kind of task. */
  readonly isPlainId?: true;
}

/** Tasks that the answer to a creation names. */
export interface CreatedTasks {
  /** In the order of the answer. Each id occurs once. */
  readonly tasks: readonly CreatedTask[];
  /**
   * Kind of the members with the ids. `task`: a name such as `task_id`. `text`: `data` or `result`, with a text that
   * looks like an id. `id`: a name such as `id`, which may also be the id of something else.
   */
  readonly idKind: "task" | "text" | "id";
}

const noTasks: CreatedTasks = { tasks: [], idKind: "task" };

/** Names of members that contain the id of a task in the answer to its creation, in addition to `task_id`. */
const jobIdName = /^(?:task|job|generation|prediction)(?:uu)?ids?$/;
const idName =
  /^(?:u?u?id|ids|(?:video|image|audio|music|song|clip|render|inference|execution|operation|process)(?:uu)?ids?)$/;
/** Names that decide which of several ids in a record is that of the task. */
const mainNames: ReadonlySet<string> = new Set(["task_id", "id"].map(plainName));
const requestIdName = "requestid";
/** Members in which any `id` is the id of a task. */
const jobMembers: ReadonlySet<string> = new Set(
  "task tasks job jobs prediction predictions generation generations".split(" "),
);
/** Members that may contain an id as a text. */
const textMembers: ReadonlySet<string> = new Set(["data", "result"]);
/** Largest depth at which ids are searched. */
const depthMax = 8;

/**
 * Returns the tasks that the answer to a creation names: one record, a list of records or of ids, or both. Ids in
 * members named after tasks take precedence over other ids, because an answer may also have ids of tracks or requests.
 */
export function readCreatedTasks(text: Buffer): CreatedTasks {
  const root = parseExactly(text.toString());
  const found = tasksIn(root, 0);
  if (found.tasks.length > 0) return withoutRepeats(found.tasks, "task");
  if (found.texts.length > 0) return withoutRepeats(found.texts, "text");
  if (found.ids.length > 0) return withoutRepeats(found.ids, "id");
  return isPlainObject(root) ? withoutRepeats(requestIn(root), "id") : noTasks;
}

function withoutRepeats(tasks: readonly CreatedTask[], idKind: CreatedTasks["idKind"]): CreatedTasks {
  if (tasks.length === 0) return noTasks;
  const byId = new Map(tasks.toReversed().map((task) => [task.taskId, task]));
  return {
    tasks: [...new Set(tasks.map(({ taskId }) => taskId))].map((id) => byId.get(id) as CreatedTask),
    idKind,
  };
}

interface Found {
  readonly tasks: readonly CreatedTask[];
  readonly texts: readonly CreatedTask[];
  readonly ids: readonly CreatedTask[];
}

const nothing: Found = { tasks: [], texts: [], ids: [] };

function tasksIn(value: unknown, depth: number): Found {
  if (depth > depthMax) return nothing;
  if (Array.isArray(value)) return inList(value.map((item) => tasksIn(item, depth + 1)));
  if (!isPlainObject(value)) {
    const id = idOf(value);
    return id !== null && looksLikeId(id) ? { ...nothing, texts: [pending(id)] } : nothing;
  }
  const record = taskRecordIn(value);
  const named = (names: RegExp) => idsNamed(value, names, record);
  const members = Object.entries(value).flatMap(([name, each]) => {
    const member = plainName(name);
    if (typeof each === "object" && jobMembers.has(member)) return [asJobs(each, depth)];
    if (member === "output" && isPlainObject(each)) return [{ ...nothing, tasks: tasksIn(each, depth + 1).tasks }];
    const mayBeId = textMembers.has(member) || (typeof each === "object" && !(each instanceof Digits));
    return mayBeId && recordMembers.has(member) ? [tasksIn(each, depth + 1)] : [];
  });
  const tasks = [...named(jobIdName), ...members.flatMap((inner) => inner.tasks)];
  const texts = members.flatMap((inner) => inner.texts);
  const innerIds = members.flatMap(({ ids }) => ids);
  return { tasks, texts, ids: innerIds.length > 0 ? innerIds : named(idName) };
}

/**
 * Returns the ids in a record's members whose names match. Two members with one id each, such as `task_id` and
 * `job_id`, name the same task. Its id is then in `task_id` or `id`, or else in the first member.
 */
function idsNamed(record: JsonObject, names: RegExp, taskRecord: TaskRecord): readonly CreatedTask[] {
  const members = Object.entries(record)
    .map(([name, value]) => ({ name: plainName(name), value }))
    .filter(({ name }) => names.test(name));
  const found = members.flatMap(({ name, value }) =>
    Array.isArray(value) ? [] : idsOf(value, taskRecord).map((task) => ({ name, task })),
  );
  const one = found.find(({ name }) => mainNames.has(name)) ?? found[0];
  const lists = members.flatMap(({ value }) => (Array.isArray(value) ? idsOf(value) : []));
  return one === undefined ? lists : [one.task, ...lists];
}

/** Returns the ids in the records of a list. Each record may name its task in a different way. */
function inList(items: readonly Found[]): Found {
  const best = (item: Found) => [item.tasks, item.texts, item.ids].find((each) => each.length > 0) ?? [];
  if (items.some(({ tasks }) => tasks.length > 0)) return { ...nothing, tasks: items.flatMap(best) };
  if (items.some(({ texts }) => texts.length > 0)) return { ...nothing, texts: items.flatMap(best) };
  return { ...nothing, ids: items.flatMap(({ ids }) => ids) };
}

/** Returns the ids in a record or list that is named after tasks. All of them are ids of tasks. */
function asJobs(value: unknown, depth: number): Found {
  const { tasks, texts, ids } = tasksIn(value, depth + 1);
  const plain = (ids.length > 0 ? ids : texts).map((task) => ({ ...task, isPlainId: true as const }));
  return { ...nothing, tasks: [...idsOf(listOr(value)), ...(tasks.length > 0 ? tasks : plain)] };
}

/** Returns the tasks whose ids a member contains: an id, or a list of ids. */
function idsOf(value: unknown, record: TaskRecord = pending("")): readonly CreatedTask[] {
  if (Array.isArray(value)) return value.flatMap((each) => (isPlainObject(each) ? [] : idsOf(each)));
  const id = value instanceof Digits && !/^\d+$/.test(value.text) ? null : idOf(value);
  return id === null ? [] : [{ ...record, taskId: id }];
}

/** Returns the task of an answer that has only a request id. If the task runs, this is its id. */
function requestIn(root: JsonObject): readonly CreatedTask[] {
  const record = taskRecordIn(root);
  if (record.status !== "pending" && record.status !== "running") return [];
  return Object.entries(root).flatMap(([name, each]) => (plainName(name) === requestIdName ? idsOf(each, record) : []));
}

function pending(taskId: string): CreatedTask {
  return { ...taskRecordIn({}), taskId, status: "pending" };
}

function isPlainObject(value: unknown): value is JsonObject {
  return isObject(value) && !(value instanceof Digits);
}

/**
 * Returns true for a text with a digit, such as a UUID; false for words, dates, and numbers of less than six digits.
 */
function looksLikeId(text: string): boolean {
  if (/^[\d.+-]+$/.test(text)) return /^\d{6,}$/.test(text);
  return text.length >= 3 && /^[\w.:=-]+$/.test(text) && /\d/.test(text) && !/^\d{4}-\d\d-\d\dT/.test(text);
}

/** Returns true if the envelope of an answer says that the request was accepted. */
export function isAccepted(text: Buffer): boolean {
  const answer = parseJson(text.toString());
  return readStatedError(answer, true) === undefined || saysAccepted(answer);
}

/**
 * Reads the error in an answer to a creation, such as `{"code":10001,"data":null}`; undefined for any other answer. An
 * answer is an error only if it contains nothing else: no id that may be that of a task, no consumption above 0, no
 * message that the task was accepted. If the answer states an HTTP error status, only a task's id under a task's name
 * and a consumption make it no error. From status 500, any id of a running task does so too: the gateway may have
 * created the task before it failed. The record of a failed task without an id is an error.
 */
export function readCreationError(text: Buffer): StatedError | undefined {
  const { tasks, idKind } = readCreatedTasks(text);
  if (tasks.length > 0 && idKind === "task") return undefined;
  const record = readTaskRecord(text);
  if (record?.consumption != null && record.consumption.units !== "0") return undefined;
  const hasFailed = record?.status === "failed" || record?.status === "cancelled";
  const answer = parseJson(text.toString());
  const error = readStatedError(answer, hasFailed) ?? (hasFailed ? statedError(record.errors, []) : undefined);
  if (error === undefined) return undefined;
  const mayRun = tasks.some(({ status }) => status === "pending" || status === "running");
  if (error.status !== null) return error.status >= 500 && mayRun ? undefined : error;
  return tasks.length === 0 && (hasFailed || hasOnlyError(answer)) && !saysAccepted(answer) ? error : undefined;
}

/**
 * Reads the error in the envelope of an answer about a task; undefined for the record of a task, whose error says only
 * why the task failed.
 */
export function readEnvelopeError(text: Buffer): StatedError | undefined {
  const error = readCreationError(text);
  if (error === undefined || (readTaskRecord(text)?.status ?? "unknown") === "unknown") return error;
  const { data, ...envelope } = objectOr(parseJson(text.toString()));
  if (isObject(data)) return readStatedError(envelope, true);
  return readCreatedTasks(text).tasks.length === 0 ? error : undefined;
}
