import { isAscii, isUtf8 } from "node:buffer";
import type { RequestSize } from "../core/bounds.ts";
import type { ChatText } from "../core/chat-text.ts";
import type { Refusal } from "../core/refusals.ts";
import type { TokenClass } from "../core/tokens.ts";
import { clientTools, hasTwinOf, meaningOf, messageMembers, partMembers, plainServiceTiers, pricedTwin } from "./chat-fields.ts";
import { isObject, listOr, objectOr, parseJson, type JsonObject } from "./json.ts";
import { replaced } from "./json-edit.ts";
import { jsonMembers, type JsonMember } from "./json-keys.ts";
import { jsonBounds, jsonSkeleton, lengthInFull } from "./json-skeleton.ts";

/** What a chat request says that matters for its price and its forwarding. The bytes themselves are never changed. */
export interface ChatRequest {
  readonly model: string;
  readonly stream: boolean;
  /** Whether the client asked for a usage chunk in its stream. */
  readonly wantsStreamUsage: boolean;
  readonly size: RequestSize;
  /** Fields whose cost nothing bounds; such a request is refused under a hard budget. */
  readonly unboundedFields: readonly string[];
  /** Classes that a token of the prompt or of the completion can be billed as. */
  readonly classes: { readonly prompt: readonly TokenClass[]; readonly completion: readonly TokenClass[] };
}

export type ChatRequestResult =
  | { readonly ok: true; readonly request: ChatRequest }
  | { readonly ok: false; readonly refusal: Refusal };

/** A stated maximum above this is absurd. */
const outputLimitMax = 100_000_000;

/** What a model can be called: it is written down with the charge. */
const modelName = /^[^\p{Cc}\p{Cs}]{1,256}$/u;

/** Reads a chat request for looking only. Refuses what the gateway might read differently. */
export function readChatRequest(bytes: Buffer): ChatRequestResult {
  const skeleton = jsonSkeleton(bytes);
  if (skeleton === undefined) return tooMuch;
  const body = isAscii(bytes) || isUtf8(bytes) ? parseJson(skeleton.toString("utf8")) : undefined;
  if (body === undefined) return invalidJson("The request body is not valid JSON in UTF-8.");
  if (!isObject(body)) return invalidJson("The request body must be a JSON object.");

  const members = jsonMembers(skeleton, jsonBounds.names + 1);
  if (members.length > jsonBounds.names) return tooMuch;
  const ambiguous = ambiguousField(members);
  if (ambiguous !== undefined) return ambiguous;
  if (typeof body["model"] !== "string" || body["model"] === "") {
    return invalid("model", "you must provide a model parameter");
  }
  if (!modelName.test(body["model"])) return invalid("model", "'model' must be a name of at most 256 characters");
  if (!Array.isArray(body["messages"]) || body["messages"].length === 0) {
    return invalid("messages", "'messages' must be a list with at least one message");
  }
  const choices = body["n"] ?? 1;
  if (typeof choices !== "number" || !Number.isInteger(choices) || choices < 1 || choices > 1000) {
    return invalid("n", "'n' must be a whole number of at least 1");
  }
  const parts = readParts(body["messages"]);
  const given = members.filter((member) => !isNull(skeleton, member)).map((member) => member.name);
  const context = given.filter((name) => meaningOf(name) === "context");
  return {
    ok: true,
    request: {
      model: body["model"],
      stream: body["stream"] === true,
      wantsStreamUsage: objectOr(body["stream_options"])["include_usage"] === true,
      size: {
        textBytes: bytes.length - parts.payloadBytes,
        messages: body["messages"].length,
        tools: listOr(body["tools"]).length + listOr(body["functions"]).length,
        imageParts: parts.images,
        audioParts: parts.audios,
        fileParts: parts.files,
        choices,
        outputLimit: outputLimit(body),
        unboundedFields: [...context, ...parts.unknown],
      },
      unboundedFields: unboundedFields(body, given),
      classes: classesOf(body, parts),
    },
  };
}

