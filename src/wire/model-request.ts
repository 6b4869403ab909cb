import { isAscii, isUtf8 } from "node:buffer";
import type { HostedTools, RequestSize, RequestTerms } from "../core/bounds.ts";
import { factorValueOf, serviceTierOf, variantName } from "../core/rate-variants.ts";
import type { PromptText } from "../core/prompt-text.ts";
import { invalid, type OrRefused, type Refused } from "../core/refusals.ts";
import type { TokenClass } from "../core/usage.ts";
import {
  isObject,
  jsonBounds,
  jsonMembers,
  jsonSkeleton,
  lengthInFull,
  listOr,
  objectOr,
  noPlaces,
  parseJson,
  repeatedMember,
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
  userInBody,
  type FieldFindings,
  type RequestFields,
} from "./findings.ts";
import { clientTools, toolMarks } from "./field-table.ts";

/** Properties of a request that decide its price and how Farebox forwards it. */
export interface ModelRequest {
  readonly model: string;
  readonly stream: boolean;
  /** True if the client asked for a usage chunk in its stream. */
  readonly wantsStreamUsage: boolean;
  /** True if Farebox holds the cost of the whole answer at once, because the model's streams arrive all at once. */
  readonly isHeldWhole?: boolean;
  readonly size: RequestSize;
  /** Fields whose cost is not bounded. A hard budget refuses a request that has any. */
  readonly unboundedFields: readonly string[];
  /** Models that may answer, and unknown fields. */
  readonly fields: FieldFindings;
  /** Token classes in which the prompt and the completion can be billed. */
  readonly classes: { readonly prompt: readonly TokenClass[]; readonly completion: readonly TokenClass[] };
  readonly prompt: PromptReader;
  /** True if the request asks for its own prompt as the answer, and for no output after it. */
  readonly onlyRepeatsPrompt?: boolean;
  /** True if Farebox cannot count the output, because it is not text or its kind is unknown. */
  readonly isUnseen?: boolean;
  /** True if the request asks for an answer in another format than JSON or events, or if the gateway may read it so. */
  readonly asksForText?: boolean;
  /** True if the cost is unknown, even if the model has a price. */
  readonly isUnpriced?: boolean;
  /**
   * Reason why the gateway might read a model or an output maximum that Farebox does not read; absent if it cannot.
   * Farebox refuses such a request if its key has an output cap or may use only certain models.
   */
  readonly unread?: string | undefined;
  /** Member that asks for output at a path without known fields; absent if there is none. */
  readonly outputMember?: string | undefined;
  /** Returns the largest number of seconds of an uploaded recording; undefined if its bytes do not bound them. */
  soundSeconds?(): Promise<number | undefined>;
  /**
   * Terms that decide the price, in addition to the size; absent for the standard service tier without hosted tools.
   */
  readonly terms?: RequestTerms;
  /** Number of pieces, such as images, to charge if the price is per request; 1 by default. */
  readonly pieces?: number;
  /** Number of characters of the text, for a model that is billed by characters. */
  readonly characters?: number;
  /** Field with the largest stated maximum of the output; absent if the request states no maximum. */
  readonly maximumField?: string;
  /** True if a truncated answer would be useless, because it may call tools or must be JSON. */
  readonly isCutWorthless?: boolean;
  /** True if the request states a thinking budget, which counts as output. */
  readonly hasThinkingBudget?: boolean;
  /** Tokens of thinking that the maximum includes and must exceed; absent if the request states none. */
  readonly thinkingTokens?: number;
}

/** Reads a prompt for counting. The endpoint must already have accepted the request. */
export interface PromptReader {
  /** Returns the texts that a tokenizer counts, without data URLs. */
  text(body: Buffer): PromptText;
  /**
   * Returns the number of bytes outside the texts that `text` returns: an upper bound for the tokens of tools, schemas
   * and other fields.
   */
  bytesOutside(body: Buffer): number;
}

export type ModelRequestResult = OrRefused<{ request: ModelRequest }>;

/** Model name for a request to a path without known fields that names no model. */
export const unnamedModel = "unnamed";

