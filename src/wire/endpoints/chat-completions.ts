import { invalid } from "../../core/refusals.ts";
import { chatTranscript } from "../chat-stream.ts";
import type { Endpoint } from "../endpoint.ts";
import { hasOutputIn, orError } from "../error-answer.ts";
import {
  chatFields,
  chatParts,
  clientTools,
  messageMembers,
  predictionMembers,
  predictionParts,
} from "../field-table.ts";
import {
  answerTerms,
  bufferedReader,
  citesPages,
  withCitations,
  type ModelAnswer,
  answeredWith,
  walkMembers,
  walkOutput,
} from "../model-answer.ts";
import { refusalEvent } from "../refusals.ts";
import { isAscii } from "node:buffer";
import type { RequestSize } from "../../core/bounds.ts";
import type { ChatText, ToolTurn } from "../../core/prompt-text.ts";
import type { TokenClass } from "../../core/usage.ts";
import type { Findings } from "../findings.ts";
import { replaced, withMember } from "../json-edit.ts";
import { isObject, jsonMembers, lengthInFull, listOr, objectOr, parseJson, textOr, type JsonObject } from "../json.ts";
import {
  bytesOutside,
  CountedParts,
  wholeBody,
  choicesOf,
  inspectBody,
  listedTools,
  objectInFull,
  statedMaximum,
  parseBody,
  partsOf,
  promptClasses,
  requestTerms,
  unboundedFields,
  unlimitedTools,
  type ModelRequestResult,
  type PromptParts,
  type PromptReader,
} from "../model-request.ts";
import { addTexts, imagesIn, noChat, outputSchemaOf, toolChoiceOf, ToolTurns } from "../prompt-text.ts";
import { chatAnswer, chatChoice, message as messageShape } from "../output-members.ts";
import { bytesOfPart, bytesWithout, isFromAssistant, recordReturned, recordReturnedPart } from "../returned-members.ts";
import { readUsageOf } from "../usage.ts";

export const chatCompletions: Endpoint = {
  route: "/v1/chat/completions",
  fields: chatFields,
  readRequest: readChatRequest,
  answerReader: () => bufferedReader(readAnswer),
  transcript: chatTranscript,
  maximum: { api: "chat", fields: ["max_tokens", "max_completion_tokens"], absent: null },
  askForUsage: withStreamUsage,
  breakEvent: refusalEvent,
};

const prompt: PromptReader = {
  text: (body) => ({ kind: "chat", chat: chatTextOf(body) }),
  bytesOutside: (body) => bytesOutside(body, "messages") + bytesUncounted(body),
};

/** Returns the number of bytes in earlier answers that `chatTextOf` does not return, such as reasoning. */
function bytesUncounted(body: Buffer): number {
  const answers = listOr(objectInFull(body)["messages"]).map(objectOr).filter(isFromAssistant);
  const isTextOf = (names: ReadonlySet<string>) => (name: string, value: unknown) =>
    names.has(name) && typeof value === "string";
  return answers
    .flatMap((answer) => [
      bytesWithout(answer, (name) => countedMembers.has(name)),
      ...partsOf(answer["content"]).map((part) => bytesOfPart(part, chatParts)),
      ...[...listOr(answer["tool_calls"]), { function: answer["function_call"] }].flatMap((call) => [
        bytesWithout(call, (name) => callMembers.has(name)),
        bytesWithout(objectOr(call)["function"], isTextOf(calledMembers)),
      ]),
    ])
    .reduce((sum, bytes) => sum + bytes, 0);
}

/** Members of an answer and of its calls that are counted as text or by the part, or add no text. */
const countedMembers: ReadonlySet<string> = new Set([
  "role",
  "name",
  "content",
  "images",
  "tool_calls",
  "function_call",
]);
const callMembers: ReadonlySet<string> = new Set(["function", "id", "type", "index"]);
const calledMembers: ReadonlySet<string> = new Set(["name", "arguments"]);

/** Reads a chat request without changing it. Refuses a request that the gateway might read differently. */
export function readChatRequest(bytes: Buffer): ModelRequestResult {
  const inspected = inspectBody(bytes, chatFields);
  if (!inspected.ok) return inspected;
  const { body, findings } = inspected;
  if (!Array.isArray(body["messages"]) || body["messages"].length === 0) {
    return invalid("messages", "'messages' must be a list with at least one message");
  }
  const choices = choicesOf(body["n"]);
  if (choices === undefined) return invalid("n", "'n' must be a whole number from 1 to 1000");
  const { outputMax, maximumField } = statedMaximum(body, "max_tokens", "max_completion_tokens");
  const parts = readParts(body["messages"], bytes, findings);
  const tools = listedTools(body["tools"], "tools", clientTools);
  const unbounded = unboundedFields(tools, findings);
  if (findings.fault !== undefined) return findings.fault;
  return {
    ok: true,
    request: {
      model: body["model"],
      stream: body["stream"] === true,
      wantsStreamUsage: objectOr(body["stream_options"])["include_usage"] === true,
      size: {
        textBytes: bytes.length - parts.payloadBytes + escapedBytes(body["messages"].map(objectOr), bytes),
        messages: body["messages"].length,
        tools: listOr(body["tools"]).length + listOr(body["functions"]).length,
        imageParts: parts.images,
        audioParts: parts.audios,
        fileParts: parts.files,
        choices,
        outputMax,
        ...readPrediction(body["prediction"], bytes, findings),
        unboundedFields: findings.context,
      },
      unboundedFields: unbounded,
      ...maximumField,
      isCutWorthless:
        [body["tools"], body["functions"]].some((list) => listOr(list).length > 0) || requiresFormat(body),
      ...requestTerms(body, tools, unlimitedTools),
      fields: findings,
      classes: { prompt: promptClasses(parts, findings), completion: completionClasses(body) },
      prompt,
    },
  };
}

