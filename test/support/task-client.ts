import type { RunningProxy } from "./running-proxy.ts";

/** Creates a task. A text is sent as it is; an object changes members of a video task. */
export function createTask(
  proxy: RunningProxy,
  body: string | object = {},
  key = proxy.key,
  headers: Record<string, string> = {},
): Promise<Response> {
  const video = { model: "kling", task_type: "video_generation", input: { prompt: "a fox" } };
  return fetch(`${proxy.url}/api/v1/task`, {
    method: "POST",
    headers: { "x-api-key": key, "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify({ ...video, ...body }),
  });
}

/** Retrieves a task, or cancels it with DELETE; with null instead of a key, without a credential. */
export function requestTask(
  proxy: RunningProxy,
  id: string,
  key: string | null = proxy.key,
  method = "GET",
): Promise<Response> {
  return fetch(`${proxy.url}/api/v1/task/${id}`, { method, headers: key === null ? {} : { "x-api-key": key } });
}
