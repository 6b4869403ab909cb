import { invalid } from "../../core/refusals.ts";
import type { Endpoint } from "../endpoint.ts";
import { hasOutputIn, orError } from "../error-answer.ts";
import {
  includedData,
  itemMetadata,
  responseItems,
  responseParts,
  responsesFields,
  responseTools,
  shellResultMembers,
} from "../field-table.ts";
import { bufferedReader, type ModelAnswer } from "../model-answer.ts";
import { response, responseItem } from "../output-members.ts";
import {
  bytesOfPart,
  bytesWithout,
  isFromAssistant,
  recordReturned,
  recordReturnedPart,
  returnedMembers,
} from "../returned-members.ts";
import { failedResponseEvents } from "../refusals.ts";
import { readResponse, responsesTranscript } from "./responses-answer.ts";
import type { ChatText } from "../../core/prompt-text.ts";
import type { Findings } from "../findings.ts";
import { jsonOf, listOr, objectOr, parseJson, textOr, type JsonObject } from "../json.ts";
import {
  bytesOutside,
  CountedParts,
  inspectBody,
  listedTools,
  objectInFull,
  statedMaximum,
  partsOf,
  promptClasses,
  requestTerms,
  unboundedFields,
  wholeBody,
  type ModelRequestResult,
  type PromptParts,
  type PromptReader,
} from "../model-request.ts";
import { addTexts, imagesIn, outputSchemaOf, toolChoiceOf, ToolTurns } from "../prompt-text.ts";

const anyResponse: Endpoint = {
  route: "/v1/responses",
  fields: responsesFields,
  readRequest: readResponsesRequest,
  answerReader: () => bufferedReader(readAnswer),
  transcript: responsesTranscript,
  breakEvent: failedResponseEvents,
};

export const responses: Endpoint = {
  ...anyResponse,
  maximum: { api: "responses", fields: ["max_output_tokens"], absent: null },
};

/** Replaces the items of a conversation by an encrypted one. No field limits its length. Codex sends its tools too. */
export const compactedResponses: Endpoint = { ...anyResponse, route: "/v1/responses/compact", hasToolPolicy: true };

function readAnswer(bytes: Buffer): ModelAnswer | undefined {
  const parse = () => parseJson(bytes.toString("utf8"));
  return orError(readResponse(bytes), parse, (body) => hasOutputIn(body, response, { output_text: "text" }));
}

const prompt: PromptReader = {
  text: (body) => ({ kind: "chat", chat: chatOf(objectInFull(body)) }),
  bytesOutside: (body) => bytesOutside(body, "input") + bytesUncounted(body),
};

/** Types of items whose encrypted content replaces earlier items. */
const compactions: ReadonlySet<string> = new Set(["compaction", "compaction_summary", "context_compaction"]);

/** Types of input items that declare tools. */
const toolItems: ReadonlySet<string> = new Set(["additional_tools", "tool_search_output"]);

/**
 * Returns the number of bytes in `input` that are not counted as text: metadata, tools, and members that only earlier
 * answers have. A tool may have more tokens than its text.
 */
function bytesUncounted(body: Buffer): number {
  return itemsOf(objectInFull(body))
    .map((item) => {
      const counted = toolItems.has(textOr(item["type"])) ? item : item[itemMetadata];
      return Buffer.byteLength(jsonOf(counted) ?? "") + bytesOfAnswer(item);
    })
    .reduce((sum, bytes) => sum + bytes, 0);
}

/** Returns the number of bytes in a message or call that only an earlier answer has. Other items count as a whole. */
function bytesOfAnswer(item: JsonObject): number {
  const type = textOr(item["type"] ?? "message");
  const table = responseItems.get(type);
  if (typeof table !== "object" || !(callTypes.has(type) || (type === "message" && isFromAssistant(item)))) return 0;
  return partsOf(item["content"])
    .map((part) => bytesOfPart(part, responseParts))
    .reduce(
      (sum, bytes) => sum + bytes,
      bytesWithout(item, (name) => table.meaningOf(name) !== undefined),
    );
}

function itemsOf({ input }: JsonObject): JsonObject[] {
  return listOr(input).map(objectOr);
}

