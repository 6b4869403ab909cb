import { exceededCeiling, countTasks } from "../core/tasks.ts";
import { sandboxCeilings } from "./account.ts";
import { charge, hasApiKey, refuseScenario, sendEnvelope, sendJson, type Call } from "./call.ts";
import { pause } from "./pause.ts";
import { resolveScenario } from "./chat.ts";
import { plainConsumption } from "./consumption.ts";
import { faultOf, serveFault } from "./faults.ts";
import { digest } from "./random.ts";
import { numberOf } from "./scenarios.ts";
import { familyPath, type FamilyPath } from "./families.ts";
import {
  creationAnswer,
  dataOf,
  enveloped,
  recordOf,
  acceptedAnswer,
  statusOf,
  type SandboxTask,
  type TaskConfig,
} from "./task-records.ts";

/** Largest number of tasks to keep. The oldest are dropped first. */
const tasksMax = 10_000;
/** Default time for which a task is pending, in milliseconds. */
const waitMs = 500;
/** Default time for which a task runs, in milliseconds. */
const runMs = 3_000;

/** Returns the action and the task of a request about tasks. Returns undefined for any other path. */
export function taskPath({ head: { method }, path }: Call): FamilyPath | undefined {
  if (method === "POST" && path === "/api/v1/task") return { ...unified, does: "create", taskId: null };
  const [, taskId] = /^\/api\/v1\/task\/([^/]+)$/.exec(path) ?? [];
  if (taskId !== undefined && (method === "GET" || method === "DELETE"))
    return { ...unified, does: method === "GET" ? "show" : "cancel", taskId };
  return familyPath(method, path);
}

const unified = {
  model: "",
  modelField: "model",
  typeField: "task_type",
  taskType: "",
  input: "input",
  answer: "envelope",
  form: "answer",
} as const;

/** Serves `/api/v1/task` for all families, and the families' own paths. */
export async function serveTasks(asked: Call, path: FamilyPath): Promise<void> {
  const { options } = asked.shared;
  if (!hasApiKey(asked)) return undefined;
  const isCreation = path.does === "create";
  const isUnified = asked.path.startsWith("/api/v1/");
  const read = readCreation(asked, path, isUnified);
  if (typeof read === "string") return sendEnvelope(asked, 400, read);
  const { call, request } = resolveScenario(asked, { ...read, scenario: undefined });
  if (call === undefined) return refuseScenario(asked);
  if (!(await pause(numberOf(call.scenario, "latency") ?? options.latencyMs, call.gone))) return undefined;
  const fault = faultOf(call.scenario, call.redirects);
  const form = isUnified ? null : path.form;
  if (fault !== undefined && "billed" in call.scenario && isCreation) create(call, request, form);
  if (fault !== undefined) return serveFault(call, fault);
  const exceeded = isCreation && "ceilings" in call.scenario ? ceilingMessage(call, request) : null;
  if (exceeded !== null) return sendEnvelope(call, 429, exceeded);
  const refused = call.scenario["task-refused"];
  if (isCreation && refused !== undefined) return sendJson(call, 200, { code: 10_001, data: null, message: refused });
  if (!isCreation) return answerFor(call, path);
  const task = create(call, request, form);
  return sendJson(call, 200, isUnified ? creationAnswer(task, options.now()) : acceptedAnswer(task, path.answer));
}

/** Serves `GET /api/open/tasks/histories`: all tasks of the account, newest first. */
export function serveHistory(call: Call): void {
  const { tasks, options } = call.shared;
  if (!hasApiKey(call)) return undefined;
  const query = new URLSearchParams(call.head.path.split("?")[1] ?? "");
  const page = Math.max(Number(query.get("page") ?? 1) || 1, 1);
  const size = Math.min(Math.max(Number(query.get("page_size") ?? 10) || 10, 1), 100);
  const all = [...tasks.values()].toReversed();
  const shown = all.slice((page - 1) * size, page * size).map((task) => dataOf(task, options.now()));
  return sendJson(call, 200, enveloped({ tasks: shown, total: all.length, page, page_size: size }));
}

/** Serves `POST /api/ephemeral_resource`: accepts a file and returns its address. */
export function serveUpload(call: Call): void {
  if (!hasApiKey(call)) return undefined;
  const { file_name: name, file_data: data } = parsed(call.seen.body);
  if (typeof name !== "string" || typeof data !== "string")
    return sendEnvelope(call, 400, "Invalid request parameters");
  const url = `https://media.sandbox.example/${digest(call.shared.options.seed, "upload", call.number).slice(0, 16)}-${encodeURIComponent(name)}`;
  return sendJson(call, 200, enveloped({ url }));
}

