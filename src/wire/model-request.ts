import { isAscii, isUtf8 } from "node:buffer";
import type { RequestSize } from "../core/bounds.ts";
import type { PromptText } from "../core/prompt-text.ts";
import type { Refusal } from "../core/refusals.ts";
import type { RequestTerms } from "../core/request-terms.ts";
import type { TokenClass } from "../core/tokens.ts";
import { isObject, objectOr, parseJson, type JsonObject } from "./json.ts";
import { jsonMembers, repeatsMember, type JsonMember } from "./json-keys.ts";
import { jsonBounds, jsonSkeleton } from "./json-skeleton.ts";
import { Findings, mentionsMax, type FieldFindings } from "./findings.ts";
import { mayNameModels, type RequestFields } from "./request-fields.ts";

/** What a request says that matters for its price and its forwarding. The bytes themselves are never changed. */
export interface ModelRequest {
  readonly model: string;
  readonly stream: boolean;
  /** Whether the client asked for a usage chunk in its stream. */
  readonly wantsStreamUsage: boolean;
  /** Set where the model is marked for the key: its whole answer is held. */
  readonly isHeldWhole?: boolean;
  readonly size: RequestSize;
  /** Fields whose cost nothing bounds; such a request is refused under a hard budget. */
  readonly unboundedFields: readonly string[];
  /** Who else may answer, and which fields are not known. */
  readonly fields: FieldFindings;
  /** Classes that a token of the prompt or of the completion can be billed as. */
  readonly classes: { readonly prompt: readonly TokenClass[]; readonly completion: readonly TokenClass[] };
  readonly prompt: PromptReader;
  /** Whether what it makes is nothing that can be counted: images, or sound. */
  readonly isUnseen?: boolean;
  /** Whether nothing is known of what it costs, whatever its model costs elsewhere. */
  readonly isUnpriced?: boolean;
  /** Why another reader could take another model; such a request is refused for keys that may use some models only. */
  readonly modelDoubt?: Refusal | undefined;
  /** What decides its price beside its size; absent for the standard service tier and no hosted tools. */
  readonly terms?: RequestTerms;
  /** How many pieces a price of requests is charged for; one unless given. */
  readonly pieces?: number;
  /** Characters of its text, for a model that is billed by them. */
  readonly characters?: number;
  /** The field that states the largest maximum of the output; absent where none does. */
  readonly maximumField?: string;
  /** Whether a truncated answer is worthless: it calls tools, or is JSON. */
  readonly isCutWorthless?: boolean;
  /** Whether it states how much the model may think, which counts as output. */
  readonly hasThinkingBudget?: boolean;
}

/** How the prompt of a kind of request is read for counting; the request must have been read before. */
export interface PromptReader {
  /** The texts that a tokenizer counts. Never a data URL. */
  text(body: Buffer): PromptText;
  /** Bytes of the request beside those texts: a bound for what tools, schemas and other fields add to the prompt. */
  bytesOutside(body: Buffer): number;
}

export type ModelRequestResult =
  | { readonly ok: true; readonly request: ModelRequest }
  | { readonly ok: false; readonly refusal: Refusal };

/** A stated maximum above this is absurd. */
const outputLimitMax = 100_000_000;

/** What a model can be called: it is written down with the charge. */
const modelName = /^[^\p{Cc}\p{Cs}]{1,256}$/u;

/** A request body that was looked at: its long strings are stand-ins that tell their length. */
export interface InspectedBody {
  readonly body: JsonObject & { readonly model: string };
  /** What its top-level fields mean that are neither free nor plainly read. */
  readonly findings: Findings;
}

export type InspectResult = ({ readonly ok: true } & InspectedBody) | { readonly ok: false; readonly refusal: Refusal };

/** A JSON object that was looked at, with where its members stand in its skeleton. */
export type InspectedObjectResult =
  | { readonly ok: true; readonly body: JsonObject; readonly skeleton: Buffer; readonly members: readonly JsonMember[] }
  | { readonly ok: false; readonly refusal: Refusal };

/** Looks at a JSON body. Refuses what the gateway might read differently. */
export function inspectObject(bytes: Buffer, fields: RequestFields): InspectedObjectResult {
  const skeleton = jsonSkeleton(bytes);
  if (skeleton === undefined) return tooMuch;
  const body = isAscii(bytes) || isUtf8(bytes) ? parseJson(skeleton.toString("utf8")) : undefined;
  if (body === undefined) return invalidJson("The request body is not valid JSON in UTF-8.");
  if (!isObject(body)) return invalidJson("The request body must be a JSON object.");
  const members = jsonMembers(skeleton, jsonBounds.names + 1);
  if (members.length > jsonBounds.names) return tooMuch;
  const ambiguous = ambiguousField(
    members.map(({ name }) => name),
    fields,
  );
  return ambiguous ?? { ok: true, body, skeleton, members };
}

