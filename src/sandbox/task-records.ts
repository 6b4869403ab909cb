import type { Webhook } from "./webhooks.ts";
export interface TaskConfig {
  readonly service_mode: string;
  readonly webhook_config: Webhook;
}

/** Task in the sandbox's memory. Times are in Unix milliseconds. */
export interface SandboxTask {
  readonly id: string;
  readonly model: string;
  readonly taskType: string;
  readonly input: unknown;
  readonly config: TaskConfig;
  /**
   * Form of the record. `answer`: an envelope with the unified data. `unified`: a timestamp and the unified data.
   * `conversation`: an envelope with `task_info` and `task_result`. `root`: no envelope, as on Midjourney's own paths.
   */
  readonly form: "answer" | "unified" | "conversation" | "root";
  readonly createdAt: number;
  readonly startsAt: number;
  /** End of the task; Infinity if it never ends. */
  readonly endsAt: number;
  /** Error message of a task that fails; null for a task that completes. */
  readonly failsWith: string | null;
  readonly usageType: string;
  readonly units: number;
  cancelledAt: number | null;
  billed: boolean;
}

type TaskStatus = "pending" | "processing" | "completed" | "failed" | "cancelled";

export function statusOf(task: SandboxTask, now: number): TaskStatus {
  if (task.cancelledAt !== null) return "cancelled";
  if (now >= task.endsAt) return task.failsWith === null ? "completed" : "failed";
  return now >= task.startsAt ? "processing" : "pending";
}

/** Builds the task's record at an instant, in the task's form. */
export function recordOf(task: SandboxTask, now: number): Record<string, unknown> {
  if (task.form === "conversation") return enveloped(conversationData(task, now));
  if (task.form === "root") return rootRecord(task, now);
  const data = unifiedData(task, now);
  return task.form === "unified" ? { timestamp: Math.floor(now / 1000), data } : enveloped(data);
}

/** Wraps data in the gateway's envelope for success. */
export function enveloped(data: object): Record<string, unknown> {
  return { code: 200, data, message: "success" };
}

/** Builds a task's `data` for webhooks and for the history. */
export function dataOf(task: SandboxTask, now: number): object {
  return task.form === "conversation" ? conversationData(task, now) : unifiedData(task, now);
}

/** Builds the answer to a creation: the unified data in an envelope, even if the record later has another form. */
export function creationAnswer(task: SandboxTask, now: number): Record<string, unknown> {
  return enveloped(unifiedData(task, now));
}

/** Builds the answer to a creation on a family's own path: only the id. */
export function acceptedAnswer(task: SandboxTask, where: "root" | "envelope"): Record<string, unknown> {
  return where === "root" ? { task_id: task.id, status: "success", message: "" } : enveloped({ task_id: task.id });
}

function rootRecord(task: SandboxTask, now: number): Record<string, unknown> {
  const { status, meta, error } = unifiedData(task, now);
  const image = status === "completed" ? mediaUrl(task.id, "png") : "";
  return {
    task_id: task.id,
    status: status === "completed" ? "finished" : status,
    process_time: Math.max(Math.floor((Math.min(now, task.endsAt) - task.startsAt) / 1000), 0),
    meta,
    task_result: { image_url: image, error_messages: error.message === "" ? [] : [error.message] },
  };
}

const zeroTime = "0001-01-01T00:00:00Z";

function timesOf(task: SandboxTask, now: number) {
  const shown = (at: number) => (at <= now ? new Date(at).toISOString() : zeroTime);
  const hasStarted = task.cancelledAt === null || task.startsAt <= task.cancelledAt;
  return {
    created: new Date(task.createdAt).toISOString(),
    started: hasStarted ? shown(task.startsAt) : zeroTime,
    ended: shown(task.cancelledAt ?? task.endsAt),
  };
}

/**
 * Returns the frozen and consumed units. Units are frozen until the end. A failed task consumes them only if it is
 * billed.
 */
function unitsOf(task: SandboxTask, status: TaskStatus) {
  const isConsumed = status === "completed" || (status === "failed" && task.billed);
  return {
    frozen: status === "pending" || status === "processing" ? task.units : 0,
    consume: isConsumed ? task.units : 0,
  };
}

function unifiedData(task: SandboxTask, now: number) {
  const status = statusOf(task, now);
  const { created, started, ended } = timesOf(task, now);
  const message = status === "failed" ? (task.failsWith ?? "") : "";
  return {
    task_id: task.id,
    model: task.model,
    task_type: task.taskType,
    status,
    config: task.config,
    input: task.input,
    output: status === "completed" ? outputOf(task) : null,
    meta: {
      created_at: created,
      started_at: started,
      ended_at: ended,
      usage: { type: task.usageType, ...unitsOf(task, status) },
      is_using_private_pool: false,
    },
    detail: null,
    logs: [],
    error: { code: message === "" ? 0 : 10_000, raw_message: message, message, detail: null },
  };
}

function conversationData(task: SandboxTask, now: number) {
  const status = statusOf(task, now);
  const { created, started, ended } = timesOf(task, now);
  const { frozen, consume } = unitsOf(task, status);
  return {
    task_id: task.id,
    task_type: task.taskType,
    status: `${status.charAt(0).toUpperCase()}${status.slice(1)}`,
    task_info: {
      created_at: created,
      started_at: started,
      completed_at: ended,
      frozen_credits: frozen,
      task_input: task.input,
    },
    task_result: {
      used_credits: consume,
      error_messages: status === "failed" ? [task.failsWith ?? ""] : [],
      task_output: { image_base64: "", image_url: status === "completed" ? mediaUrl(task.id, "png") : "" },
    },
  };
}

function outputOf(task: SandboxTask): unknown {
  if (/music|suno/.test(`${task.model} ${task.taskType}`)) return [trackOf(task, 1), trackOf(task, 2)];
  if (/image|flux/.test(`${task.model} ${task.taskType}`)) return { image_url: mediaUrl(task.id, "png") };
  return { video: mediaUrl(task.id, "mp4") };
}

function mediaUrl(name: string, extension: string): string {
  return `https://media.sandbox.example/${name}.${extension}`;
}

function trackOf(task: SandboxTask, number: number) {
  const url = (extension: string) => mediaUrl(`${task.id}-${number}`, extension);
  const { prompt = "", tags = "", title = "" } = (task.input ?? {}) as Readonly<Record<string, unknown>>;
  return {
    audio_url: url("mp3"),
    created_at: new Date(task.createdAt).toISOString().slice(0, 19).replace("T", " "),
    id: `${task.id}-${number}`,
    image_large_url: url("large.png"),
    image_url: url("png"),
    is_handle_updated: true,
    is_video_pending: false,
    major_model_version: "v3",
    metadata: {
      audio_prompt_id: null,
      concat_history: null,
      duration: 120.5,
      error_message: null,
      error_type: null,
      gpt_description_prompt: null,
      history: null,
      prompt,
      stream: true,
      tags,
      type: "gen",
    },
    model_name: "chirp-v3-5",
    reaction: null,
    status: "SUCCESS",
    task_id: task.id,
    title,
    video_url: "",
  };
}