function parsed(body: Buffer): Record<string, unknown> {
  const value: unknown = JSON.parse(body.length === 0 ? "{}" : body.toString());
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

interface Creation {
  readonly model: string;
  readonly taskType: string;
  readonly input: unknown;
  readonly config: TaskConfig;
}

/**
 * Reads the creation of a task. Returns an error message if it is not valid. For other actions, returns an empty
 * creation.
 */
function readCreation(call: Call, path: FamilyPath, isUnified: boolean): Creation | string {
  if (path.does !== "create") return { model: "", taskType: "", input: {}, config: noConfig };
  try {
    const body = parsed(call.seen.body);
    // The model of every creation may name a scenario, even on a path that does not use the model.
    const model = body[path.modelField ?? "model"] ?? (path.model || undefined);
    const taskType = (path.typeField === undefined ? undefined : body[path.typeField]) ?? (path.taskType || undefined);
    if (typeof model !== "string" || model === "") return "invalid request: model is required";
    if (typeof taskType !== "string") return "invalid request: task_type is required";
    const input = path.input === undefined ? body : (body[path.input] ?? {});
    const config = (isUnified ? body["config"] : {}) ?? {};
    const webhook = { endpoint: "", secret: "", ...(config as { webhook_config?: object }).webhook_config };
    return { model, taskType, input, config: { service_mode: "", ...(config as object), webhook_config: webhook } };
  } catch {
    return "invalid request: json syntax error";
  }
}

const noConfig: TaskConfig = { service_mode: "", webhook_config: { endpoint: "", secret: "" } };

function create(
  call: Call,
  { model, taskType, input, config }: Creation,
  form: SandboxTask["form"] | null,
): SandboxTask {
  const { shared, scenario } = call;
  const createdAt = shared.options.now();
  const startsAt = createdAt + (numberOf(scenario, "task-wait") ?? waitMs);
  const task: SandboxTask = {
    id: digest(shared.options.seed, "task", call.number)
      .slice(0, 32)
      .replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-"),
    model,
    taskType,
    input,
    config,
    form: "conversation" in scenario ? "conversation" : "unified" in scenario ? "unified" : (form ?? "answer"),
    createdAt,
    startsAt,
    endsAt: "task-endless" in scenario ? Infinity : startsAt + (numberOf(scenario, "task-run") ?? runMs),
    failsWith: scenario["task-fails"] ?? null,
    usageType: scenario["usage-type"] ?? "llm",
    units: numberOf(scenario, "consume") ?? unitsFor(taskType, input),
    cancelledAt: null,
    // A failed task is billed only if the scenario states its consumption.
    billed: scenario["task-fails"] === undefined || "consume" in scenario,
  };
  shared.tasks.set(task.id, task);
  for (const oldest of shared.tasks.keys()) {
    if (shared.tasks.size <= tasksMax) break;
    shared.tasks.delete(oldest);
  }
  billAtEnd(call, task);
  notifyAtEnd(call, task);
  return task;
}

/** Calls the webhook when the task ends, unless it was cancelled. */
function notifyAtEnd({ shared, scenario }: Call, task: SandboxTask): void {
  if ("webhook-never" in scenario) return;
  const { webhooks, options } = shared;
  const { endpoint, secret } = task.config.webhook_config;
  // Use the planned instant: the timer may fire a little early or late.
  const send = (at: number) =>
    task.cancelledAt === null ? webhooks.send({ endpoint, secret }, dataOf(task, at)) : Promise.resolve();
  let begun = Promise.resolve();
  if ("webhook-begins" in scenario) webhooks.after(task.startsAt - options.now(), () => (begun = send(task.startsAt)));
  if (task.endsAt === Infinity) return;
  webhooks.after(task.endsAt - options.now(), async () => {
    await begun;
    await send(task.endsAt);
    if ("webhook-twice" in scenario) await send(task.endsAt);
  });
}

/** Returns the gateway's message about the ceiling that this task would exceed; null if it exceeds none. */
function ceilingMessage({ shared }: Call, creation: Creation): string | null {
  const now = shared.options.now();
  const running = [...shared.tasks.values()].filter((task) => task.cancelledAt === null && now < task.endsAt);
  const exceeded = exceededCeiling(sandboxCeilings, countTasks(running), creation);
  return (
    exceeded &&
    `failed to create task: ${exceeded.family === "all" ? "account" : exceeded.family} concurrency limit ${exceeded.limit} reached`
  );
}

/**
 * Returns the price of a task, in ten-millionths of a US dollar: USD 0.05 per second of video, 0.10 for music, 0.02
 * otherwise.
 */
function unitsFor(taskType: string, input: unknown): number {
  const duration = Number((input as { duration?: unknown } | null)?.duration ?? 5);
  if (/video/.test(taskType)) return 500_000 * Math.ceil(duration > 0 ? duration : 5);
  return /music/.test(taskType) ? 1_000_000 : 200_000;
}

/** Registers the task for billing. The first call of `billEndedTasks` after the end of the task bills it. */
function billAtEnd(call: Call, task: SandboxTask): void {
  call.shared.unbilled.add(() => {
    if (task.cancelledAt !== null) return true;
    if (call.shared.options.now() < task.endsAt) return false;
    if (task.billed) charge(call, plainConsumption(call, { model: task.model, promptTokens: 0, units: task.units }));
    return true;
  });
}

/** Bills the tasks that have ended. */
export function billEndedTasks(unbilled: Set<() => boolean>): void {
  for (const bill of unbilled) if (bill()) unbilled.delete(bill);
}

function answerFor(call: Call, path: FamilyPath): void {
  const { tasks, options } = call.shared;
  const taskId = path.taskId === null ? parsed(call.seen.body)["task_id"] : decodeURIComponent(path.taskId);
  const task = typeof taskId === "string" ? tasks.get(taskId) : undefined;
  if (task === undefined) return sendEnvelope(call, 404, "task not found");
  const now = options.now();
  if (path.does === "cancel") {
    if (statusOf(task, now) !== "pending") return sendEnvelope(call, 400, "failed to cancel: the task is not pending");
    task.cancelledAt = now;
  }
  return sendJson(call, 200, recordOf(task, now));
}
