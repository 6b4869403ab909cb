import type { HostedTools } from "../../core/bounds.ts";
import type { ChatText } from "../../core/prompt-text.ts";
import { invalid } from "../../core/refusals.ts";
import type { TokenClass } from "../../core/usage.ts";
import { anthropicErrorEvent } from "../anthropic-error.ts";
import type { Endpoint } from "../endpoint.ts";
import { userInBody, type Findings } from "../findings.ts";
import { isObject, jsonMembers, jsonOf, listOr, objectOr, textOr, type JsonObject } from "../json.ts";
import {
  clearingEdit,
  contextMembers,
  limitedTools,
  messagesBlocks,
  messagesFields,
  messagesHeaders,
  messagesMembers,
  sources,
  toolsOfClients,
} from "../messages-fields.ts";
import { bufferedReader } from "../model-answer.ts";
import {
  CountedParts,
  hasVariants,
  inspectBody,
  isValidMaximum,
  nameOf,
  objectInFull,
  partsOf,
  promptClasses,
  requestTerms,
  statedMaximum,
  unboundedFields,
  type ListedTool,
  type ModelRequest,
  type ModelRequestResult,
  type PromptParts,
  type PromptReader,
} from "../model-request.ts";
import { addTexts, imageSizeOf, noChat, toolChoiceOf, ToolTurns } from "../prompt-text.ts";
import { messagesTranscript, readAnswer } from "./messages-answer.ts";

/** Anthropic's Messages API. */
export const messages: Endpoint = {
  route: "/v1/messages",
  fields: messagesFields,
  headerValues: messagesHeaders,
  readRequest: readMessagesRequest,
  answerReader: () => bufferedReader(readAnswer),
  transcript: messagesTranscript,
  maximum: { api: null, fields: ["max_tokens"], absent: null, isRequired: true },
  breakEvent: anthropicErrorEvent,
};

const prompt: PromptReader = {
  text: (body) => ({ kind: "chat", chat: chatOf(objectInFull(body)) }),
  bytesOutside: (body) =>
    jsonMembers(body)
      .filter(({ name }) => name === "messages" || name === "system")
      .reduce((bytes, { valueStart, valueEnd }) => bytes - (valueEnd - valueStart), body.length),
};

/** Reads a request without changing it. Refuses a request that the gateway might read differently. */
export function readMessagesRequest(bytes: Buffer): ModelRequestResult {
  const inspected = inspectBody(bytes, messagesFields);
  if (!inspected.ok) return inspected;
  const { body, findings } = inspected;
  if (!Array.isArray(body["messages"]) || body["messages"].length === 0) {
    return invalid("messages", "'messages' must be a list with at least one message");
  }
  findings.user ??= userInBody({ safety_identifier: objectOr(body["metadata"])["user_id"] });
  const parts = readParts(body, findings);
  readContextManagement(body["context_management"], findings);
  if (body["fallbacks"] != null) findings.tooExpensive("fallbacks", "the attempt of each model may be billed");
  const tools = toolsIn(body["tools"]);
  const terms = termsOf(body, tools, findings);
  const unbounded = unboundedFields(
    tools.filter((tool) => !limitedTools.has(kindOf(tool))),
    findings,
  );
  if (findings.fault !== undefined) return findings.fault;
  return {
    ok: true,
    request: {
      model: body.model,
      stream: body["stream"] === true,
      // Streams of this API always report their usage.
      wantsStreamUsage: true,
      size: {
        textBytes: bytes.length - parts.payloadBytes + repeatedBytes(parts.references, tools, bytes),
        messages: body["messages"].length + partsOf(body["system"]).length,
        tools: tools.length,
        instructionTokens: instructionTokens(body, tools),
        imageParts: parts.images,
        audioParts: 0,
        fileParts: parts.files,
        choices: 1,
        outputMax: body["max_tokens"] === 0 ? 0 : statedMaximum(body, "max_tokens").outputMax,
        unboundedFields: findings.context,
      },
      unboundedFields: unbounded,
      ...statedMaximum(body, "max_tokens").maximumField,
      isCutWorthless: tools.length > 0 || requiresFormat(body),
      ...thinkingTokens(body),
      ...terms,
      fields: findings,
      classes: { prompt: classesOf(bytes, parts, findings), completion: ["output", "reasoning"] },
      prompt,
    },
  };
}

/** Parts of a prompt, and the names of the tools to which its tool results refer. */
class MessageParts extends CountedParts implements PromptParts {
  readonly references: string[] = [];
}

function readParts(body: JsonObject, findings: Findings): MessageParts {
  const found = new MessageParts();
  for (const block of partsOf(body["system"])) readBlock("system", block, findings, found);
  for (const message of listOr(body["messages"])) {
    if (!isObject(message)) findings.unknownField("messages", message);
    findings.members("messages", objectOr(message), messagesMembers);
    for (const block of partsOf(objectOr(message)["content"])) readBlock("messages.content", block, findings, found);
  }
  return found;
}

