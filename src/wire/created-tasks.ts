import type { StatedError } from "../core/settlement.ts";
import type { TaskRecord } from "../core/tasks.ts";
import { isObject, listOr, parseJson, type JsonObject } from "./json.ts";
import { folded, hasOnlyError, readStatedError, saysAccepted, statedError } from "./stated-error.ts";
import { Digits, idOf, parseExactly, readTaskRecord, recordIn, recordMembers } from "./task.ts";

export type CreatedTask = TaskRecord & { readonly taskId: string };

/** Tasks that the answer to a creation names. */
export interface CreatedTasks {
  /** In the order of the answer. Each id occurs once. */
  readonly tasks: readonly CreatedTask[];
  /**
   * Kind of the members with the ids. `task`: a name such as `task_id`. `text`: `data` or `result`, with a text that
   * looks like an id. `id`: a name such as `id`, which may also be the id of something else.
   */
  readonly by: "task" | "text" | "id";
}

const noTasks: CreatedTasks = { tasks: [], by: "task" };

/** Names of members that contain the id of a task in the answer to its creation, in addition to `task_id`. */
const jobIdName = /^(?:task|job|generation|prediction)(?:uu)?ids?$/;
const idName =
  /^(?:u?u?id|ids|(?:video|image|audio|music|song|clip|render|inference|execution|operation|process)(?:uu)?ids?)$/;
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
  if (found.tasks.length > 0) return once(found.tasks, "task");
  if (found.texts.length > 0) return once(found.texts, "text");
  if (found.ids.length > 0) return once(found.ids, "id");
  return isPlainObject(root) ? once(requestIn(root), "id") : noTasks;
}

function once(tasks: readonly CreatedTask[], by: CreatedTasks["by"]): CreatedTasks {
  if (tasks.length === 0) return noTasks;
  const byId = new Map(tasks.toReversed().map((task) => [task.taskId, task]));
  return { tasks: [...new Set(tasks.map(({ taskId }) => taskId))].map((id) => byId.get(id) as CreatedTask), by };
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
  const record = recordIn(value);
  const named = (isName: (name: string) => boolean) =>
    Object.entries(value).flatMap(([name, each]) => (isName(folded(name)) ? idsOf(each, record) : []));
  const members = Object.entries(value).flatMap(([name, each]) => {
    const member = folded(name);
    if (typeof each === "object" && jobMembers.has(member)) return [asJobs(each, depth)];
    const mayBeId = textMembers.has(member) || (typeof each === "object" && !(each instanceof Digits));
    return mayBeId && recordMembers.has(member) ? [tasksIn(each, depth + 1)] : [];
  });
  const tasks = [...named((name) => jobIdName.test(name)), ...members.flatMap((inner) => inner.tasks)];
  const texts = members.flatMap((inner) => inner.texts);
  const inner = members.flatMap(({ ids }) => ids);
  return { tasks, texts, ids: inner.length > 0 ? inner : named((name) => idName.test(name)) };
}

/** Returns the ids in the records of a list. A record that names its task otherwise than its neighbors names one too. */
function inList(items: readonly Found[]): Found {
  const best = (item: Found) => [item.tasks, item.texts, item.ids].find((each) => each.length > 0) ?? [];
  if (items.some(({ tasks }) => tasks.length > 0)) return { ...nothing, tasks: items.flatMap(best) };
  if (items.some(({ texts }) => texts.length > 0)) return { ...nothing, texts: items.flatMap(best) };
  return { ...nothing, ids: items.flatMap(({ ids }) => ids) };
}

/** Returns the ids in a record or list that is named after tasks. All of them are ids of tasks. */
function asJobs(value: unknown, depth: number): Found {
  const { tasks, texts, ids } = tasksIn(value, depth + 1);
  const inner = [tasks, ids, texts].find((each) => each.length > 0) ?? [];
  return { ...nothing, tasks: [...idsOf(listOr(value)), ...inner] };
}

/** Returns the tasks whose ids a member contains: an id, or a list of ids. */
function idsOf(value: unknown, record: TaskRecord = pending("")): readonly CreatedTask[] {
  if (Array.isArray(value)) return value.flatMap((each) => (isPlainObject(each) ? [] : idsOf(each)));
  const id = value instanceof Digits && !/^\d+$/.test(value.text) ? null : idOf(value);
  return id === null ? [] : [{ ...record, taskId: id }];
}

/** Returns the task of an answer that names only a request, which is then the id of the task if it runs. */
function requestIn(root: JsonObject): readonly CreatedTask[] {
  const record = recordIn(root);
  if (record.status !== "pending" && record.status !== "running") return [];
  return Object.entries(root).flatMap(([name, each]) => (folded(name) === requestIdName ? idsOf(each, record) : []));
}

function pending(taskId: string): CreatedTask {
  return { ...recordIn({}), taskId, status: "pending" };
}

function isPlainObject(value: unknown): value is JsonObject {
  return isObject(value) && !(value instanceof Digits);
}

/** Returns true for a text with a digit, such as a UUID; false for words, dates, and numbers of less than six digits. */
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
 * message that the task was accepted. If it states an HTTP error status, only the name of a task and a consumption count.
 * The record of a failed task without an id is an error.
 */
export function readCreationError(text: Buffer): StatedError | undefined {
  const { tasks, by } = readCreatedTasks(text);
  if (tasks.length > 0 && by === "task") return undefined;
  const record = readTaskRecord(text);
  if (record?.consumption != null && record.consumption.units !== "0") return undefined;
  const hasFailed = record?.status === "failed" || record?.status === "cancelled";
  const answer = parseJson(text.toString());
  const error = readStatedError(answer, hasFailed) ?? (hasFailed ? statedError(record.errors, []) : undefined);
  if (error === undefined || error.status !== null) return error;
  return tasks.length === 0 && (hasFailed || hasOnlyError(answer)) && !saysAccepted(answer) ? error : undefined;
}