function parseBody(bytes: Buffer): unknown {
  if (isAscii(bytes)) return parseJson(bytes.toString("latin1"));
  if (!isUtf8(bytes)) return undefined;
  return parseJson(bytes.toString("utf8"));
}

/** A priced field given twice, or under a name that another reader would fold into it. */
function ambiguousField(members: readonly JsonMember[]): ChatRequestResult | undefined {
  const seen = new Set<string>();
  for (const { name } of members) {
    const priced = pricedTwin(name);
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

function unboundedFields(body: JsonObject, given: readonly string[]): string[] {
  const fields = given.filter((name) => meaningOf(name) === "unbounded");
  const tier = body["service_tier"] ?? "auto";
  if (typeof tier !== "string" || !plainServiceTiers.includes(tier)) fields.push("service_tier");
  if (listOr(body["tools"]).some((tool) => !runsAtClient(objectOr(tool)))) fields.push("tools");
  return fields;
}

function runsAtClient(tool: JsonObject): boolean {
  return clientTools.includes(String(tool["type"])) && !hasTwinOf("type", tool);
}

/** The larger stated maximum; null when none is stated, infinite when one is malformed or absurd. */
function outputLimit(body: JsonObject): number | null {
  const stated = [body["max_tokens"], body["max_completion_tokens"]].filter((value) => value !== undefined && value !== null);
  if (stated.length === 0) return null;
  const sound = stated.every(
    (value) => typeof value === "number" && Number.isInteger(value) && value > 0 && value <= outputLimitMax,
  );
  return sound ? Math.max(...(stated as number[])) : Infinity;
}

interface Parts {
  readonly images: number;
  readonly audios: number;
  readonly files: number;
  /** Bytes of payloads that the catalogue bounds by the part, never by length. */
  readonly payloadBytes: number;
  /** Parts whose tokens the body does not show. */
  readonly unknown: readonly string[];
}

function readParts(messages: readonly unknown[]): Parts {
  const found = { images: 0, audios: 0, files: 0, payloadBytes: 0 };
  const unknown = new Set<string>();
  for (const message of messages) {
    const { content, audio } = objectOr(message) as { content?: unknown; audio?: unknown };
    if (audio !== undefined && audio !== null) unknown.add("messages.audio");
    if (hasUnknownMember(objectOr(message), (name) => messageMembers.has(name))) unknown.add("messages");
    for (const part of listOr(content)) {
      const { type, image_url, input_audio, file } = objectOr(part);
      if (!isKnownPart(objectOr(part))) unknown.add("messages.content");
      switch (type) {
        case "image_url":
          found.images++;
          found.payloadBytes += payloadLength(isObject(image_url) ? image_url["url"] : image_url);
          break;
        case "input_audio":
          found.audios++;
          found.payloadBytes += payloadLength(objectOr(input_audio)["data"]);
          break;
        case "file":
          found.files++;
          found.payloadBytes += payloadLength(objectOr(file)["file_data"]);
          break;
      }
    }
  }
  return { ...found, unknown: [...unknown] };
}

function isKnownPart(part: JsonObject): boolean {
  const type = String(part["type"]);
  const members = Object.hasOwn(partMembers, type) ? partMembers[type] : undefined;
  return members !== undefined && !hasUnknownMember(part, (name) => name === "type" || members.includes(name));
}

function hasUnknownMember(object: JsonObject, isKnown: (name: string) => boolean): boolean {
  for (const name in object) if (!isKnown(name) && object[name] !== null) return true;
  return false;
}

/** ASCII payloads (base64, addresses) have as many bytes as characters; counting others low would be unsafe. */
function payloadLength(value: unknown): number {
  return typeof value === "string" ? lengthInFull(value) : 0;
}

function classesOf(body: JsonObject, parts: Parts): ChatRequest["classes"] {
  const prompt: TokenClass[] = ["input", "cached_input", "cache_write"];
  if (parts.images > 0) prompt.push("image_input");
  if (parts.audios > 0) prompt.push("audio_input");
  const completion: TokenClass[] = ["output", "reasoning"];
  const modalities = listOr(body["modalities"]);
  if (modalities.includes("audio")) completion.push("audio_output");
  if (modalities.includes("image")) completion.push("image_output");
  return { prompt, completion };
}

const tooMuch = invalid(
  null,
  `the request body has more than ${jsonBounds.values} JSON values, ${jsonBounds.names} names or ${jsonBounds.skeletonBytes} bytes beside its long texts`,
);

function invalidJson(message: string): ChatRequestResult {
  return { ok: false, refusal: { code: "invalid_json", message } };
}

function invalid(param: string | null, message: string): ChatRequestResult {
  return { ok: false, refusal: { code: "invalid_request", param, message } };
}

/**
 * The texts of a chat request that a tokenizer counts; the request must have been read before. Never a data URL. A request
 * that is no JSON inside of a long string, which its reading does not see, counts with all that it has.
 */
export function chatTextOf(bytes: Buffer): ChatText {
  const parsed = parseBody(bytes);
  if (parsed === undefined) return { texts: [bytes.toString("utf8")], messages: 1, names: 0, tools: [] };
  const body = objectOr(parsed);
  const messages = listOr(body["messages"]).map(objectOr);
  const texts: string[] = [];
  let names = 0;
  for (const message of messages) {
    if (typeof message["role"] === "string") texts.push(message["role"]);
    if (typeof message["name"] === "string") {
      texts.push(message["name"]);
      names++;
    }
    addContentTexts(message["content"], texts);
    for (const call of [...listOr(message["tool_calls"]), { function: message["function_call"] }]) {
      const { name, arguments: given } = objectOr(objectOr(call)["function"]);
      for (const text of [name, given]) if (typeof text === "string") texts.push(text);
    }
  }
  const tools = [...listOr(body["tools"]), ...listOr(body["functions"])];
  return { texts, messages: messages.length, names, tools };
}

function addContentTexts(content: unknown, into: string[]): void {
  if (typeof content === "string") into.push(content);
  for (const part of listOr(content)) {
    const { text, refusal } = objectOr(part);
    for (const value of [text, refusal]) if (typeof value === "string") into.push(value);
  }
}

/** Bytes of the request outside its messages: a bound for what tools, schemas and other fields add to the prompt. */
export function bytesBesideMessages(bytes: Buffer): number {
  const messages = jsonMembers(bytes).find((member) => member.name === "messages");
  return messages === undefined ? bytes.length : bytes.length - (messages.valueEnd - messages.valueStart);
}

/** The same request to another model, or to one where it names none; every other byte stays as it was. */
export function withModel(bytes: Buffer, model: string): Buffer {
  const stated = jsonMembers(bytes).findLast((member) => member.name === "model");
  if (stated !== undefined) return replaced(bytes, stated.valueStart, stated.valueEnd, JSON.stringify(model));
  const brace = bytes.indexOf("{") + 1;
  const isEmpty = jsonMembers(bytes).length === 0;
  return replaced(bytes, brace, brace, `"model":${JSON.stringify(model)}${isEmpty ? "" : ","}`);
}

/** The same request asking for stream usage as well; every other byte stays as it was. */
export function withStreamUsage(bytes: Buffer): Buffer {
  const stated = jsonMembers(bytes).find((member) => member.name === "stream_options");
  if (stated === undefined) {
    const brace = bytes.indexOf("{") + 1;
    return replaced(bytes, brace, brace, '"stream_options":{"include_usage":true},');
  }
  const { valueStart, valueEnd } = stated;
  const options = bytes.subarray(valueStart, valueEnd);
  if (options[0] !== 0x7b) return replaced(bytes, valueStart, valueEnd, '{"include_usage":true}');
  const members = jsonMembers(options);
  const wishes = members.filter((member) => member.name === "include_usage");
  if (wishes.length === 0) {
    const brace = valueStart + 1;
    return replaced(bytes, brace, brace, members.length === 0 ? '"include_usage":true' : '"include_usage":true,');
  }
  return wishes.reduceRight(
    (whole, wish) => replaced(whole, valueStart + wish.valueStart, valueStart + wish.valueEnd, "true"),
    bytes,
  );
}
