import { isObject, listOr, objectOr, parseJson } from "./json.ts";
import { servedModelOf, type ModelAnswer } from "./model-answer.ts";
import { readUsageOf } from "./usage.ts";

/** Reads a whole JSON answer; undefined where it is no JSON object. Never throws. */
export function readChatAnswer(bytes: Buffer): ModelAnswer | undefined {
  const body = parseJson(bytes.toString("utf8"));
  if (!isObject(body)) return undefined;
  const texts: string[] = [];
  for (const choice of listOr(body["choices"])) collectChoice(choice, "message", texts);
  return {
    usage: readUsageOf(body),
    servedModel: servedModelOf(body),
    texts,
    isAnswer: listOr(body["choices"]).length > 0,
  };
}

/** Adds what a choice carries, in its message or delta, or as the bare text of the older endpoint. */
export function collectChoice(choice: unknown, where: "message" | "delta", into: string[]): void {
  const { text, [where]: message } = objectOr(choice);
  collectTexts(message, into);
  if (typeof text === "string" && text !== "") into.push(text);
}

/** Adds what a message or a delta carries of the model's own words. */
function collectTexts(message: unknown, into: string[]): void {
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
