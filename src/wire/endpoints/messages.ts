import { plausibleCallsMax, toolTextTokens, type HostedTools } from "../../core/bounds.ts";
import { invalid } from "../../core/refusals.ts";
import type { TokenClass } from "../../core/usage.ts";
import { anthropicErrorEvent } from "../anthropic-error.ts";
import type { Endpoint } from "../endpoint.ts";
import { userInBody, type Findings } from "../findings.ts";
import { isObject, jsonOf, listOr, objectOr, textOr, type JsonObject } from "../json.ts";
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
  wholeBody,
  type ListedTool,
  type ModelRequest,
  type ModelRequestResult,
  type PromptParts,
} from "../model-request.ts";
import { messageBlock, messageEnvelope } from "../output-members.ts";
import { isFromAssistant, recordReturned, recordReturnedPart } from "../returned-members.ts";
import { messagesTranscript, readAnswer } from "./messages-answer.ts";
import { messagesPrompt } from "./messages-prompt.ts";

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

/** Reads a request without changing it. Refuses a request that the gateway might read differently. */
export function readMessagesRequest(bytes: Buffer): ModelRequestResult {
  const inspected = inspectBody(bytes, messagesFields);
  if (!inspected.ok) return inspected;
  const { body, findings } = inspected;
  if (!Array.isArray(body["messages"]) || body["messages"].length === 0) {
    return invalid("messages", "'messages' must be a list with at least one message");
  }
  findings.user ??= userInBody({ safety_identifier: objectOr(body["metadata"])["user_id"] });
  const parts = readParts(body, bytes, findings);
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
      prompt: messagesPrompt,
    },
  };
}

/** Parts of a prompt, and the names of the tools to which its tool results refer. */
class MessageParts extends CountedParts implements PromptParts {
  readonly references: string[] = [];
}

function readParts(body: JsonObject, bytes: Buffer, findings: Findings): MessageParts {
  const found = new MessageParts();
  const whole = wholeBody(bytes);
  for (const block of partsOf(body["system"])) readBlock({ path: "system", block, findings, found });
  for (const [index, each] of listOr(body["messages"]).entries()) {
    if (!isObject(each)) findings.unknownField("messages", each);
    const message = objectOr(each);
    const inFull = () => objectOr(listOr(whole()["messages"])[index]);
    const isAnswer = isFromAssistant(message);
    findings.members("messages", message, messagesMembers, ...(isAnswer ? (["free"] as const) : []));
    if (isAnswer) recordReturned({ ...returnedMessage, object: message, inFull }, findings);
    for (const [at, block] of partsOf(message["content"]).entries()) {
      const answer = isAnswer && { inFull: () => partsOf(inFull()["content"])[at] };
      readBlock({ path: "messages.content", block, findings, found, ...answer });
    }
  }
  return found;
}

/** Assistant's message, without the members that `messagesMembers` lists. */
const returnedMessage = {
  path: "messages",
  shape: messageEnvelope,
  isRead: (name: string) => messagesMembers.meaningOf(name) !== undefined,
};

/** Largest depth of blocks in blocks. No documented block is deeper. */
const blockDepthMax = 8;

/** Block of a prompt. `inFull` returns it with its long strings if a model wrote it; absent for all other blocks. */
interface ReadBlock {
  readonly path: string;
  readonly block: unknown;
  readonly findings: Findings;
  readonly found: MessageParts;
  readonly inFull?: () => unknown;
  readonly depth?: number;
}

function readBlock(of: ReadBlock): void {
  const { path, block, findings, found, inFull, depth = 0 } = of;
  if (depth > blockDepthMax) return findings.unknownField(path, block);
  if (inFull === undefined) findings.kind(path, block, messagesBlocks);
  else {
    const inFullAlone = () => withoutBlocks(inFull());
    const returned = { path, kinds: messagesBlocks, shape: messageBlock, inFull: inFullAlone };
    recordReturnedPart(withoutBlocks(block), returned, findings);
  }
  const { type, source, tool_name } = objectOr(block);
  if (type === "tool_reference") found.references.push(textOr(tool_name));
  if (type === "image" || type === "document") readSource(type, source, { ...of, path: `${path}.source`, depth });
  for (const [at, inner] of blocksIn(block).entries()) {
    const answer = inFull && { inFull: () => blocksIn(inFull())[at] };
    readBlock({ path, block: inner, findings, found, depth: depth + 1, ...answer });
  }
}

function blocksIn(block: unknown): readonly unknown[] {
  const { content, tool_references } = objectOr(block);
  return [...partsOf(content), ...partsOf(tool_references)];
}

/** Returns a block without its inner blocks, which are read separately. */
function withoutBlocks(block: unknown): unknown {
  if (!isObject(block) || typeof block["content"] !== "object") return block;
  return { ...block, content: undefined };
}

function readSource(
  of: "image" | "document",
  source: unknown,
  { path, findings, found, depth }: ReadBlock & { readonly depth: number },
): void {
  findings.kind(path, source, sources);
  const { type, data, url, content } = objectOr(source);
  const isText = of === "document" && (type === "text" || type === "content");
  if (!isText) found.add(of === "image" ? "images" : "files", type === "url" ? url : data);
  for (const block of partsOf(content))
    readBlock({ path: `${path}.content`, block, findings, found, depth: depth + 1 });
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

/** Returns the terms of a request. The cost of a tool of the gateway is bounded only by the tool's `max_uses`. */
function termsOf(body: JsonObject, tools: readonly ListedTool[], findings: Findings): Pick<ModelRequest, "terms"> {
  const hosted = tools.filter(({ members }) => members === undefined);
  for (const { tool, members } of hosted.map((each) => ({ ...each, members: limitedTools.get(kindOf(each)) })))
    if (members !== undefined) findings.members("tools", tool, members);
  const calls = hosted.reduce((sum, each) => sum + usesMax(each), 0);
  const isUnlimited = calls > plausibleCallsMax;
  const unlimited = isUnlimited ? hosted.filter((each) => usesMax(each) > plausibleCallsMax) : [];
  const fetches = hosted.filter((each) => kindOf(each) === "web_fetch");
  const limits: Omit<HostedTools, "calls" | "fields"> = {
    areShown: true,
    callsMax: isUnlimited ? undefined : calls,
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

/** Largest text that the gateway adds for a tool that Anthropic defines. ASSUMPTION: above the published 735 tokens. */
const definedToolTokens = 3000;

/** Returns the largest number of tokens of instructions that the gateway adds and the request does not show. */
function instructionTokens(body: JsonObject, tools: readonly ListedTool[]): number {
  const defined = tools.filter((tool) => kindOf(tool) !== "custom").length;
  return (tools.length > 0 || requiresFormat(body) ? toolTextTokens : 0) + defined * definedToolTokens;
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
