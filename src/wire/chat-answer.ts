import type { Usage } from "../core/usage.ts";
import { isObject, listOr, objectOr, parseJson } from "./json.ts";
import { readUsage } from "./usage.ts";

/** What an answer says that matters for its price. */
export interface ChatAnswer {
  /** Undefined when the gateway reported none that can be believed. */
  readonly usage: Usage | undefined;
  readonly servedModel: string | null;
  /** All that the model wrote, in every choice: texts, refusals, reasoning shown, names and arguments of calls. */
  readonly texts: readonly string[];
  /** Whether it has choices at all; an error page has none. */
  readonly hasChoices: boolean;
}

/** Reads a whole JSON answer; undefined where it is no JSON object. Never throws. */
export function readChatAnswer(bytes: Buffer): ChatAnswer | undefined {
  const body = parseJson(bytes.toString("utf8"));
  if (!isObject(body)) return undefined;
  const texts: string[] = [];
  for (const choice of listOr(body["choices"])) collectTexts(objectOr(choice)["message"], texts);
  return {
    usage: readUsage(body["usage"]),
    servedModel: typeof body["model"] === "string" ? body["model"] : null,
    texts,
    hasChoices: listOr(body["choices"]).length > 0,
  };
}

/** Adds what a message or a delta carries of the model's own words. */
export function collectTexts(message: unknown, into: string[]): void {
  const { content, refusal, reasoning_content, reasoning, tool_calls, function_call } = objectOr(message);
  for (const text of [content, refusal, reasoning_content ?? reasoning]) {
    if (typeof text === "string" && text !== "") into.push(text);
  }
  for (const part of listOr(content)) {
    const { text } = objectOr(part);
    if (typeof text === "string" && text !== "") into.push(text);
  }
  for (const call of [...listOr(tool_calls).map((item) => objectOr(item)["function"]), function_call]) {
    const { name, arguments: given } = objectOr(call);
    for (const text of [name, given]) if (typeof text === "string" && text !== "") into.push(text);
  }
}
