import { plainDecimal } from "../core/decimal.ts";
import type { Refusal } from "../core/refusals.ts";
import type { NameSource } from "../core/task-routes.ts";
import { parseJson, type JsonObject } from "./json.ts";
import { jsonElements, jsonMembers } from "./json-keys.ts";
import { ambiguousField, invalid, inspectObject, modelFault } from "./model-request.ts";
import { equalFolded, RequestFields } from "./request-fields.ts";

/** What the creation of a task says that matters for its price. The bytes themselves are never changed. */
export interface TaskRequest {
  readonly model: string;
  /** Null where none is named. */
  readonly taskType: string | null;
  /** As what a gateway may take it that does not read the fields which name its model and type; empty for most. */
  readonly others: readonly { readonly model: string; readonly taskType: string | null }[];
  /** How much the named field states: once for an `input` that is an object, else for each element of the list; never empty. */
  stated(field: string): readonly Stated[];
}

/** A plain decimal above 0; `absent` where nothing is stated; `unclear` for no number, or where two readers could take different ones. */
export type Stated = string | "absent" | "unclear";

export type TaskRequestResult =
  | { readonly ok: true; readonly request: TaskRequest }
  | { readonly ok: false; readonly refusal: Refusal };

/** Where a creation states what matters for its price. */
export interface CreationFields {
  readonly model: NameSource;
  readonly type: NameSource;
  /** The field whose members a price names; null for the body itself. */
  readonly input: string | null;
}

/** The fields of `POST /api/v1/task`. */
const taskFields: CreationFields = {
  model: { field: "model", fixed: null },
  type: { field: "task_type", fixed: null },
  input: "input",
};

/** Members of `config`; the webhook's are read where Farebox relays it. */
const configFields = new RequestFields({ service_mode: "priced" });

/** What a task type can be called: it is written down with the charge. */
const nameText = /^[^\p{Cc}\p{Cs}]{1,256}$/u;

const openBracket = 0x5b;

/** A list with more elements than any gateway takes is not read: each is `unclear`. */
const elementsMax = 1000;

/** Returns the fields of a creation that are read: another reader must not take them from elsewhere. */
export function readFields({ model, type, input }: CreationFields): readonly string[] {
  return [...new Set([model.field, type.field, input, "config"])].filter((field) => field !== null);
}

/** Reads the creation of a task for looking only. Refuses what the gateway might read differently, as for a chat. An empty body states nothing. */
export function readTaskRequest(body: Buffer, fields: CreationFields = taskFields): TaskRequestResult {
  const bytes = body.length === 0 && fields.model.fixed !== null ? Buffer.from("{}") : body;
  const inspected = inspectObject(
    bytes,
    new RequestFields(Object.fromEntries(readFields(fields).map((field) => [field, "priced" as const]))),
  );
  if (!inspected.ok) return inspected;
  const model = named(inspected.body, fields.model);
  const fault = modelFault(model, fields.model.field ?? "model");
  if (fault !== undefined) return fault;
  const taskType = named(inspected.body, fields.type);
  if (taskType !== null && (typeof taskType !== "string" || !nameText.test(taskType))) {
    const field = fields.type.field ?? "task_type";
    return invalid(field, `'${field}' must be a name of at most 256 characters`);
  }
  const valueOf = (field: string): Buffer => {
    const found = jsonMembers(bytes).find(({ name }) => name === field);
    return found === undefined ? Buffer.from("null") : bytes.subarray(found.valueStart, found.valueEnd);
  };
  const ambiguous = ambiguousField(
    jsonMembers(valueOf("config")).map(({ name }) => name),
    configFields,
  );
  if (ambiguous !== undefined) return ambiguous;
  const stated = (field: string) => statedIn(fields.input === null ? bytes : valueOf(fields.input), field);
  return {
    ok: true,
    request: { model: String(model), taskType, others: othersOf(String(model), taskType, fields), stated },
  };
}

/** What the request names may be read or not: each mix of it and what the route states. */
function othersOf(model: string, taskType: string | null, fields: CreationFields): TaskRequest["others"] {
  const models = [...new Set([model, fields.model.fixed ?? model])];
  const types = [...new Set([taskType, fields.type.fixed ?? taskType])];
  return models.flatMap((one) => types.map((type) => ({ model: one, taskType: type }))).slice(1);
}

/** Null where nothing is named. */
function named(body: JsonObject, { field, fixed }: NameSource): unknown {
  const stated = field === null ? undefined : body[field];
  return stated ?? fixed;
}

function statedIn(input: Buffer, field: string): readonly Stated[] {
  const elements = jsonElements(input, elementsMax + 1);
  if (elements === undefined) return [statedBy(input, field)];
  if (elements.length > elementsMax) return ["unclear"];
  return elements.length === 0 ? ["absent"] : elements.map((element) => statedBy(element, field));
}

function statedBy(element: Buffer, field: string): Stated {
  if (element[0] === openBracket) return "unclear";
  const [only, ...more] = jsonMembers(element).filter(({ name }) => equalFolded(name, field));
  if (only === undefined) return "absent";
  if (more.length > 0 || only.name !== field) return "unclear";
  const value = parseJson(element.toString("utf8", only.valueStart, only.valueEnd));
  if (value === null) return "absent";
  const text = typeof value === "number" || typeof value === "string" ? plainDecimal(String(value)) : undefined;
  return text === undefined || text === "0" ? "unclear" : text;
}
