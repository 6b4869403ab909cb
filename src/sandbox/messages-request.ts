import { isObject } from "../wire/json.ts";
import { asksForJson, fieldsIn, forcedTool, marker, readBody, type ChatRequest, type Fields } from "./chat-request.ts";
import { promptBlocks, type PromptBlock } from "./prompt-cache.ts";

/** Fields of a request to /v1/messages that the sandbox uses. */
export interface MessagesRequest extends ChatRequest {
  readonly maxTokens: number;
  readonly blocks: readonly PromptBlock[];
  /** Extended thinking; undefined if it is off. */
  readonly thinking: { readonly isShown: boolean } | undefined;
  /** First tool of the client, which the scenario `tool-calls` calls. */
  readonly firstTool: ChatRequest["tool"];
  /** Largest number of web searches; 0 without such a tool. */
  readonly searchesMax: number;
  readonly fast: boolean;
  readonly inUs: boolean;
}

/** Largest number of blocks with `cache_control`. */
const breakpointsMax = 4;

/** Parses the body. A request that only counts tokens has no maximum. Returns an error message if it is not valid. */
export function readMessagesRequest(bytes: Buffer, isCount: boolean): MessagesRequest | string {
  const parsed = readBody(bytes);
  if (typeof parsed === "string") return parsed;
  const { model, messages, max_tokens: given, tool_choice: choice, thinking, output_config: config } = parsed;
  if (!Array.isArray(messages) || messages.length === 0) return "messages: at least one message is required";
  if (given === undefined && !isCount) return "max_tokens: Field required";
  const maxTokens = given ?? 0;
  if (typeof maxTokens !== "number" || !Number.isInteger(maxTokens) || maxTokens < 0)
    return "max_tokens: Input should be a whole number of at least 0";
  const thinks = isObject(thinking) && (thinking["type"] === "enabled" || thinking["type"] === "adaptive");
  if (thinks && Number(thinking["budget_tokens"] ?? 0) >= maxTokens && !isCount)
    return "`max_tokens` must be greater than `thinking.budget_tokens`";
  const blocks = promptBlocks(parsed);
  const found = blocks.filter(({ cachedFor }) => cachedFor !== undefined).length;
  if (found > breakpointsMax)
    return `A maximum of ${breakpointsMax} blocks with cache_control may be provided. Found ${found}.`;
  const tools = clientTools(parsed["tools"]);
  return {
    model,
    stream: parsed["stream"] === true,
    includeUsage: true,
    choices: 1,
    maxTokens,
    json: isObject(config) && asksForJson(config["format"]),
    logprobs: false,
    tool: forcedTool(tools, isObject(choice) && choice["type"] === "any" ? "required" : choice, nameIn(choice)),
    firstTool: forcedTool(tools, "required", undefined),
    blocks,
    promptTokens: blocks.reduce((total, { tokens }) => total + tokens, 0),
    thinking: thinks ? { isShown: (thinking["display"] ?? "summarized") === "summarized" } : undefined,
    searchesMax: searchesIn(parsed["tools"]),
    fast: parsed["speed"] === "fast",
    inUs: parsed["inference_geo"] === "us",
    scenario: bytes.includes("#sandbox") ? marker(fieldsIn(messages).at(-1)?.["content"]) : undefined,
  };
}

function nameIn(choice: unknown): unknown {
  return isObject(choice) && choice["type"] === "tool" ? choice["name"] : undefined;
}

/** Returns the tools that the client runs, in the form that `forcedTool` expects. */
function clientTools(tools: unknown): Fields[] {
  return fieldsIn(tools)
    .filter(({ input_schema: schema }) => isObject(schema))
    .map(({ name, input_schema: parameters }) => ({ type: "function", name, parameters }));
}

function searchesIn(tools: unknown): number {
  return fieldsIn(tools)
    .filter(({ type }) => typeof type === "string" && type.startsWith("web_search"))
    .reduce((total, { max_uses: most }) => total + (typeof most === "number" ? most : Number.POSITIVE_INFINITY), 0);
}
