import { ceilingMet, countTasks } from "../core/task-ceilings.ts";
import { sandboxCeilings } from "./account.ts";
import { charge, pause, refuseScenario, sendJson, type Call } from "./call.ts";
import { settleScenario } from "./chat.ts";
import { plainConsumption } from "./consumption.ts";
import { faultOf, serveFault } from "./faults.ts";
import { digest } from "./random.ts";
import { numberOf } from "./scenarios.ts";
import { creationAnswer, dataOf, recordOf, wordOf, type SandboxTask, type TaskConfig } from "./task-records.ts";

/** The tasks of a sandbox, by their ids. */
export type TaskHall = Map<string, SandboxTask>;

/** Tasks are kept up to this many, the newest. */
const tasksMax = 10_000;
/** A task waits a moment, and runs a while, unless a scenario says how long. Milliseconds. */
const waitMs = 500;
const runMs = 3_000;

/** `POST /api/v1/task`, and `GET` and `DELETE /api/v1/task/{task_id}`. */
export async function serveTasks(asked: Call): Promise<void> {
  const { options } = asked.house;
  if (asked.head.headers["x-api-key"] !== options.apiKey) return sendEnvelope(asked, 401, "unauthorized: invalid api key");
  const read = readCreation(asked);
  if (typeof read === "string") return sendEnvelope(asked, 400, read);
  const { call, request } = settleScenario(asked, { ...read, scenario: undefined });
  if (call === undefined) return refuseScenario(asked);
  if (!(await pause(numberOf(call.scenario, "latency") ?? options.latencyMs, call.gone))) return undefined;
  const fault = faultOf(call.scenario, call.redirects);
  if (fault !== undefined && "billed" in call.scenario && call.head.method === "POST") create(call, request);
  if (fault !== undefined) return serveFault(call, fault);
  const passed = call.head.method === "POST" && "ceilings" in call.scenario ? ceilingPassed(call, request) : null;
  if (passed !== null) return sendEnvelope(call, 429, passed);
  return call.head.method === "POST" ? sendJson(call, 200, creationAnswer(create(call, request), options.now())) : answerFor(call);
}

interface Creation {
  readonly model: string;
  readonly taskType: string;
  readonly input: unknown;
  readonly config: TaskConfig;
}

/** A text is what the gateway complains about. */
function readCreation(call: Call): Creation | string {
  if (call.head.method !== "POST") return { model: "", taskType: "", input: {}, config: noConfig };
  try {
    const { model, task_type: taskType, input = {}, config = {} } = JSON.parse(call.seen.body.toString()) as Record<string, unknown>;
    if (typeof model !== "string" || model === "") return "invalid request: model is required";
    if (typeof taskType !== "string") return "invalid request: task_type is required";
    const webhook = { endpoint: "", secret: "", ...(config as { webhook_config?: object }).webhook_config };
    return { model, taskType, input, config: { service_mode: "", ...(config as object), webhook_config: webhook } };
  } catch {
    return "invalid request: json syntax error";
  }
}

const noConfig: TaskConfig = { service_mode: "", webhook_config: { endpoint: "", secret: "" } };

function create(call: Call, { model, taskType, input, config }: Creation): SandboxTask {
  const { house, scenario } = call;
  const createdAt = house.options.now();
  const startsAt = createdAt + (numberOf(scenario, "task-wait") ?? waitMs);
  const task: SandboxTask = {
    id: digest(house.options.seed, "task", call.number).slice(0, 32).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-"),
    model,
    taskType,
    input,
    config,
    form: "conversation" in scenario ? "conversation" : "unified" in scenario ? "unified" : "answer",
    createdAt,
    startsAt,
    endsAt: "task-endless" in scenario ? Infinity : startsAt + (numberOf(scenario, "task-run") ?? runMs),
    failsWith: scenario["task-fails"] ?? null,
    usageType: scenario["usage-type"] ?? "llm",
    units: numberOf(scenario, "consume") ?? unitsFor(taskType, input),
    cancelledAt: null,
    // One that fails is billed only where the scenario says what it used.
    billed: scenario["task-fails"] === undefined || "consume" in scenario,
  };
  house.tasks.set(task.id, task);
  for (const oldest of house.tasks.keys()) {
    if (house.tasks.size <= tasksMax) break;
    house.tasks.delete(oldest);
  }
  billWhenOver(call, task);
  tellWhenOver(call, task);
  return task;
}

/** Its webhook is told when it has ended, unless it was cancelled. */
function tellWhenOver({ house, scenario }: Call, task: SandboxTask): void {
  if ("webhook-never" in scenario) return;
  const { webhooks, options } = house;
  const { endpoint, secret } = task.config.webhook_config;
  // As the task is at that instant: a timer may go off a little before its time, or late.
  const tell = (at: number) => (task.cancelledAt === null ? webhooks.tell({ endpoint, secret }, dataOf(task, at)) : Promise.resolve());
  let begun = Promise.resolve();
  if ("webhook-begins" in scenario) webhooks.after(task.startsAt - options.now(), () => (begun = tell(task.startsAt)));
  if (task.endsAt === Infinity) return;
  webhooks.after(task.endsAt - options.now(), async () => {
    await begun;
    await tell(task.endsAt);
    if ("webhook-twice" in scenario) await tell(task.endsAt);
  });
}

/** The ceiling that one more such task would pass, in the words of the gateway; null where it would pass none. */
function ceilingPassed({ house }: Call, creation: Creation): string | null {
  const now = house.options.now();
  const running = [...house.tasks.values()].filter((task) => task.cancelledAt === null && now < task.endsAt);
  const met = ceilingMet(sandboxCeilings, countTasks(running), creation);
  return met && `failed to create task: ${met.family === "all" ? "account" : met.family} concurrency limit ${met.limit} reached`;
}

/** USD 0.05 a second of video, 0.10 for music, 0.02 for all else, in ten millionths. */
function unitsFor(taskType: string, input: unknown): number {
  const duration = Number((input as { duration?: unknown } | null)?.duration ?? 5);
  if (/video/.test(taskType)) return 500_000 * Math.ceil(duration > 0 ? duration : 5);
  return /music/.test(taskType) ? 1_000_000 : 200_000;
}

/** Its books have a task from the moment that it ends. */
function billWhenOver(call: Call, task: SandboxTask): void {
  call.house.unbilled.add(() => {
    if (task.cancelledAt !== null) return true;
    if (call.house.options.now() < task.endsAt) return false;
    if (task.billed) charge(call, plainConsumption(call, { model: task.model, promptTokens: 0, units: task.units }));
    return true;
  });
}

/** Bills the tasks that have ended by now. */
export function billEndedTasks(unbilled: Set<() => boolean>): void {
  for (const bill of unbilled) if (bill()) unbilled.delete(bill);
}

function answerFor(call: Call): void {
  const { tasks, options } = call.house;
  const task = tasks.get(decodeURIComponent(call.path.slice("/api/v1/task/".length)));
  if (task === undefined) return sendEnvelope(call, 404, "task not found");
  const now = options.now();
  if (call.head.method === "DELETE") {
    if (wordOf(task, now) !== "pending") return sendEnvelope(call, 400, "failed to cancel: the task is not pending");
    task.cancelledAt = now;
  }
  return sendJson(call, 200, recordOf(task, now));
}

function sendEnvelope(call: Call, status: number, message: string): void {
  sendJson(call, status, { code: status, data: null, message });
}