/** As `inspectObject`, for a request that names a model. */
export function inspectBody(bytes: Buffer, fields: RequestFields): InspectResult {
  const inspected = inspectObject(bytes, fields);
  if (!inspected.ok) return inspected;
  const { body, skeleton, members } = inspected;
  const fault = modelFault(body["model"]);
  if (fault !== undefined) return fault;
  const findings = new Findings();
  findings.modelsIn("model", String(body["model"]));
  for (const member of members) {
    const { name, valueStart, valueEnd } = member;
    if (nestedFields.has(name) && repeatsMember(skeleton.subarray(valueStart, valueEnd), body[name]))
      return invalid(name, `'${name}' has an object with a member that is given twice`);
    const meaning = fields.meaningOf(name);
    if (meaning === "free" || meaning === "priced" || isNull(skeleton, member)) continue;
    findings.field(name, body[name], meaning);
    // From the bytes: one reader takes the first of two equal names, another the last.
    if (meaning === undefined || mayNameModels(meaning))
      findings.mentionInBytes(skeleton.subarray(valueStart, valueEnd));
  }
  return findings.isTooMuch ? tooManyNames : { ok: true, body: body as InspectedBody["body"], findings };
}

/** Fields whose objects decide the price; a member that is given twice in one could be read either way. */
const nestedFields: ReadonlySet<string> = new Set(["messages", "input", "tools", "prediction"]);

/** For a request that names more models than any honest one. */
export const tooManyNames = invalid(
  null,
  `the request names more than ${mentionsMax.models} models, or has more than ${mentionsMax.texts} texts in fields that Farebox does not know`,
);

/** What is wrong with a model's name; undefined where nothing is. */
export function modelFault(model: unknown, field = "model"): Refused | undefined {
  if (typeof model !== "string" || model === "") return invalid(field, `you must provide a ${field} parameter`);
  return modelName.test(model) ? undefined : invalid(field, `'${field}' must be a name of at most 256 characters`);
}

/** A priced field given twice, or under a name that another reader would fold into it. */
export function ambiguousField(names: readonly string[], fields: RequestFields): Refused | undefined {
  const seen = new Set<string>();
  for (const name of names) {
    const priced = fields.pricedFieldFor(name);
    if (priced === undefined) continue;
    if (priced !== name) return invalid(priced, `'${name}' must be written '${priced}'`);
    if (seen.has(name)) return invalid(name, `'${name}' is given twice`);
    seen.add(name);
  }
  return undefined;
}

/** A field that is null is not set, whatever it is. */
function isNull(bytes: Buffer, { valueStart, valueEnd }: JsonMember): boolean {
  return valueEnd - valueStart === 4 && bytes.toString("latin1", valueStart, valueEnd) === "null";
}

/** How many answers are asked for; undefined where the value is none that can be. */
export function choicesOf(value: unknown): number | undefined {
  const choices = value ?? 1;
  return typeof choices === "number" && Number.isInteger(choices) && choices >= 1 && choices <= 1000
    ? choices
    : undefined;
}

/** The larger stated maximum; null when none is stated, infinite when one is malformed or absurd. */
export function outputLimitOf(body: JsonObject, ...fields: readonly string[]): StatedMaximum {
  const stated = fields.flatMap((name) => (body[name] == null ? [] : [{ name, value: body[name] }]));
  const [first] = stated;
  if (first === undefined) return { outputLimit: null, maximumField: {} };
  const top = stated.reduce((most, each) => (limitOf(each.value) > limitOf(most.value) ? each : most));
  return { outputLimit: limitOf(top.value), maximumField: { maximumField: top.name } };
}

export interface StatedMaximum {
  readonly outputLimit: number | null;
  readonly maximumField: { readonly maximumField?: string };
}

function limitOf(value: unknown): number {
  return isOutputLimit(value) ? value : Infinity;
}

/** Whether a stated maximum is one that a gateway can obey. */
export function isOutputLimit(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value > 0 && value <= outputLimitMax;
}

/** The body parsed whole; undefined where it is no JSON in UTF-8. */
export function parseBody(bytes: Buffer): unknown {
  if (isAscii(bytes)) return parseJson(bytes.toString("latin1"));
  if (!isUtf8(bytes)) return undefined;
  return parseJson(bytes.toString("utf8"));
}

/** The members of a body that was read before, long strings whole. */
export function objectInFull(bytes: Buffer): JsonObject {
  return objectOr(parseBody(bytes));
}

/** Bytes of the request outside one of its fields; all of them where it has none. */
export function bytesOutside(bytes: Buffer, field: string): number {
  const found = jsonMembers(bytes).find((member) => member.name === field);
  return found === undefined ? bytes.length : bytes.length - (found.valueEnd - found.valueStart);
}

type Refused = { readonly ok: false; readonly refusal: Refusal };

export function invalidJson(message: string): Refused {
  return { ok: false, refusal: { code: "invalid_json", message } };
}

export function invalid(param: string | null, message: string): Refused {
  return { ok: false, refusal: { code: "invalid_request", param, message } };
}

const tooMuch = invalid(
  null,
  `the request body has more than ${jsonBounds.values} JSON values, ${jsonBounds.names} names or ${jsonBounds.skeletonBytes} bytes beside its long texts`,
);