/** Largest valid output maximum of a request, in tokens. */
const largestMaximum = 100_000_000;

/** Pattern of the name of a model or a task type, which is stored with the charge. */
export const chargedName = /^[^\p{Cc}\p{Cs}]{1,256}$/u;

/** Inspected request body. Each long string is replaced by a placeholder that states its length. */
interface InspectedBody {
  readonly body: JsonObject & { readonly model: string };
  /** Findings from top-level fields that are neither `free` nor `priced`. */
  readonly findings: Findings;
}

/** Inspected JSON object, with the positions of its members in the skeleton. */
interface InspectedObject {
  readonly body: JsonObject;
  readonly skeleton: Buffer;
  readonly members: readonly JsonMember[];
  /** True if a member is repeated at a place where it may be. */
  readonly repeats: boolean;
}

/** Inspects a JSON body. Refuses a body that the gateway might read differently. */
export function inspectObject(bytes: Buffer, fields: RequestFields): OrRefused<InspectedObject> {
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
  if (ambiguous !== undefined) return ambiguous;
  const repeats = repeatsMember(skeleton, body);
  const repeated = repeats ? repeatedMember(skeleton, fields.repeatable) : undefined;
  return repeated === undefined ? { ok: true, body, skeleton, members, repeats } : givenTwice(repeated);
}

/** Returns the refusal of a member that is given twice. JSON parsers differ on which of the two counts. */
export function givenTwice(path: string): Refused {
  return invalid(path, `'${path}' is given twice`);
}

/** Inspects a request that names a model. */
export function inspectBody(bytes: Buffer, fields: RequestFields): OrRefused<InspectedBody> {
  const inspected = inspectObject(bytes, fields);
  if (!inspected.ok) return inspected;
  const { body, skeleton, members, repeats } = inspected;
  const fault = modelFault(body["model"]);
  if (fault !== undefined) return fault;
  const findings = new Findings();
  findings.modelsIn("model", String(body["model"]));
  findings.user = userInBody(body);
  for (const member of members) {
    const { name, valueStart, valueEnd } = member;
    const meaning = fields.meaningOf(name);
    if (repeats && meaning !== "free") recordRepeated(name, skeleton.subarray(valueStart, valueEnd), findings);
    if (meaning === "free" || meaning === "priced" || isNull(skeleton, member)) continue;
    findings.field(name, body[name], meaning);
    // Searches the bytes, because JSON parsers differ on which of two members with the same name counts.
    if (meaning === undefined || mayNameModels(meaning))
      findings.mentionInBytes(skeleton.subarray(valueStart, valueEnd));
  }
  if (findings.fault !== undefined) return findings.fault;
  return findings.hasTooMany ? tooManyNames : { ok: true, body: body as InspectedBody["body"], findings };
}

/**
 * Records a repeated member in a free part of a field as an unknown field, because Farebox and the gateway may read
 * different texts there.
 */
function recordRepeated(name: string, value: Buffer, findings: Findings): void {
  const repeated = repeatedMember(value, noPlaces);
  if (repeated === undefined) return;
  findings.unknownField(`${name}.${repeated}`, null);
  findings.mentionInBytes(value);
}

/** Refusal of a request that names too many models, or has too many texts in unknown fields. */
export const tooManyNames = invalid(
  null,
  `the request names more than ${mentionsMax.models} models, or has more than ${mentionsMax.texts} texts in fields that Farebox does not know`,
);

/** Returns the refusal of a model's name; undefined for a valid name. */
export function modelFault(model: unknown, field = "model"): Refused | undefined {
  if (typeof model !== "string" || model === "") return invalid(field, `you must provide a ${field} parameter`);
  return chargedName.test(model) ? undefined : invalid(field, `'${field}' must be a name of at most 256 characters`);
}

/**
 * Returns the refusal of a priced field that is repeated or written in another letter case; undefined if there is none.
 * JSON parsers differ on how they read such fields.
 */
