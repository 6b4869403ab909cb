import { isAscii, isUtf8 } from "node:buffer";
import { plainDecimal } from "../core/decimal.ts";
import type { Refusal } from "../core/refusals.ts";
import { isObject, objectOr, parseJson, type JsonObject } from "./json.ts";
import { jsonMembers } from "./json-keys.ts";

/** What the creation of a task says that matters for its price. The bytes themselves are never changed. */
export interface TaskRequest {
  readonly model: string;
  /** Null where none is named. */
  readonly taskType: string | null;
  /**
   * How much the named field of `input` states: a plain decimal above 0. `absent` where it states nothing, `unclear` where it
   * is no number, or two readers could take different ones.
   */
  stated(field: string): string | "absent" | "unclear";
}

export type TaskRequestResult =
  | { readonly ok: true; readonly request: TaskRequest }
  | { readonly ok: false; readonly refusal: Refusal };

/** Fields of the body that a price depends on. */
const pricedFields = ["model", "task_type", "input"];

/** What a model or a task type can be called: it is written down with the charge. */
const nameText = /^[^\p{Cc}\p{Cs}]{1,256}$/u;

/** Reads the creation of a task for looking only. Refuses what the gateway might read differently. */
export function readTaskRequest(bytes: Buffer): TaskRequestResult {
  const body = isAscii(bytes) || isUtf8(bytes) ? parseJson(bytes.toString("utf8")) : undefined;
  if (body === undefined) return invalidJson("The request body is not valid JSON in UTF-8.");
  if (!isObject(body)) return invalidJson("The request body must be a JSON object.");
  const members = jsonMembers(bytes);
  for (const field of pricedFields) {
    const twins = members.filter(({ name }) => name.toLowerCase() === field);
    if (twins.length > 1) return invalid(field, `'${field}' is given twice`);
    if (twins[0] !== undefined && twins[0].name !== field) return invalid(field, `'${twins[0].name}' must be written '${field}'`);
  }
  const { model, task_type: taskType } = body;
  if (typeof model !== "string" || model === "") return invalid("model", "you must provide a model parameter");
  if (!nameText.test(model)) return invalid("model", "'model' must be a name of at most 256 characters");
  if (taskType !== undefined && taskType !== null && (typeof taskType !== "string" || !nameText.test(taskType))) {
    return invalid("task_type", "'task_type' must be a name of at most 256 characters");
  }
  const inputAt = members.find(({ name }) => name === "input");
  const names = inputAt === undefined ? [] : jsonMembers(bytes.subarray(inputAt.valueStart, inputAt.valueEnd)).map(({ name }) => name);
  const input = objectOr(body["input"]);
  return {
    ok: true,
    request: { model, taskType: typeof taskType === "string" ? taskType : null, stated: (field) => stated(input, names, field) },
  };
}

function stated(input: JsonObject, names: readonly string[], field: string): string {
  const twins = names.filter((name) => name.toLowerCase() === field.toLowerCase());
  if (twins.length === 0) return "absent";
  if (twins.length > 1 || twins[0] !== field) return "unclear";
  const value = input[field];
  if (value === null) return "absent";
  const text = typeof value === "number" || typeof value === "string" ? plainDecimal(String(value)) : undefined;
  return text === undefined || text === "0" ? "unclear" : text;
}

function invalidJson(message: string): TaskRequestResult {
  return { ok: false, refusal: { code: "invalid_json", message } };
}

function invalid(param: string, message: string): TaskRequestResult {
  return { ok: false, refusal: { code: "invalid_request", param, message } };
}
