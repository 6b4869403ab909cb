import { plainDecimal } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import type { NameSource } from "../core/task-routes.ts";
import { jsonElements, jsonMembers, parseJson, type JsonObject } from "./json.ts";
import { ambiguousField, inspectObject, invalid, modelFault } from "./model-request.ts";
import { equalFolded, RequestFields } from "./findings.ts";

/** Content of a task's creation that matters for its price. The bytes themselves never change. */
export interface TaskRequest {
  readonly model: string;
  /** Null where none is named. */
  readonly taskType: string | null;
  /** Models and types that a gateway may see if it does not read the fields that name them; empty for most. */
  readonly others: readonly { readonly model: string; readonly taskType: string | null }[];
  /**
   * Returns the amounts that a field states: one for an `input` object, else one for each element of the list; never
   * empty.
   */
  stated(field: string): readonly Stated[];
}

/** A plain decimal above 0; `absent` where nothing is stated; `unclear` for no number, or where two readers could take different ones. */
export type Stated = string | "absent" | "unclear";

export type TaskRequestResult =
  | { readonly ok: true; readonly request: TaskRequest }
  | { readonly ok: false; readonly refusal: Refusal };

/** Fields of a creation that matter for its price. */
interface CreationFields {
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

/** Pattern of a task type, which is stored with the charge. */
const nameText = /^[^\p{Cc}\p{Cs}]{1,256}$/u;

const openBracket = 0x5b;

/** A list with more elements than any gateway takes is not read: each is `unclear`. */
const elementsMax = 1000;

/** Returns the fields of a creation that Farebox reads, which other readers must not take from elsewhere. */
export function readFields({ model, type, input }: CreationFields): readonly string[] {
  return [...new Set([model.field, type.field, input, "config"])].filter((field) => field !== null);
}

/**
 * Reads the creation of a task without changing it. Refuses one that the gateway might read differently, as for a chat.
 * An empty body states nothing.
 */
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

/** Returns each mix of what the request and the route name: a gateway may read either. */
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