export function ambiguousField(names: readonly string[], fields: RequestFields): Refused | undefined {
  const seen = new Set<string>();
  for (const name of names) {
    const priced = fields.fieldReadAs(name);
    if (priced === undefined) continue;
    if (priced !== name) return invalid(priced, `'${name}' must be written '${priced}'`);
    if (seen.has(name)) return givenTwice(name);
    seen.add(name);
  }
  return undefined;
}

/** Returns true if a field is null, which means that it is not set. */
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

/**
 * Returns the largest stated maximum and its field. The maximum is null if none is stated, and Infinity if one is not
 * valid or above `largestMaximum`.
 */
export function statedMaximum(body: JsonObject, ...fields: readonly string[]): StatedMaximum {
  let top: StatedMaximum = unstatedMaximum;
  for (const name of fields) {
    const stated = body[name];
    if (stated == null) continue;
    const outputMax = isValidMaximum(stated) ? stated : Infinity;
    if (top.outputMax === null || outputMax > top.outputMax) top = { outputMax, maximumField: { maximumField: name } };
  }
  return top;
}

interface StatedMaximum {
  readonly outputMax: number | null;
  readonly maximumField: { readonly maximumField?: string };
}

const unstatedMaximum: StatedMaximum = { outputMax: null, maximumField: {} };

/** Returns true if a stated maximum is valid. A gateway can obey only a valid maximum. */
export function isValidMaximum(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value > 0 && value <= largestMaximum;
}

/** Parses the whole body; undefined if it is not JSON in UTF-8. */
export function parseBody(bytes: Buffer): unknown {
  if (isAscii(bytes)) return parseJson(bytes.toString("latin1"));
  if (!isUtf8(bytes)) return undefined;
  return parseJson(bytes.toString("utf8"));
}

/** Parses a body, including its long strings. The endpoint must already have accepted the body. */
export function objectInFull(bytes: Buffer): JsonObject {
  return objectOr(parseBody(bytes));
}

/** Returns a function that parses the whole body when it is first called. */
export function wholeBody(bytes: Buffer): () => JsonObject {
  let whole: JsonObject | undefined;
  return () => (whole ??= objectInFull(bytes));
}

/** Returns the number of bytes outside the value of one field; the whole length if the request lacks the field. */
export function bytesOutside(bytes: Buffer, field: string): number {
  const found = jsonMembers(bytes).find((member) => member.name === field);
  return found === undefined ? bytes.length : bytes.length - (found.valueEnd - found.valueStart);
}

function invalidJson(message: string): Refused {
  return { ok: false, refusal: { code: "invalid_json", message } };
}

const tooMuch = invalid(
  null,
  `the request body has more than ${jsonBounds.values} JSON values, ${jsonBounds.names} names or ${jsonBounds.skeletonBytes} bytes outside long texts`,
);

/** Tool that a request declares, with its position: "tools[3]", or "tools[3].tools[0]" in a namespace. */
export interface ListedTool {
  readonly path: string;
  readonly tool: JsonObject;
  /** Table of the tool's members; undefined for a tool that may run at the gateway. */
  readonly members: RequestFields | "text" | undefined;
}

/**
 * Returns the tools of a list. The tools of a namespace follow the namespace. `known` contains the types that may run
 * at the client.
 */
export function listedTools(
  list: unknown,
  path: string,
  known: ReadonlyMap<string, RequestFields | "text">,
): ListedTool[] {
  return partsOf(list).flatMap((item, index) => {
    const tool = objectOr(item);
    const toolPath = `${path}[${index}]`;
    const listed = { path: toolPath, tool, members: runsAtClient(tool) ? known.get(textOr(tool["type"])) : undefined };
    if (listed.members === undefined || tool["type"] !== "namespace") return [listed];
    // A namespace contains only functions, so a namespace in a namespace is an unknown tool.
    return [listed, ...listedTools(tool["tools"], `${toolPath}.tools`, clientTools)];
  });
}

/**
 * Records tools in `findings`, because a tool of the gateway may name models. Returns all fields whose cost is not
 * bounded.
 */
