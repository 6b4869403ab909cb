import { plainDecimal } from "../core/decimal.ts";
import type { Refusal } from "../core/refusals.ts";
import { parseJson } from "./json.ts";
import { jsonElements, jsonMembers } from "./json-keys.ts";
import { ambiguousField, invalid, lookAt } from "./model-request.ts";
import { areTwins, RequestFields } from "./request-fields.ts";

/** What the creation of a task says that matters for its price. The bytes themselves are never changed. */
export interface TaskRequest {
  readonly model: string;
  /** Null where none is named. */
  readonly taskType: string | null;
  /** How much the named field states: once for an `input` that is an object, else for each element of the list; never empty. */
  stated(field: string): readonly Stated[];
}

/** A plain decimal above 0; `absent` where nothing is stated; `unclear` for no number, or where two readers could take different ones. */
export type Stated = string | "absent" | "unclear";

export type TaskRequestResult =
  | { readonly ok: true; readonly request: TaskRequest }
  | { readonly ok: false; readonly refusal: Refusal };

/** The fields of a creation that are read, or that the gateway reads for its price. */
const taskFields = new RequestFields({ model: "priced", task_type: "priced", input: "priced", config: "priced" });

/** Members of `config`; the webhook's are read where Farebox relays it. */
const configFields = new RequestFields({ service_mode: "priced" });

/** What a task type can be called: it is written down with the charge. */
const nameText = /^[^\p{Cc}\p{Cs}]{1,256}$/u;

const openBracket = 0x5b;

/** A list with more elements than any gateway takes is not read: each is `unclear`. */
const elementsMax = 1000;

/** Reads the creation of a task for looking only. Refuses what the gateway might read differently, as for a chat. */
export function readTaskRequest(bytes: Buffer): TaskRequestResult {
  const look = lookAt(bytes, taskFields);
  if (!look.ok) return look;
  const { model, task_type: taskType } = look.body;
  if (taskType !== undefined && taskType !== null && (typeof taskType !== "string" || !nameText.test(taskType))) {
    return invalid("task_type", "'task_type' must be a name of at most 256 characters");
  }
  const valueOf = (field: string): Buffer => {
    const found = jsonMembers(bytes).find(({ name }) => name === field);
    return found === undefined ? Buffer.from("null") : bytes.subarray(found.valueStart, found.valueEnd);
  };
  const ambiguous = ambiguousField(jsonMembers(valueOf("config")).map(({ name }) => name), configFields);
  if (ambiguous !== undefined) return ambiguous;
  const stated = (field: string) => statedIn(valueOf("input"), field);
  return { ok: true, request: { model, taskType: typeof taskType === "string" ? taskType : null, stated } };
}

function statedIn(input: Buffer, field: string): readonly Stated[] {
  const elements = jsonElements(input, elementsMax + 1);
  if (elements === undefined) return [statedBy(input, field)];
  if (elements.length > elementsMax) return ["unclear"];
  return elements.length === 0 ? ["absent"] : elements.map((element) => statedBy(element, field));
}

function statedBy(element: Buffer, field: string): Stated {
  if (element[0] === openBracket) return "unclear";
  const [only, ...more] = jsonMembers(element).filter(({ name }) => areTwins(name, field));
  if (only === undefined) return "absent";
  if (more.length > 0 || only.name !== field) return "unclear";
  const value = parseJson(element.toString("utf8", only.valueStart, only.valueEnd));
  if (value === null) return "absent";
  const text = typeof value === "number" || typeof value === "string" ? plainDecimal(String(value)) : undefined;
  return text === undefined || text === "0" ? "unclear" : text;
}