function readParts(messages: readonly unknown[], bytes: Buffer, findings: Findings): PromptParts {
  const found = new CountedParts();
  const whole = wholeBody(bytes);
  const inFull = (index: number) => objectOr(listOr(whole()["messages"])[index]);
  for (const [index, each] of messages.entries()) {
    if (Array.isArray(each)) findings.unknownField("messages", each);
    const message = objectOr(each);
    const isAnswer = isFromAssistant(message);
    findings.members("messages", message, messageMembers, ...(isAnswer ? (["free"] as const) : []));
    if (isAnswer) {
      recordReturned({ ...returnedMessage, object: message, inFull: () => inFull(index) }, findings);
      countImages(message, found, findings);
    }
    for (const [at, part] of partsIn(message["content"]).entries()) {
      const { type, image_url, input_audio, file } = objectOr(part);
      const inPart = () => partsIn(inFull(index)["content"])[at];
      if (isAnswer) recordReturnedPart(part, { path: "messages.content", kinds: chatParts, inFull: inPart }, findings);
      else findings.kind("messages.content", part, chatParts);
      if (type === "image_url") found.add("images", isObject(image_url) ? image_url["url"] : image_url);
      else if (type === "input_audio") found.add("audios", objectOr(input_audio)["data"]);
      else if (type === "file") found.add("files", objectOr(file)["file_data"]);
    }
  }
  return found;
}

/** Members of an assistant's message, without those that `readParts` reads. */
const returnedMessage = {
  path: "messages",
  shape: messageShape,
  fields: messageMembers,
  isRead(name: string): boolean {
    const meaning = messageMembers.meaningOf(name) ?? "free";
    return name === "content" || name === "images" || meaning !== "free";
  },
};

/** Counts the images of an answer that is sent back as image parts. */
function countImages({ images }: JsonObject, found: CountedParts, findings: Findings): void {
  for (const image of [images ?? []].flat()) {
    const { image_url, url, b64_json, ...others } = isObject(image) ? image : { url: image };
    const payload = (isObject(image_url) ? image_url["url"] : image_url) ?? url ?? b64_json;
    found.add("images", payload);
    const isKnown = typeof payload === "string" && Object.keys(others).every((name) => imageMembers.has(name));
    if (!isKnown) findings.returned("messages.images", true);
  }
}

/** Members that describe an image. */
const imageMembers: ReadonlySet<string> = new Set(["type", "index", "detail", "id", "media_type", "mime_type"]);

/** Returns all parts of a content, with those of tool results. */
function partsIn(content: unknown): readonly unknown[] {
  return partsOf(content).flatMap(withResult);
}

/** Returns a part, and for a tool result also the parts of its content. */
function withResult(part: unknown): readonly unknown[] {
  const { type, content } = objectOr(part);
  return type === "tool_result" ? [part, ...partsOf(content)] : [part];
}

/**
 * Reads the size of the predicted answer. The gateway bills each choice for the predicted tokens that its answer does
 * not contain.
 */
function readPrediction(stated: unknown, bytes: Buffer, findings: Findings): Pick<RequestSize, "predictedBytes"> {
  if (stated === undefined || stated === null) return {};
  if (!isObject(stated)) findings.unknownField("prediction", stated);
  findings.members("prediction", objectOr(stated), predictionMembers);
  for (const part of partsOf(objectOr(stated)["content"])) findings.kind("prediction.content", part, predictionParts);
  return { predictedBytes: bytes.length - bytesOutside(bytes, "prediction") };
}

/**
 * Returns an upper bound for the bytes that escapes add to the results of parallel calls. The prompt contains the
 * non-ASCII characters of such results as escapes.
 */
function escapedBytes(messages: readonly JsonObject[], bytes: Buffer): number {
  if (!messages.some(({ tool_calls }) => listOr(tool_calls).length > 1) || isAscii(bytes)) return 0;
  let isParallel = false;
  let total = 0;
  for (const { role, content, tool_calls } of messages) {
    if (role !== "tool") isParallel = listOr(tool_calls).length > 1;
    else if (isParallel) for (const text of [content, ...partsOf(content).map(textOfPart)]) total += escapeGrowth(text);
  }
  return total;
}

function textOfPart(part: unknown): unknown {
  return objectOr(part)["text"];
}