export function unboundedFields(tools: readonly ListedTool[], findings: Findings): string[] {
  for (const { tool, members } of tools) {
    if (members === undefined) findings.mentionIn(tool);
    else if (members !== "text") findings.members("tools", tool, members);
    for (const marked of [tool, objectOr(tool["function"])]) findings.members("tools", marked, toolMarks, "free");
  }
  return findings.expensive;
}

/** Fields that request a hosted tool without declaring it. */
const toolFields: readonly (readonly [name: string, call: string])[] = [
  ["web_search_options", "web_search_call"],
  ["plugins", "plugin_call"],
];

/**
 * Returns the terms that decide a request's price, in addition to its size. Returns none for the standard rates without
 * hosted tools.
 */
export function requestTerms(
  body: JsonObject,
  tools: readonly ListedTool[],
  limits: Omit<HostedTools, "calls" | "fields">,
): { terms?: RequestTerms } {
  const rates = {
    serviceTier: serviceTierOf(body["service_tier"]),
    speed: factorValueOf("speed", body["speed"]),
    inferenceGeo: factorValueOf("inference_geo", body["inference_geo"]),
  };
  const hosted = tools.filter(({ members }) => members === undefined);
  const asking = toolFields.filter(([name]) => body[name] != null);
  if (variantName(rates) === null && hosted.length + asking.length === 0) return {};
  const calls = [...hosted.map(({ tool }) => callOf(tool)), ...asking.map(([, call]) => call)];
  const fields = [...hosted.map(nameOf), ...asking.map(([name]) => name)];
  return { terms: { ...rates, hostedTools: calls.length === 0 ? null : { calls, fields, ...limits } } };
}

/** Terms of hosted tools at endpoints where no field limits the calls, and an answer may not show every call. */
export const unlimitedTools: Pick<HostedTools, "areShown" | "callsMax"> = { areShown: false, callsMax: undefined };

/** Returns the item type of a hosted tool's calls: "web_search_call" for "web_search_2025_08_26". */
export function callOf(tool: JsonObject): string {
  const name = textOr(tool["type"]).replace(/_(?:\d{4}_\d{2}_\d{2}|\d{8})$/, "");
  return /^[a-z][a-z0-9_]{0,58}$/.test(name) && !hasVariants(tool) ? `${name}_call` : "other_call";
}

/** Returns the name of a tool for a refusal: "tools[3] (web_search)". */
export function nameOf({ path, tool }: ListedTool): string {
  const type = textOr(tool["type"]);
  return /^\w{1,64}$/.test(type) && !hasVariants(tool) ? `${path} (${type})` : path;
}

/** Members that decide where a tool runs. */
const placementMembers = ["type", "environment", "execution", "tools"] as const;

export function hasVariants(tool: JsonObject): boolean {
  return placementMembers.some((name) => hasVariantOf(name, tool));
}

/** Returns true if a tool of a known type runs at the client. A shell in a container, for example, does not. */
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
  /** Bytes of all payloads. They do not count as text, because the catalogue bounds the tokens of each part. */
  readonly payloadBytes: number;
}

/** Counts the parts of a prompt. */
export class CountedParts implements PromptParts {
  images = 0;
  audios = 0;
  files = 0;
  payloadBytes = 0;

  /** Counts a part. `payloadBytes` is exact for ASCII payloads (base64, addresses), otherwise a lower bound. */
  add(kind: "images" | "audios" | "files", payload: unknown): void {
    this[kind]++;
    if (typeof payload === "string") this.payloadBytes += lengthInFull(payload);
  }
}

/** Returns the parts of a content. Accepts a single part that is not in a list, as gateways do. */
export function partsOf(content: unknown): readonly unknown[] {
  return isObject(content) ? [content] : listOr(content);
}

/**
 * Returns the token classes in which the prompt can be billed. Content to which the body only refers may be images or
 * audio.
 */
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

/** Size of a request without messages, tools or parts. Its text is counted separately. */
export const noParts = { messages: 0, tools: 0, imageParts: 0, audioParts: 0, fileParts: 0 } as const;
