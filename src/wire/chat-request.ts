import type { ChatText } from "../core/chat-text.ts";
import type { TokenClass } from "../core/tokens.ts";
import { chatFields, chatParts, messageMembers } from "./field-table.ts";
import type { Findings } from "./findings.ts";
import { isObject, listOr, objectOr, type JsonObject } from "./json.ts";
import { replaced } from "./json-edit.ts";
import { jsonMembers } from "./json-keys.ts";
import { lengthInFull } from "./json-skeleton.ts";
import {
  bytesBeside,
  choicesOf,
  invalid,
  lookAt,
  outputLimitOf,
  parseBody,
  type ModelRequestResult,
  type PromptReading,
} from "./model-request.ts";
import {
  partsOf,
  promptClasses,
  requestTerms,
  unboundedFields,
  unboundTools,
  type PromptParts,
} from "./request-bounds.ts";

const prompt: PromptReading = {
  text: (body) => ({ kind: "chat", chat: chatTextOf(body) }),
  bytesBeside: (body) => bytesBesideMessages(body),
};

/** Reads a chat request for looking only. Refuses what the gateway might read differently. */
export function readChatRequest(bytes: Buffer): ModelRequestResult {
  const look = lookAt(bytes, chatFields);
  if (!look.ok) return look;
  const { body, findings } = look;
  if (!Array.isArray(body["messages"]) || body["messages"].length === 0) {
    return invalid("messages", "'messages' must be a list with at least one message");
  }
  const choices = choicesOf(body["n"]);
  if (choices === undefined) return invalid("n", "'n' must be a whole number of at least 1");
  const parts = readParts(body["messages"], findings);
  const unbounded = unboundedFields(body, findings);
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
        outputLimit: outputLimitOf(body["max_tokens"], body["max_completion_tokens"]),
        unboundedFields: findings.context,
      },
      unboundedFields: unbounded,
      ...requestTerms(body, unboundTools),
      fields: findings,
      classes: { prompt: promptClasses(parts, findings), completion: completionClasses(body) },
      prompt,
    },
  };
}

function readParts(messages: readonly unknown[], findings: Findings): PromptParts {
  const found = { images: 0, audios: 0, files: 0, payloadBytes: 0 };
  for (const message of messages) {
    findings.members("messages", objectOr(message), messageMembers);
    for (const part of partsOf(objectOr(message)["content"])) {
      const { type, image_url, input_audio, file } = objectOr(part);
      findings.kind("messages.content", part, chatParts);
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
  return found;
}

/** ASCII payloads (base64, addresses) have as many bytes as characters; counting others low would be unsafe. */
function payloadLength(value: unknown): number {
  return typeof value === "string" ? lengthInFull(value) : 0;
}

function completionClasses(body: JsonObject): TokenClass[] {
  const completion: TokenClass[] = ["output", "reasoning"];
  const modalities = listOr(body["modalities"]);
  if (modalities.includes("audio")) completion.push("audio_output");
  if (modalities.includes("image")) completion.push("image_output");
  return completion;
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
  for (const part of partsOf(content)) {
    const { text, refusal } = objectOr(part);
    for (const value of [text, refusal]) if (typeof value === "string") into.push(value);
  }
}

/** Bytes of the request outside its messages: a bound for what tools, schemas and other fields add to the prompt. */
export function bytesBesideMessages(bytes: Buffer): number {
  return bytesBeside(bytes, "messages");
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