export function readResponsesRequest(bytes: Buffer): ModelRequestResult {
  const inspected = inspectBody(bytes, responsesFields);
  if (!inspected.ok) return inspected;
  const { body, findings } = inspected;
  const { input } = body;
  if (input !== undefined && input !== null && typeof input !== "string" && !Array.isArray(input)) {
    return invalid("input", "'input' must be a text or a list of items");
  }
  for (const item of listOr(input)) if (Array.isArray(item)) findings.unknownField("input", item);
  const items = itemsOf(body);
  const { outputMax, maximumField } = statedMaximum(body, "max_output_tokens");
  const parts = readParts(items, bytes, findings);
  const tools = [
    ...listedTools(body["tools"], "tools", responseTools),
    ...items.flatMap(({ type, tools: declared }, index) =>
      toolItems.has(textOr(type)) ? listedTools(declared, `input[${index}].tools`, responseTools) : [],
    ),
  ];
  const unbounded = unboundedFields(tools, findings);
  if (findings.fault !== undefined) return findings.fault;
  for (const name of listOr(body["include"])) if (!includedData.has(name)) findings.unknownField("include", name);
  return {
    ok: true,
    request: {
      model: body.model,
      stream: body["stream"] === true,
      // Streams of the Responses API always report their usage.
      wantsStreamUsage: true,
      size: {
        textBytes: bytes.length - parts.payloadBytes,
        messages: Math.max(items.length, 1) + 1,
        tools: tools.length,
        imageParts: parts.images,
        audioParts: parts.audios,
        fileParts: parts.files,
        choices: 1,
        outputMax,
        unboundedFields: findings.context,
      },
      unboundedFields: [...unbounded, ...unseenFields(body)],
      ...maximumField,
      isCutWorthless: tools.length > 0 || requiresFormat(body),
      hasThinkingBudget: objectOr(body["reasoning"])["max_tokens"] != null,
      ...requestTerms(body, tools, { areShown: true, callsMax: toolCallsMax(body["max_tool_calls"]) }),
      fields: findings,
      classes: { prompt: promptClasses(parts, findings), completion: ["output", "reasoning"] },
      prompt,
    },
  };
}

/** Returns the stated maximum for the calls of all hosted tools together; null if the request states none. */
function toolCallsMax(stated: unknown): number | "malformed" | null {
  if (stated === undefined || stated === null) return null;
  return typeof stated === "number" && Number.isInteger(stated) && stated >= 0 ? stated : "malformed";
}

/**
 * Returns a list with "background" if the field is set; otherwise an empty list. The answer to a background request
 * arrives before the model has run, so it has no usage.
 */
function unseenFields(body: JsonObject): string[] {
  return (body["background"] ?? false) === false ? [] : ["background"];
}

function requiresFormat(body: JsonObject): boolean {
  const format = objectOr(body["text"])["format"];
  return format != null && objectOr(format)["type"] !== "text";
}

function readParts(items: readonly JsonObject[], bytes: Buffer, findings: Findings): PromptParts {
  const found = new CountedParts();
  const whole = wholeBody(bytes);
  for (const [index, item] of items.entries()) {
    const inFull = () => itemsOf(whole())[index];
    const isAnswer = readItem(item, inFull, findings);
    // Earlier output of tools and models has other kinds of parts, so Farebox holds the model's whole context for it.
    const isHistory = responseItems.get(textOr(item["type"])) === "history";
    for (const [at, each] of partsIn(item).entries()) {
      const part = objectOr(each);
      const inPart = () => partsIn(objectOr(inFull()))[at];
      if (item["type"] === "shell_call_output") findings.members("input.output", part, shellResultMembers);
      else if (isAnswer)
        recordReturnedPart(each, { path: "input.content", kinds: responseParts, inFull: inPart }, findings);
      else if (!isHistory) findings.kind("input.content", part, responseParts);
      if (part["type"] === "input_image") found.add("images", part["image_url"]);
      else if (part["type"] === "input_audio") found.add("audios", objectOr(part["input_audio"])["data"]);
      else if (part["type"] === "input_file") found.add("files", part["file_data"]);
    }
  }
  return found;
}

function partsIn(item: JsonObject): readonly unknown[] {
  return [...partsOf(item["content"]), ...partsOf(item["output"])];
}

