import { plainDecimal } from "../core/money.ts";
import { invalid, type OrRefused } from "../core/refusals.ts";
import type { NameSource } from "../core/task-routes.ts";
import { jsonElements, jsonMembers, parseJson, type JsonObject } from "./json.ts";
import { ambiguousField, inspectObject, modelFault, chargedName } from "./model-request.ts";
import { equalFolded, RequestFields, userInBody } from "./findings.ts";

/** Content of a task's creation request that matters for the task's price. */
export interface TaskRequest {
  readonly model: string;
  /** Null if the request names no task type. */
  readonly taskType: string | null;
  /** Other models and types that a gateway may use if it ignores the fields that name them; usually empty. */
  readonly others: readonly { readonly model: string; readonly taskType: string | null }[];
  /**
   * Returns the amounts that a field of `input` states. Returns one amount if `input` is an object, and one for each
   * element if `input` is a list. The result is never empty.
   */
  stated(field: string): readonly StatedQuantity[];
  /** User that the body names; null for none. */
  readonly user: string | null;
}

/**
 * Stated amount, as a plain decimal above 0. `absent`: the request states none. `unclear`: the value is not a number
 * above 0, or readers could use different numbers.
 */
export type StatedQuantity = string | "absent" | "unclear";

export type TaskRequestResult = OrRefused<{ request: TaskRequest }>;

/** Fields of a creation request that matter for its price. */
interface CreationFields {
  readonly model: NameSource;
  readonly type: NameSource;
  /** Field that contains the fields which a price names; null if the body contains them directly. */
  readonly input: string | null;
}

/** Fields of `POST /api/v1/task`. */
const taskFields: CreationFields = {
  model: { field: "model", fixed: null },
  type: { field: "task_type", fixed: null },
  input: "input",
};

/** Members of `config` that matter for the price. `readWebhookConfig` reads the webhook in `config`. */
const configFields = new RequestFields({ service_mode: "priced" });

const openBracket = 0x5b;

/** Largest number of elements of a list. No gateway accepts more, so a longer list is `unclear`. */
const elementsMax = 1000;

/**
 * Returns the names of the fields that Farebox reads. Farebox refuses a request in which another reader could see other
 * values of them.
 */
export function readFields({ model, type, input }: CreationFields): readonly string[] {
  return [...new Set([model.field, type.field, input, "config"])].filter((field) => field !== null);
}

/**
 * Reads the creation request of a task without changing it. Refuses a request that the gateway might read differently.
 * An empty body counts as an empty object if the route names the model.
 */
export function readTaskRequest(body: Buffer, fields: CreationFields = taskFields): TaskRequestResult {
  const bytes = body.length === 0 && fields.model.fixed !== null ? Buffer.from("{}") : body;
  const inspected = inspectObject(
    bytes,
    new RequestFields(Object.fromEntries(readFields(fields).map((field) => [field, "priced" as const]))),
  );
  if (!inspected.ok) return inspected;
  const model = nameIn(inspected.body, fields.model);
  const fault = modelFault(model, fields.model.field ?? "model");
  if (fault !== undefined) return fault;
  const taskType = nameIn(inspected.body, fields.type);
  if (taskType !== null && (typeof taskType !== "string" || !chargedName.test(taskType))) {
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
    request: {
      model: String(model),
      taskType,
      others: othersOf(String(model), taskType, fields),
      stated,
      user: userInBody(inspected.body),
    },
  };
}

/**
 * Returns the other combinations of the models and types that the request and the route name. A gateway may use any of
 * them.
 */
function othersOf(model: string, taskType: string | null, fields: CreationFields): TaskRequest["others"] {
  const models = [...new Set([model, fields.model.fixed ?? model])];
  const types = [...new Set([taskType, fields.type.fixed ?? taskType])];
  return models.flatMap((one) => types.map((type) => ({ model: one, taskType: type }))).slice(1);
}

/** Returns the name that the body or the route states; null if there is none. */
function nameIn(body: JsonObject, { field, fixed }: NameSource): unknown {
  const stated = field === null ? undefined : body[field];
  return stated ?? fixed;
}

function statedIn(input: Buffer, field: string): readonly StatedQuantity[] {
  const elements = jsonElements(input, elementsMax + 1);
  if (elements === undefined) return [statedBy(input, field)];
  if (elements.length > elementsMax) return ["unclear"];
  return elements.length === 0 ? ["absent"] : elements.map((element) => statedBy(element, field));
}

function statedBy(element: Buffer, field: string): StatedQuantity {
  if (element[0] === openBracket) return "unclear";
  const [only, ...more] = jsonMembers(element).filter(({ name }) => equalFolded(name, field));
  if (only === undefined) return "absent";
  if (more.length > 0 || only.name !== field) return "unclear";
  const value = parseJson(element.toString("utf8", only.valueStart, only.valueEnd));
  if (value === null) return "absent";
  const text = typeof value === "number" || typeof value === "string" ? plainDecimal(String(value)) : undefined;
  return text === undefined || text === "0" ? "unclear" : text;
}
