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
  /** Function that tool_choice forces. */
  readonly tool: { readonly name: string; readonly parameters: Fields } | undefined;
  readonly promptTokens: number;
  /** Scenario named in the last message as `#sandbox cut:5`. Proxies pass it on unchanged. */
  readonly scenario: string | undefined;
}

export type Fields = Readonly<Record<string, unknown>>;

/** Parses a JSON object that names a model. Returns an error message if the body is not one. */
export function readBody(body: Buffer): (Fields & { readonly model: string }) | string {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.toString("utf8"));
  } catch {
    return "We could not parse the JSON body of your request.";
  }
  if (!isFields(parsed)) return "The request body must be a JSON object.";
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
  if (!messages.every(isFields)) return "each of 'messages' must be an object";
  const { tool_choice: choice } = parsed;
  const functions = fieldsIn(fieldsIn(parsed["tools"]).map((tool) => tool["function"]));
  const streamOptions = parsed["stream_options"];
  return {
    model,
    stream: parsed["stream"] === true,
    includeUsage: isFields(streamOptions) && streamOptions["include_usage"] === true,
    choices: count(parsed["n"]) ?? 1,
    maxTokens: count(parsed["max_completion_tokens"]) ?? count(parsed["max_tokens"]),
    json: asksForJson(parsed["response_format"]),
    logprobs: parsed["logprobs"] === true,
    tool: forcedTool(
      functions,
      choice,
      isFields(choice) && isFields(choice["function"]) ? choice["function"]["name"] : undefined,
    ),
    promptTokens: promptTokens(messages, parsed["tools"]),
    scenario: body.includes("#sandbox") ? marker(messages.at(-1)?.["content"]) : undefined,
  };
}

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function count(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value > 0 ? value : undefined;
}

/** Tokens for each message, each name and the whole prompt, from OpenAI's published example of counting. */
const aroundMessage = 3;
const aroundName = 1;
const aroundPrompt = 3;

export function promptTokens(messages: readonly Fields[], tools: unknown): number {
  let total = aroundPrompt + (Array.isArray(tools) ? countTokens(JSON.stringify(tools)) : 0);
  for (const message of messages) {
    total += aroundMessage + countTokens(String(message["role"] ?? ""));
    const { name, content, tool_calls: calls } = message;
    if (typeof name === "string") total += aroundName + countTokens(name);
    if (Array.isArray(calls)) total += countTokens(JSON.stringify(calls));
    if (typeof content === "string") total += countTokens(content);
    else if (Array.isArray(content)) for (const part of content) total += partTokens(part);
  }
  return total;
}

/** Counts the tokens of a part. A part other than text counts by its kind, whatever the size of its data. */
function partTokens(part: unknown): number {
  if (!isFields(part)) return 0;
  if (typeof part["text"] === "string") return countTokens(part["text"]);
  const image = part["image_url"];
  if (part["type"] === "image_url") return isFields(image) && image["detail"] === "low" ? 85 : 765;
  return 500;
}

/** Returns the objects of a list; an empty list for any other value. */
export function fieldsIn(list: unknown): readonly Fields[] {
  return Array.isArray(list) ? list.filter(isFields) : [];
}

/** Finds the function that tool_choice forces: the first one for `required`, otherwise the named one. */
export function forcedTool(functions: readonly Fields[], choice: unknown, named: unknown): ChatRequest["tool"] {
  const found =
    choice === "required" ? functions[0] : functions.find(({ name }) => named !== undefined && name === named);
  if (typeof found?.["name"] !== "string") return undefined;
  return { name: found["name"], parameters: isFields(found["parameters"]) ? found["parameters"] : {} };
}

export function asksForJson(format: unknown): boolean {
  return isFields(format) && (format["type"] === "json_object" || format["type"] === "json_schema");
}

/** Returns the scenario that a text names. */
export function marker(text: unknown): string | undefined {
  return /#sandbox[ :]([^\s"\\]+)/.exec(JSON.stringify(text ?? ""))?.[1];
}
