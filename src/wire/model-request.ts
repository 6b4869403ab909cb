import { isAscii, isUtf8 } from "node:buffer";
import { serviceTierOf, type HostedTools, type RequestSize, type RequestTerms } from "../core/bounds.ts";
import type { PromptText } from "../core/prompt-text.ts";
import type { Refusal } from "../core/refusals.ts";
import type { TokenClass } from "../core/usage.ts";
import {
  isObject,
  jsonBounds,
  jsonMembers,
  jsonSkeleton,
  listOr,
  objectOr,
  parseJson,
  repeatsMember,
  textOr,
  type JsonMember,
  type JsonObject,
} from "./json.ts";
import {
  Findings,
  hasVariantOf,
  mayNameModels,
  mentionsMax,
  type FieldFindings,
  type RequestFields,
} from "./findings.ts";
import { cacheControl, clientTools } from "./field-table.ts";

/** Content of a request that matters for its price and forwarding. The bytes themselves never change. */
export interface ModelRequest {
  readonly model: string;
  readonly stream: boolean;
  /** True if the client asked for a usage chunk in its stream. */
  readonly wantsStreamUsage: boolean;
  /** True if the model is marked for the key: its whole answer is held. */
  readonly isHeldWhole?: boolean;
  readonly size: RequestSize;
  /** Fields with no bound on their cost; a hard budget refuses such a request. */
  readonly unboundedFields: readonly string[];
  /** Models that may answer, and unknown fields. */
  readonly fields: FieldFindings;
  /** Classes that a token of the prompt or of the completion can be billed as. */
  readonly classes: { readonly prompt: readonly TokenClass[]; readonly completion: readonly TokenClass[] };
  readonly prompt: PromptReader;
  /** True if its output cannot be counted: images or sound. */
  readonly isUnseen?: boolean;
  /** True if its cost is unknown, whatever its model costs elsewhere. */
  readonly isUnpriced?: boolean;
  /** Refusal for keys with allowed models: another reader could see another model. */
  readonly modelDoubt?: Refusal | undefined;
  /**
   * Terms that decide its price, in addition to its size; absent for the standard service tier without hosted tools.
   */
  readonly terms?: RequestTerms;
  /** Pieces that a price of requests is charged for; 1 unless given. */
  readonly pieces?: number;
  /** Characters of its text, for a model billed by them. */
  readonly characters?: number;
  /** Field with the largest stated maximum of the output; absent for none. */
  readonly maximumField?: string;
  /** True if a truncated answer is worthless: it calls tools, or is JSON. */
  readonly isCutWorthless?: boolean;
  /** True if it states a thinking budget, which counts as output. */
  readonly hasThinkingBudget?: boolean;
}

/** Reader of a prompt for counting; the request must have been read before. */
export interface PromptReader {
  /** The texts that a tokenizer counts. Never a data URL. */
  text(body: Buffer): PromptText;
  /** Returns the bytes outside those texts: a bound for what tools, schemas and other fields add to the prompt. */
  bytesOutside(body: Buffer): number;
}

export type ModelRequestResult =
  | { readonly ok: true; readonly request: ModelRequest }
  | { readonly ok: false; readonly refusal: Refusal };

/** A stated maximum above this is absurd. */
const outputLimitMax = 100_000_000;

/** Pattern of a model's name, which is stored with the charge. */
const modelName = /^[^\p{Cc}\p{Cs}]{1,256}$/u;

/** An inspected request body: its long strings are placeholders that state their length. */
interface InspectedBody {
  readonly body: JsonObject & { readonly model: string };
  /** Top-level fields that are neither free nor plainly read. */
  readonly findings: Findings;
}

type InspectResult = ({ readonly ok: true } & InspectedBody) | { readonly ok: false; readonly refusal: Refusal };

/** An inspected JSON object, with the positions of its members in its skeleton. */
type InspectedObjectResult =
  | { readonly ok: true; readonly body: JsonObject; readonly skeleton: Buffer; readonly members: readonly JsonMember[] }
  | { readonly ok: false; readonly refusal: Refusal };

/** Inspects a JSON body. Refuses a body that the gateway might read differently. */
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