/** Types of items that a model writes and clients send back, other than messages. */
const returnedTypes: ReadonlySet<string> = new Set([
  "function_call",
  "custom_tool_call",
  "reasoning",
  "local_shell_call",
  "shell_call",
  "apply_patch_call",
  "tool_search_call",
  ...compactions,
]);

/** Records the members of an item. Returns true for an assistant's message. */
function readItem(item: JsonObject, inFull: () => unknown, findings: Findings): boolean {
  const type = textOr(item["type"] ?? "message");
  const table = responseItems.get(type);
  const isAnswer = type === "message" && isFromAssistant(item);
  if (typeof table !== "object" || (!isAnswer && !returnedTypes.has(type))) {
    findings.kind("input", item, responseItems, "message");
    return false;
  }
  findings.members("input", item, table, "free");
  const isRead = (name: string) => table.meaningOf(name) !== undefined;
  const returned = { object: item, path: "input", shape: responseItem, isRead, inFull };
  if (isAnswer) recordReturned(returned, findings);
  else for (const { path, name } of returnedMembers(returned)) findings.unknownField(path, item[name]);
  // A compaction without its content refers to one that the gateway has stored.
  if (compactions.has(type) && textOr(item["encrypted_content"]) === "") findings.unknownField(`input.${type}`, item);
  return isAnswer;
}

/**
 * Returns the request as a chat. Function calls and results are turns; instructions and all other items are messages.
 */
function chatOf(body: JsonObject): ChatText {
  const { instructions, input } = body;
  const texts: string[] = [];
  const tools = new ToolTurns();
  const hasInstructions = typeof instructions === "string" && instructions !== "";
  if (hasInstructions) texts.push("system", instructions);
  if (typeof input === "string") texts.push("user", input);
  const items = itemsOf(body);
  let messages = (hasInstructions ? 1 : 0) + (Array.isArray(input) ? 0 : 1);
  for (const item of items) {
    const type = textOr(item["type"]);
    if (callTypes.has(type)) {
      tools.calls("tool", [{ name: textOr(item["name"]), arguments: textOr(item["arguments"] ?? item["input"]) }]);
    } else if (resultTypes.has(type)) {
      tools.result("tool", item["output"]);
    } else {
      messages++;
      if (isTextual(type)) texts.push(jsonOf(withoutPayloads(item)) ?? "");
      else for (const name of ["role", "content", "output", "name", "arguments", "input"]) addTexts(item[name], texts);
    }
  }
  const format = objectOr(objectOr(body["text"])["format"]);
  return {
    api: "responses",
    texts,
    messages,
    names: 0,
    hasSystem: hasInstructions || items.some(({ role }) => role === "system" || role === "developer"),
    turns: tools.turns,
    tools: listOr(body["tools"]),
    toolChoice: toolChoiceOf(body["tool_choice"]),
    isSequential: body["parallel_tool_calls"] === false,
    schema: format["type"] === "json_schema" ? outputSchemaOf(format) : null,
    images: items.flatMap(({ content, output }) => [content, output].flatMap((each) => imagesIn(each, "input_image"))),
  };
}

/** Returns an item without the data of media in its parts, which are bounded by the part. */
function withoutPayloads(item: JsonObject): JsonObject {
  const without = (parts: unknown) =>
    partsOf(parts).map((part) => {
      const payload = payloadsOf.get(objectOr(part)["type"]);
      return payload === undefined ? part : { ...objectOr(part), [payload]: undefined };
    });
  const { content, output } = item;
  return {
    ...item,
    ...(content !== null && typeof content === "object" && { content: without(content) }),
    ...(output !== null && typeof output === "object" && { output: without(output) }),
  };
}

/** Members that contain the data of parts, by the type of the part. */
const payloadsOf: ReadonlyMap<unknown, string> = new Map([
  ["input_image", "image_url"],
  ["input_audio", "input_audio"],
  ["input_file", "file_data"],
]);

/**
 * Returns true if items of a type contain only text. A message may contain images. An item that the gateway created may
 * contain other data.
 */
function isTextual(type: string): boolean {
  return type !== "message" && typeof responseItems.get(type) === "object";
}

const callTypes: ReadonlySet<string> = new Set(["function_call", "custom_tool_call"]);
const resultTypes: ReadonlySet<string> = new Set(["function_call_output", "custom_tool_call_output"]);
