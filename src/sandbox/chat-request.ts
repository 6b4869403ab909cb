import { isObject } from "../wire/json.ts";
import { countTokens } from "./text.ts";

/** Fields of a chat request that the sandbox uses. */
export interface ChatRequest {
  readonly model: string;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly choices: number;
  /** Largest number of output tokens for each choice. */
  readonly maxTokens: number | undefined;
  readonly json: boolean;
  readonly logprobs: boolean;
  readonly tool: ForcedTool | undefined;
  readonly promptTokens: number;
  /** True if the answer of /v1/responses is a compaction of the conversation. */
  readonly compacts?: boolean;
  /** Scenario that the last message states as `#sandbox cut:5`. Proxies pass the message on unchanged. */
  readonly scenario: string | undefined;
}

/** Tool that tool_choice forces. */
interface ForcedTool {
  readonly name: string;
  /** Schema of a function's arguments; null for a custom tool, whose input is free text. */
  readonly parameters: Fields | null;
}

export type Fields = Readonly<Record<string, unknown>>;

/** Parses a JSON object that names a model. Returns an error message if the body is not such an object. */
export function readBody(body: Buffer): (Fields & { readonly model: string }) | string {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.toString("utf8"));
  } catch {
    return "We could not parse the JSON body of your request.";
  }
  if (!isObject(parsed)) return "The request body must be a JSON object.";
  const { model } = parsed;
  if (typeof model !== "string" || model === "") return "you must provide a model parameter";
  return { ...parsed, model };
}

/** Parses the body. Returns an error message if it is not a chat request. */
export function readChatRequest(body: Buffer): ChatRequest | string {
  const parsed = readBody(body);
  if (typeof parsed === "string") return parsed;
  const { model, messages } = parsed;
  if (!Array.isArray(messages) || messages.length === 0) return "[] is too short - 'messages'";
  if (!messages.every(isObject)) return "each of 'messages' must be an object";
  const { tool_choice: choice } = parsed;
  const tools = fieldsIn(parsed["tools"]).map((tool) => ({
    type: tool["type"],
    ...fieldsIn([tool["function"] ?? tool["custom"]])[0],
  }));
  const streamOptions = parsed["stream_options"];
  return {
    model,
    stream: parsed["stream"] === true,
    includeUsage: isObject(streamOptions) && streamOptions["include_usage"] === true,
    choices: count(parsed["n"]) ?? 1,
    maxTokens: count(parsed["max_completion_tokens"]) ?? count(parsed["max_tokens"]),
    json: asksForJson(parsed["response_format"]),
    logprobs: parsed["logprobs"] === true,
    tool: forcedTool(
      tools,
      choice,
      isObject(choice) ? fieldsIn([choice["function"] ?? choice["custom"]])[0]?.["name"] : undefined,
    ),
    promptTokens: promptTokens(messages, parsed["tools"]),
    scenario: body.includes("#sandbox") ? marker(messages.at(-1)?.["content"]) : undefined,
  };
}

/** Returns a positive whole number; undefined for any other value. */
export function count(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value > 0 ? value : undefined;
}

/** Tokens for each message, each name and the whole prompt, from OpenAI's published example of counting. */
const tokensOfMessage = 3;
const tokensOfName = 1;
const tokensOfPrompt = 3;

export function promptTokens(messages: readonly Fields[], tools: unknown): number {
  let total = tokensOfPrompt + (Array.isArray(tools) ? countTokens(JSON.stringify(tools)) : 0);
  for (const message of messages) {
    total += tokensOfMessage + countTokens(String(message["role"] ?? ""));
    const { name, content, tool_calls: calls } = message;
    if (typeof name === "string") total += tokensOfName + countTokens(name);
    if (Array.isArray(calls)) total += countTokens(JSON.stringify(calls));
    if (typeof content === "string") total += countTokens(content);
    else if (Array.isArray(content)) for (const part of content) total += partTokens(part);
  }
  return total;
}

/**
 * Counts the tokens of a part of a message. For a part other than text, the number depends only on its type and detail,
 * not on the size of its data.
 */
function partTokens(part: unknown): number {
  if (!isObject(part)) return 0;
  if (typeof part["text"] === "string") return countTokens(part["text"]);
  const image = part["image_url"];
  if (part["type"] === "image_url") return isObject(image) && image["detail"] === "low" ? 85 : 765;
  return 500;
}

/** Returns the objects of a list; an empty list for any other value. */
export function fieldsIn(list: unknown): readonly Fields[] {
  return Array.isArray(list) ? list.filter(isObject) : [];
}

/** Finds the function or custom tool that tool_choice forces: the first one for `required`, otherwise the named one. */
export function forcedTool(tools: readonly Fields[], choice: unknown, named: unknown): ForcedTool | undefined {
  const found = tools.find(
    ({ type, name }) =>
      (type === "function" || type === "custom") && (choice === "required" || (named !== undefined && name === named)),
  );
  if (typeof found?.["name"] !== "string") return undefined;
  const { name, type, parameters } = found;
  return { name, parameters: type === "custom" ? null : isObject(parameters) ? parameters : {} };
}

export function asksForJson(format: unknown): boolean {
  return isObject(format) && (format["type"] === "json_object" || format["type"] === "json_schema");
}

/** Returns the scenario that a text states as `#sandbox cut:5`; undefined if it states none. */
export function marker(text: unknown): string | undefined {
  return /#sandbox[ :]([^\s"\\]+)/.exec(JSON.stringify(text ?? ""))?.[1];
}
