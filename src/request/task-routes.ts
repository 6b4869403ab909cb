import type { RouteMatch, TaskRoute } from "../core/task-routes.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import { type Exchange, refuse, type Handler, type Summary } from "../ports/exchange.ts";
import { invalid } from "../core/refusals.ts";
import { inspectObject } from "../wire/model-request.ts";
import { RequestFields } from "../wire/findings.ts";
import { isTaskId } from "../wire/task.ts";
import { readFields, readTaskRequest, type TaskRequest } from "../wire/task-request.ts";
import { withKey } from "./authenticate.ts";
import { createTask, type CreationPath } from "./task-creation.ts";
import { cancelTask, listTasks, retrieveTask, type ReadAskedTasks, type TaskSteps } from "./task-retrieval.ts";

/**
 * Returns a function that checks a method and a path. It returns true for a route of the price files, and for another
 * spelling of a route that a gateway may accept.
 */
export function isRouted(catalogue: () => Catalogue): (method: string, path: string) => boolean {
  return (method, path) => catalogue().route(method, path) !== undefined;
}

/** Returns a handler for the routes of price files. Requests with another spelling of a route get 404. */
export function routedTasks(steps: TaskSteps, catalogue: () => Catalogue): Handler {
  const handlers = new WeakMap<TaskRoute, Handler>();
  const handlerOf = (route: TaskRoute): Handler => {
    const known = handlers.get(route) ?? onlyForItsKeys(steps, route, handlerFor(steps, route));
    handlers.set(route, known);
    return known;
  };
  return async (exchange) => {
    const match = catalogue().route(exchange.method, exchange.path);
    if (match?.kind !== "route")
      return refuse(exchange, { code: "not_found", message: match === undefined ? noPath : spellingMessage(match) });
    const summary = await handlerOf(match.route)(exchange);
    return { ...summary, route: match.route.path };
  };
}

const noPath = "There is no such path.";

function spellingMessage({ route }: RouteMatch): string {
  return `Request this path as ${route.method} ${route.path}.`;
}

function handlerFor(steps: TaskSteps, route: TaskRoute): Handler {
  switch (route.does) {
    case "create":
      return createTask(steps, creationOf(route));
    case "upload":
    case "setting":
      return createTask(steps, freeCreationOf(route));
    case "retrieve":
      return retrieveTask(steps, route.path, askedTasksReader(route));
    case "cancel":
      return cancelTask(steps, route.path, askedTasksReader(route));
    case "list":
      return listTasks(steps, route.path);
  }
}

/** Returns a handler that answers 404 to keys that may not use the route. */
function onlyForItsKeys({ authenticate }: TaskSteps, { keys, path }: TaskRoute, handle: Handler): Handler {
  if (keys === null) return handle;
  return withKey(authenticate, path, async (exchange, { key }): Promise<Summary> => {
    return key !== null && keys.includes(key.name)
      ? handle(exchange)
      : refuse(exchange, { code: "not_found", message: noPath });
  });
}

function creationOf(route: TaskRoute): CreationPath {
  return {
    route: route.path,
    read: (body) => readTaskRequest(body, route),
    fields: readFields(route),
    taskSegment: taskSegmentOf(route),
    isFree: false,
    hasWebhook: false,
  };
}

function taskSegmentOf({ path }: TaskRoute): number | null {
  const at = path.split("/").indexOf("{task_id}");
  return at === -1 ? null : at;
}

/** Returns the creation path of an upload or a setting. Its body is not read, because it may be a file. */
function freeCreationOf({ path, does }: TaskRoute): CreationPath {
  const request: TaskRequest = { model: does, taskType: null, others: [], stated: () => ["absent"], user: null };
  return {
    route: path,
    read: () => ({ ok: true, request }),
    fields: [],
    taskSegment: null,
    isFree: true,
    hasWebhook: false,
  };
}

/** Largest number of tasks in one request. */
const askedTasksMax = 100;

function askedTasksReader(route: TaskRoute): ReadAskedTasks {
  const { method, taskField } = route;
  const fields = new RequestFields(taskField === null ? {} : { [taskField]: "priced" });
  return async (exchange) => {
    const path = exchange.path;
    if (taskField === null) {
      const taskId = decodeURIComponent(path.split("/")[taskSegmentOf(route) ?? -1] ?? "");
      return { ok: true, asked: { taskIds: [taskId], path, body: undefined }, release: () => {} };
    }
    if (method === "GET") {
      const values = new URLSearchParams(exchange.query).getAll(taskField);
      return {
        ok: true,
        asked: {
          taskIds: values.flatMap((value) => value.split(",")).slice(0, askedTasksMax + 1),
          path,
          body: undefined,
        },
        release: () => {},
      };
    }
    return readAsked(exchange, taskField, fields);
  };
}

async function readAsked(exchange: Exchange, field: string, fields: RequestFields): ReturnType<ReadAskedTasks> {
  const body = await exchange.readBody();
  if (!body.ok) return body;
  const inspected = inspectObject(body.bytes.whole, fields);
  const value = inspected.ok ? inspected.body[field] : undefined;
  const taskIds = (Array.isArray(value) ? value : [value]).map((id: unknown) =>
    typeof id === "number" ? String(id) : id,
  );
  if (
    inspected.ok &&
    taskIds.length <= askedTasksMax &&
    taskIds.every((id): id is string => typeof id === "string" && isTaskId(id))
  ) {
    return { ok: true, asked: { taskIds, path: exchange.path, body: body.bytes.whole }, release: body.release };
  }
  body.release();
  return inspected.ok
    ? invalid(field, `'${field}' must be the id of a task, or a list of at most ${askedTasksMax}`)
    : inspected;
}