/** Largest depth of blocks in blocks. No documented block is deeper. */
const blockDepthMax = 8;

function readBlock(path: string, block: unknown, findings: Findings, found: MessageParts, depth = 0): void {
  if (depth > blockDepthMax) return findings.unknownField(path, block);
  findings.kind(path, block, messagesBlocks);
  const { type, source, content, tool_name, tool_references } = objectOr(block);
  if (type === "tool_reference") found.references.push(textOr(tool_name));
  if (type === "image" || type === "document") readSource(`${path}.source`, type, source, findings, found, depth);
  for (const inner of [...partsOf(content), ...partsOf(tool_references)])
    readBlock(path, inner, findings, found, depth + 1);
}

function readSource(
  path: string,
  of: "image" | "document",
  source: unknown,
  findings: Findings,
  found: MessageParts,
  depth: number,
): void {
  findings.kind(path, source, sources);
  const { type, data, url, content } = objectOr(source);
  const isText = of === "document" && (type === "text" || type === "content");
  if (!isText) found.add(of === "image" ? "images" : "files", type === "url" ? url : data);
  for (const inner of partsOf(content)) readBlock(`${path}.content`, inner, findings, found, depth + 1);
}

/** Records edits of the prompt that do more than clear parts of it, such as a summary by the model. */
function readContextManagement(stated: unknown, findings: Findings): void {
  if (stated === undefined || stated === null) return;
  const path = "context_management";
  if (!isObject(stated)) return findings.unknownField(path, stated);
  findings.members(path, stated, contextMembers);
  partsOf(stated["edits"]).forEach((edit, index) => {
    const { type } = objectOr(edit);
    if (clearingEdit.test(textOr(type)) && !hasVariants(objectOr(edit))) return;
    const name = /^\w{1,64}$/.test(textOr(type)) ? ` (${textOr(type)})` : "";
    findings.tooExpensive(`${path}.edits[${index}]${name}`, "the model may run again to shorten the prompt");
  });
}

function toolsIn(list: unknown): ListedTool[] {
  return partsOf(list).map((item, index) => {
    const listed: ListedTool = { path: `tools[${index}]`, tool: objectOr(item), members: undefined };
    return toolsOfClients.has(kindOf(listed)) ? { ...listed, members: "text" } : listed;
  });
}

/** Returns the type of a tool without its date; "" for a tool whose type readers could read differently. */
function kindOf({ tool }: ListedTool): string {
  if (hasVariants(tool)) return "";
  const { type } = tool;
  return type === undefined || type === null ? "custom" : textOr(type).replace(/_\d{8}$/, "");
}

/** Largest number of calls that the tools of a request may make together. */
const callsMax = 1000;

/** Returns the terms of a request. The cost of a tool of the gateway is bounded only by the tool's `max_uses`. */
function termsOf(body: JsonObject, tools: readonly ListedTool[], findings: Findings): Pick<ModelRequest, "terms"> {
  const hosted = tools.filter(({ members }) => members === undefined);
  for (const { tool, members } of hosted.map((each) => ({ ...each, members: limitedTools.get(kindOf(each)) })))
    if (members !== undefined) findings.members("tools", tool, members);
  const calls = hosted.reduce((sum, each) => sum + usesMax(each), 0);
  const unlimited = calls > callsMax ? hosted.filter((each) => usesMax(each) > callsMax) : [];
  const callsOf = calls > callsMax ? undefined : calls;
  const fetches = hosted.filter((each) => kindOf(each) === "web_fetch");
  const limits: Omit<HostedTools, "calls" | "fields"> = {
    areShown: true,
    callsMax: callsOf,
    areLimited: true,
    ...(fetches.length > 0 && { freeCalls: { web_fetch_call: Math.max(...fetches.map(tokensPerFetch)) } }),
  };
  const { terms } = requestTerms(body, tools, limits);
  if (terms === undefined) return {};
  const fields = unlimited.length === 0 ? terms.hostedTools?.fields : unlimited.map(nameOf);
  return { terms: { ...terms, hostedTools: terms.hostedTools && { ...terms.hostedTools, fields: fields ?? [] } } };
}

/** Returns the largest number of calls of a tool; Infinity if nothing limits them. */
function usesMax(listed: ListedTool): number {
  const { max_uses: stated } = listed.tool;
  return limitedTools.has(kindOf(listed)) && isValidMaximum(stated) ? stated : Infinity;
}

function tokensPerFetch({ tool: { max_content_tokens: stated } }: ListedTool): number {
  return isValidMaximum(stated) ? stated : Infinity;
}

/**
 * Tokens of instructions that the gateway adds and the request does not show. ASSUMPTION: above the published numbers,
 * which are 313 to 804 for a request with tools, and up to 735 for a tool that Anthropic defines.
 */
const addedTokens = { tools: 1000, definedTool: 3000 } as const;