/** Inspects a request that names a model. */
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
    // Searches the bytes, because readers differ on which of two equal names they take.
    if (meaning === undefined || mayNameModels(meaning))
      findings.mentionInBytes(skeleton.subarray(valueStart, valueEnd));
  }
  return findings.isTooMuch ? tooManyNames : { ok: true, body: body as InspectedBody["body"], findings };
}

/** Fields whose objects decide the price; a member that is given twice in one could be read either way. */
const nestedFields: ReadonlySet<string> = new Set(["messages", "input", "tools", "prediction"]);

/** Refuses a request that names more models than any honest one. */
export const tooManyNames = invalid(
  null,
  `the request names more than ${mentionsMax.models} models, or has more than ${mentionsMax.texts} texts in fields that Farebox does not know`,
);

/** Returns the refusal of a model's name; undefined for a valid one. */
export function modelFault(model: unknown, field = "model"): Refused | undefined {
  if (typeof model !== "string" || model === "") return invalid(field, `you must provide a ${field} parameter`);
  return modelName.test(model) ? undefined : invalid(field, `'${field}' must be a name of at most 256 characters`);
}

/** Refuses a priced field that is given twice, or under a name that another reader would treat as it. */
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

/** Returns the number of requested answers; undefined for an invalid value. */
export function choicesOf(value: unknown): number | undefined {
  const choices = value ?? 1;
  return typeof choices === "number" && Number.isInteger(choices) && choices >= 1 && choices <= 1000
    ? choices
    : undefined;
}

/** Returns the largest stated maximum; null for none, infinite when one is malformed or absurd. */
export function outputLimitOf(body: JsonObject, ...fields: readonly string[]): StatedMaximum {
  const stated = fields.flatMap((name) => (body[name] == null ? [] : [{ name, value: body[name] }]));
  const [first] = stated;
  if (first === undefined) return { outputLimit: null, maximumField: {} };
  const top = stated.reduce((most, each) => (limitOf(each.value) > limitOf(most.value) ? each : most));
  return { outputLimit: limitOf(top.value), maximumField: { maximumField: top.name } };
}

interface StatedMaximum {
  readonly outputLimit: number | null;
  readonly maximumField: { readonly maximumField?: string };
}

function limitOf(value: unknown): number {
  return isOutputLimit(value) ? value : Infinity;
}

/** Reports that a gateway can obey a stated maximum. */
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

/** Returns the bytes of the request outside one field; all bytes if it has none. */
export function bytesOutside(bytes: Buffer, field: string): number {
  const found = jsonMembers(bytes).find((member) => member.name === field);
  return found === undefined ? bytes.length : bytes.length - (found.valueEnd - found.valueStart);
}

type Refused = { readonly ok: false; readonly refusal: Refusal };

function invalidJson(message: string): Refused {
  return { ok: false, refusal: { code: "invalid_json", message } };
}

export function invalid(param: string | null, message: string): Refused {
  return { ok: false, refusal: { code: "invalid_request", param, message } };
}

const tooMuch = invalid(
  null,
  `the request body has more than ${jsonBounds.values} JSON values, ${jsonBounds.names} names or ${jsonBounds.skeletonBytes} bytes next to its long texts`,
);

/** A tool that a request declares, with its position: "tools[3]", "tools[3].tools[0]" within a namespace. */
interface ListedTool {
  readonly path: string;
  readonly tool: JsonObject;
  /** Table of its members; undefined for a tool that may run at the gateway. */
  readonly members: RequestFields | "text" | undefined;
}

/** Returns every tool of a list; tools of a namespace follow it. `known`: tools that may run at the client, by type. */
export function listedTools(
  list: unknown,
  path: string,
  known: ReadonlyMap<string, RequestFields | "text">,
): ListedTool[] {
  return partsOf(list).flatMap((item, index) => {
    const tool = objectOr(item);
    const place = `${path}[${index}]`;
    const listed = { path: place, tool, members: runsAtClient(tool) ? known.get(textOr(tool["type"])) : undefined };
    if (listed.members === undefined || tool["type"] !== "namespace") return [listed];
    // A namespace has functions; one within another is none that is known.
    return [listed, ...listedTools(tool["tools"], `${place}.tools`, clientTools)];
  });
}