/**
 * Returns an upper bound for the bytes that escapes add to a text. The escape of a character of 2 or 3 bytes has 6
 * bytes, and that of a character of 4 bytes has 12 bytes. `lengthInFull` counts a long text in bytes, and any other
 * text in UTF-16 units.
 */
function escapeGrowth(text: unknown): number {
  if (typeof text !== "string") return 0;
  const length = lengthInFull(text);
  return length === text.length ? 4 * length : 2 * length;
}

/** Fields that require a certain format of the answer, such as JSON. */
const formatFields = ["guided_json", "guided_grammar", "guided_regex", "structured_outputs"] as const;

function requiresFormat(body: JsonObject): boolean {
  const format = body["response_format"];
  return (format != null && objectOr(format)["type"] !== "text") || formatFields.some((name) => body[name] != null);
}

/** Returns the token classes in which the output can be billed. An unknown modality may be billed as audio or image. */
function completionClasses({ modalities }: JsonObject): TokenClass[] {
  const others = [modalities ?? []].flat().filter((name) => name !== "text");
  const mayBe = (kind: string) => others.some((name) => name === kind || !knownModalities.has(name));
  return [
    "output",
    "reasoning",
    ...(mayBe("audio") ? (["audio_output"] as const) : []),
    ...(mayBe("image") ? (["image_output"] as const) : []),
  ];
}

const knownModalities: ReadonlySet<unknown> = new Set(["audio", "image"]);

/**
 * Returns the content of a chat request that a tokenizer counts, without data URLs. `readChatRequest` must have
 * accepted the request. `readChatRequest` does not check long strings, so the body may still be invalid JSON. In that
 * case, the whole body counts as text.
 */
export function chatTextOf(bytes: Buffer): ChatText {
  const parsed = parseBody(bytes);
  if (parsed === undefined) return { ...noChat, texts: [bytes.toString("utf8")], messages: 1 };
  const body = objectOr(parsed);
  const texts: string[] = [];
  const tools = new ToolTurns();
  const all = listOr(body["messages"]).map(objectOr);
  const messages = all.filter(({ role }) => role !== "tool" && role !== "function");
  for (const message of all) {
    const { role, name, content, tool_calls, function_call } = message;
    if (role !== "tool" && typeof name === "string") texts.push(name);
    if (role === "tool" || role === "function") {
      tools.result(role, content);
      continue;
    }
    if (typeof role === "string") texts.push(role);
    addTexts(content, texts);
    tools.calls("tool", listOr(tool_calls).map(callOf));
    if (isObject(function_call)) tools.calls("function", [callOf({ function: function_call })]);
  }
  const { type, json_schema } = objectOr(body["response_format"]);
  return {
    api: "chat",
    texts,
    messages: messages.length,
    names: messages.filter(({ name }) => typeof name === "string").length,
    hasSystem: messages.some(({ role }) => role === "system" || role === "developer"),
    turns: tools.turns,
    tools: [...listOr(body["tools"]), ...listOr(body["functions"])],
    toolChoice: toolChoiceOf(body["tool_choice"]),
    isSequential: body["parallel_tool_calls"] === false,
    schema: type === "json_schema" ? outputSchemaOf(json_schema) : null,
    images: all.flatMap(({ content }) => imagesIn(content, "image_url")),
  };
}

function callOf(call: unknown): ToolTurn["calls"][number] {
  const { name, arguments: given } = objectOr(objectOr(call)["function"]);
  return { name: textOr(name), arguments: textOr(given) };
}

/** Sets the model of a request, even if the request names none. All other bytes stay the same. */
export function withModel(bytes: Buffer, model: string): Buffer {
  return withMember(bytes, "model", JSON.stringify(model));
}

/** Sets `include_usage`, which asks for stream usage. All other bytes stay the same. */
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
  const flags = members.filter((member) => member.name === "include_usage");
  if (flags.length === 0) {
    const brace = valueStart + 1;
    return replaced(bytes, brace, brace, members.length === 0 ? '"include_usage":true' : '"include_usage":true,');
  }
  return flags.reduceRight(
    (whole, flag) => replaced(whole, valueStart + flag.valueStart, valueStart + flag.valueEnd, "true"),
    bytes,
  );
}

function readAnswer(bytes: Buffer): ModelAnswer | undefined {
  const parse = () => parseJson(bytes.toString("utf8"));
  return orError(readChatAnswer(bytes), parse, (body) => hasOutputIn(body, chatAnswer, { choices: chatChoice }));
}

/**
 * Reads a whole answer. Returns undefined if the answer is not a JSON object. Reads the output only if no usage covers
 * it. Never throws.
 */
export function readChatAnswer(bytes: Buffer): ModelAnswer | undefined {
  const body = parseJson(bytes.toString("utf8"));
  if (!isObject(body)) return undefined;
  const answered = answeredWith(readUsageOf(body, "part"), (sink) => {
    walkOutput(body["choices"], chatChoice, "choices", sink);
    walkMembers(body, chatAnswer, "", sink);
  });
  return {
    ...answered,
    ...withCitations(
      answerTerms(body),
      listOr(body["choices"]).some((each) => citesPages(each, "message")),
    ),
    isAnswer: listOr(body["choices"]).length > 0,
  };
}