function instructionTokens(body: JsonObject, tools: readonly ListedTool[]): number {
  const defined = tools.filter((tool) => kindOf(tool) !== "custom").length;
  return (tools.length > 0 || requiresFormat(body) ? addedTokens.tools : 0) + defined * addedTokens.definedTool;
}

/**
 * Returns the bytes of tools that the prompt contains again. A reference to a tool becomes its whole definition, and only
 * the first one of a deferred tool is in the request.
 */
function repeatedBytes(references: readonly string[], tools: readonly ListedTool[], bytes: Buffer): number {
  if (references.length === 0) return 0;
  const seen = new Set(tools.flatMap(({ tool }) => (tool["defer_loading"] === true ? [] : [textOr(tool["name"])])));
  const repeated = references.filter((name) => seen.size === seen.add(name).size);
  if (repeated.length === 0) return 0;
  const sizes = new Map(
    partsOf(objectInFull(bytes)["tools"]).map((tool) => [
      textOr(objectOr(tool)["name"]),
      Buffer.byteLength(jsonOf(tool) ?? ""),
    ]),
  );
  return repeated.reduce((sum, name) => sum + (sizes.get(name) ?? 0), 0);
}

/** Returns the thinking that the request's maximum includes. Thinking between tool calls may exceed the maximum. */
function thinkingTokens(body: JsonObject): Pick<ModelRequest, "thinkingTokens"> {
  const { budget_tokens: stated } = objectOr(body["thinking"]);
  const { outputMax } = statedMaximum(body, "max_tokens");
  return isValidMaximum(stated) && stated < (outputMax ?? Infinity) ? { thinkingTokens: stated } : {};
}

function requiresFormat(body: JsonObject): boolean {
  const { format } = objectOr(body["output_config"]);
  return format !== undefined && format !== null;
}

/** Returns the token classes of the prompt. Only a part that `cache_control` marks is written to a cache. */
function classesOf(bytes: Buffer, parts: MessageParts, findings: Findings): TokenClass[] {
  const classes = promptClasses(parts, findings);
  if (!mayContain(bytes, "cache_control")) return classes.filter((name) => !name.startsWith("cache_write"));
  // An unknown block may have a lifetime that is not read.
  const mayCacheForHour = !findings.cachesForHour && findings.unknown.length > 0 && mayContain(bytes, "1h");
  return mayCacheForHour ? [...classes, "cache_write_1h"] : classes;
}

/** Returns true if JSON contains a text, or may contain it with letters that are written as escapes. */
function mayContain(json: Buffer, text: string): boolean {
  if (json.includes(text)) return true;
  for (let at = json.indexOf("\\u00"); at !== -1; at = json.indexOf("\\u00", at + 1)) {
    const digit = json[at + 4] ?? 0;
    if (digit >= 0x33 && digit <= 0x37) return true;
  }
  return false;
}

/** Returns the request as a chat, to count its tokens. */
function chatOf(body: JsonObject): ChatText {
  const texts: string[] = [];
  const turns = new ToolTurns();
  const images: ChatText["images"][number][] = [];
  const all = listOr(body["messages"]).map(objectOr);
  const hasSystem = body["system"] != null;
  if (hasSystem) texts.push("system");
  for (const content of [body["system"], ...all.flatMap(({ role, content: of }) => [role, of])])
    addContent(content, texts, turns, images);
  return {
    ...noChat,
    texts,
    messages: all.length + (hasSystem ? 1 : 0),
    hasSystem,
    turns: turns.turns,
    tools: partsOf(body["tools"]).map(asFunction),
    toolChoice: toolChoiceOf(body["tool_choice"]),
    images,
  };
}

function addContent(content: unknown, texts: string[], turns: ToolTurns, images: ChatText["images"][number][]): void {
  if (typeof content === "string") texts.push(content);
  for (const block of partsOf(content).map(objectOr)) {
    const { type, name, input, source, citations } = block;
    const { type: form, data, media_type } = objectOr(source);
    if (type === "tool_use") turns.calls("tool", [{ name: textOr(name), arguments: jsonOf(input) ?? "" }]);
    else if (type === "tool_result") addContent(block["content"], texts, turns, images);
    else if (type === "image") {
      const url = form === "base64" ? `data:${textOr(media_type)};base64,${textOr(data)}` : null;
      images.push({ size: imageSizeOf(url), detail: "auto" });
    } else if (plainBlocks.has(type)) {
      addTexts([block], texts);
      if (citations != null) texts.push(jsonOf(citations) ?? "");
    } else {
      const isFile = form === "base64" || form === "url";
      texts.push(jsonOf(isFile ? { ...block, source: undefined } : block) ?? "");
    }
  }
}

/** Blocks of which only the texts reach the model. */
const plainBlocks: ReadonlySet<unknown> = new Set(["text", "thinking", "redacted_thinking"]);

/** Returns a tool in the form of a chat's function. */
function asFunction(tool: unknown): unknown {
  const { name, description, input_schema } = objectOr(tool);
  if (input_schema === undefined) return tool;
  return { type: "function", function: { name, description, parameters: input_schema } };
}