/** Returns fields with no bound on their cost. Tools that the gateway runs may name models. */
export function unboundedFields(tools: readonly ListedTool[], findings: Findings): string[] {
  for (const { tool, members } of tools) {
    if (members === undefined) findings.mentionIn(tool);
    else if (members !== "text") findings.members("tools", tool, members);
    for (const { cache_control } of [tool, objectOr(tool["function"])]) {
      if (cache_control != null) findings.field("tools.cache_control", cache_control, cacheControl);
    }
  }
  return findings.expensive;
}

/** Fields that ask for a hosted tool by themselves. */
const toolFields: readonly (readonly [name: string, call: string])[] = [
  ["web_search_options", "web_search_call"],
  ["plugins", "plugin_call"],
];

/**
 * Returns the terms that decide a request's price, in addition to its size; none for the standard service tier without
 * hosted tools.
 */
export function requestTerms(
  body: JsonObject,
  tools: readonly ListedTool[],
  shown: Pick<HostedTools, "areShown" | "callsMax">,
): { terms?: RequestTerms } {
  const serviceTier = serviceTierOf(body["service_tier"]);
  const hosted = tools.filter(({ members }) => members === undefined);
  const asking = toolFields.filter(([name]) => body[name] != null);
  if (serviceTier === null && hosted.length + asking.length === 0) return {};
  const calls = [...new Set([...hosted.map(callOf), ...asking.map(([, call]) => call)])];
  const fields = [...hosted.map(nameOf), ...asking.map(([name]) => name)];
  return { terms: { serviceTier, hostedTools: calls.length === 0 ? null : { calls, fields, ...shown } } };
}

/** No field bounds calls of hosted tools, and not every answer shows them. */
export const unboundTools: Pick<HostedTools, "areShown" | "callsMax"> = { areShown: false, callsMax: undefined };

/** Returns the item type of a hosted tool's calls: "web_search_call" for "web_search_2025_08_26". */
function callOf({ tool }: ListedTool): string {
  const name = textOr(tool["type"]).replace(/_(?:\d{4}_\d{2}_\d{2}|\d{8})$/, "");
  return /^[a-z][a-z0-9_]{0,58}$/.test(name) && !hasVariants(tool) ? `${name}_call` : "other_call";
}

/** A tool as a refusal names it: "tools[3] (web_search)". */
function nameOf({ path, tool }: ListedTool): string {
  const type = textOr(tool["type"]);
  return /^\w{1,64}$/.test(type) && !hasVariants(tool) ? `${path} (${type})` : path;
}

/** Members that decide where a tool runs. */
const deciding = ["type", "environment", "execution", "tools"] as const;

function hasVariants(tool: JsonObject): boolean {
  return deciding.some((name) => hasVariantOf(name, tool));
}

/** Reports that a tool of a known type runs at the client: not a shell in a container, nor a search by the gateway. */
function runsAtClient(tool: JsonObject): boolean {
  if (hasVariants(tool)) return false;
  switch (tool["type"]) {
    case "namespace":
      return Array.isArray(tool["tools"]);
    case "shell":
      return tool["environment"] == null || objectOr(tool["environment"])["type"] === "local";
    case "tool_search":
      return tool["execution"] === "client";
    default:
      return true;
  }
}

/** Parts of a prompt other than its text. */
export interface PromptParts {
  readonly images: number;
  readonly audios: number;
  readonly files: number;
  /** Bytes of payloads that the catalogue bounds by the part, never by length. */
  readonly payloadBytes: number;
}

/** The parts of a content that is no text. Gateways take a single part without a list around it. */
export function partsOf(content: unknown): readonly unknown[] {
  return isObject(content) ? [content] : listOr(content);
}

/** Returns the classes that a token of a prompt can be billed as. Content outside the body may be images or sound. */
export function promptClasses(
  { images, audios }: Pick<PromptParts, "images" | "audios">,
  { context, cachesForHour }: Findings,
): TokenClass[] {
  const isHidden = context.length > 0;
  return [
    "input",
    "cached_input",
    "cache_write",
    ...(cachesForHour ? (["cache_write_1h"] as const) : []),
    ...(images > 0 || isHidden ? (["image_input"] as const) : []),
    ...(audios > 0 || isHidden ? (["audio_input"] as const) : []),
  ];
}

/** The size of a request that has neither messages nor parts, beside its text. */
export const noParts = { messages: 0, tools: 0, imageParts: 0, audioParts: 0, fileParts: 0 } as const;
