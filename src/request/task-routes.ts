import type { RouteMatch, TaskRoute } from "../core/task-routes.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { Exchange } from "../ports/exchange.ts";
import { inspectObject, invalid } from "../wire/model-request.ts";
import { RequestFields } from "../wire/findings.ts";
import { isTaskId } from "../wire/task.ts";
import { readFields, readTaskRequest, type TaskRequest } from "../wire/task-request.ts";
import { refuse, withKey, type Handler, type Summary } from "./handler.ts";
import { createTask, type CreationPath } from "./task-creation.ts";
import { cancelTask, listTasks, retrieveTask, type AskedOf, type TaskSteps } from "./tasks.ts";

/** Reports whether a request is one of a route of the price files, or of a path that a gateway might take for one. */
export function isRouted(catalogue: () => Catalogue): (method: string, path: string) => boolean {
  return (method, path) => catalogue().route(method, path) !== undefined;
}

/** Answers the requests of routes that price files state; another spelling of one goes nowhere. */
export function routedTasks(steps: TaskSteps, catalogue: () => Catalogue): Handler {
  const handlers = new WeakMap<TaskRoute, Handler>();
  const handlerOf = (route: TaskRoute): Handler => {
    const known = handlers.get(route) ?? forItsKeys(steps, route, handlerFor(steps, route));
    handlers.set(route, known);
    return known;
  };
  return async (exchange) => {
    const match = catalogue().route(exchange.method, exchange.path);
    if (match?.kind !== "route")
      return refuse(exchange, { code: "not_found", message: match === undefined ? noPath : spelling(match) });
    const summary = await handlerOf(match.route)(exchange);
    return { ...summary, route: match.route.path };
  };
}

const noPath = "There is no such path.";

function spelling({ route }: RouteMatch): string {
  return `This path must be asked for as ${route.method} ${route.path}.`;
}

function handlerFor(steps: TaskSteps, route: TaskRoute): Handler {
  switch (route.does) {
    case "create":
      return createTask(steps, creationOf(route));
    case "upload":
    case "setting":
      return createTask(steps, freeOf(route));
    case "retrieve":
      return retrieveTask(steps, askedOf(route));
    case "cancel":
      return cancelTask(steps, askedOf(route));
    case "list":
      return listTasks(steps);
  }
}

/** A route that only some keys may use is none to all others. */
function forItsKeys({ authenticate }: TaskSteps, { keys }: TaskRoute, handle: Handler): Handler {
  if (keys === null) return handle;
  return withKey(authenticate, async (exchange, { key }): Promise<Summary> => {
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

/** Its body is not read: it may be a file. */
function freeOf({ path, does }: TaskRoute): CreationPath {
  const request: TaskRequest = { model: does, taskType: null, others: [], stated: () => ["absent"] };
  return {
    route: path,
    read: () => ({ ok: true, request }),
    fields: [],
    taskSegment: null,
    isFree: true,
    hasWebhook: false,
  };
}

/** More tasks than this are not asked for at once. */
const askedMax = 100;

function askedOf(route: TaskRoute): AskedOf {
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
        asked: { taskIds: values.flatMap((value) => value.split(",")).slice(0, askedMax + 1), path, body: undefined },
        release: () => {},
      };
    }
    return readAsked(exchange, taskField, fields);
  };
}

async function readAsked(exchange: Exchange, field: string, fields: RequestFields): ReturnType<AskedOf> {
  const body = await exchange.readBody();
  if (!body.ok) return body;
  const look = inspectObject(body.bytes, fields);
  const value = look.ok ? look.body[field] : undefined;
  const taskIds = (Array.isArray(value) ? value : [value]).map((id: unknown) =>
    typeof id === "number" ? String(id) : id,
  );
  if (
    look.ok &&
    taskIds.length <= askedMax &&
    taskIds.every((id): id is string => typeof id === "string" && isTaskId(id))
  ) {
    return { ok: true, asked: { taskIds, path: exchange.path, body: body.bytes }, release: body.release };
  }
  body.release();
  return look.ok ? invalid(field, `'${field}' must be the id of a task, or a list of at most ${askedMax}`) : look;
}
