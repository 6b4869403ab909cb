import { isUtf8 } from "node:buffer";
import { readChatRequest, withModel } from "../wire/chat-request.ts";
import { isObject } from "../wire/json.ts";
import type { ModelRequest } from "../wire/model-request.ts";

export type EstimateRequest =
  | { readonly ok: true; readonly request: ModelRequest; readonly body: Buffer }
  /** The rest of a sentence that begins with the file's name. */
  | { readonly ok: false; readonly problem: string };

/** Reads a chat request as the proxy would; `model` takes the place of the one that it names. */
export function readEstimateRequest(bytes: Buffer, model: string | undefined): EstimateRequest {
  const problem = jsonProblem(bytes);
  if (problem !== undefined) return { ok: false, problem };
  const body = model === undefined ? bytes : withModel(bytes, model);
  const read = readChatRequest(body);
  if (read.ok) return { ok: true, request: read.request, body };
  return {
    ok: false,
    problem: `is not a chat request: ${"message" in read.refusal ? read.refusal.message : read.refusal.code}`,
  };
}

/** The proxy need not look into long strings; here the whole text is checked, and a fault has its place. */
function jsonProblem(bytes: Buffer): string | undefined {
  if (!isUtf8(bytes)) return "is not a text in UTF-8";
  try {
    return isObject(JSON.parse(bytes.toString("utf8"))) ? undefined : "must be a JSON object with model and messages";
  } catch (error) {
    return `is not valid JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}
