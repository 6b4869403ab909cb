import type { ChatText, OutputSchema, PromptForm, ToolTurn } from "../../core/chat-text.ts";
import { jsonText } from "./json-text.ts";
import { renderedFunctions, type FunctionDefinition } from "./namespace.ts";

/**
 * Tokens that the chat template adds to the texts. Messages and replies: OpenAI cookbook, "How to count tokens with tiktoken".
 * The others were found from published requests whose answers state their usage: those of test/unit/platform/tokens/published.ts.
 */
const templateTokens = {
  message: 3,
  name: 1,
  reply: { chat: 3, harmony: 2 },
  /** What surrounds the tools, once. */
  tools: { chat: { chat: 9, responses: 3 }, harmony: { chat: 91, responses: 9 } },
  /** The tools of a chat join its first message of the system. */
  joined: -4,
  /** For a function of `tools` whose first property has neither a title nor a description. */
  bareProperty: -1,
  /** For a function without a description. */
  bareFunction: { chat: 0, harmony: -1 },
  /** For a tool that is no function, beside its JSON text. */
  otherTool: 7,
  /** What a model that reasons is told where it may not call several tools at once. */
  sequential: 78,
  choice: { none: 1, named: 7 },
  call: { chat: { chat: 5, responses: 7 }, harmony: { chat: 9, responses: 12 } },
  result: { chat: { chat: 4, responses: 6 }, harmony: { chat: 6, responses: 8 } },
  /** The older `function_call`, and a message of the role `function`, role included. */
  function: { call: 3, result: 3 },
  /** What surrounds calls that came together: once, and for each. */
  parallel: { all: 12, each: 3 },
  schema: { chat: 6, responses: 0 },
  /** For a property of a schema that has a description. */
  describedProperty: -1,
} as const;

/** Texts to tokenise, and tokens to add to their count. */
export interface TokenInput {
  readonly texts: readonly string[];
  /** Texts that reach the model with all but ASCII written as `\u` escapes. */
  readonly escaped: readonly string[];
  readonly tokens: number;
}

/** Everything that a chat's prompt is counted from. */
export function tokenInput(chat: ChatText, form: PromptForm = "chat"): TokenInput {
  const { message, name, reply } = templateTokens;
  const parts = [
    toolParts(chat, form),
    ...chat.turns.map((turn) => turnParts(turn, chat.api, form)),
    schemaParts(chat),
  ];
  const template = message * chat.messages + name * chat.names + reply[form];
  return {
    texts: [...chat.texts, ...parts.flatMap(({ texts }) => texts)],
    escaped: parts.flatMap(({ escaped }) => escaped),
    tokens: parts.reduce((sum, { tokens }) => sum + tokens, template),
  };
}

const nothing: TokenInput = { texts: [], escaped: [], tokens: 0 };

/** Functions by the published form; what is no function by its JSON text. */
function toolParts({ tools, api, hasSystem, toolChoice, isSequential }: ChatText, form: PromptForm): TokenInput {
  if (tools.length === 0) return nothing;
  const isChat = form === "chat" && api === "chat";
  const functions: FunctionDefinition[] = [];
  const others: string[] = [];
  let tokens: number = templateTokens.tools[form][api];
  for (const tool of tools) {
    const definition = functionOf(tool);
    if (definition === undefined) {
      others.push(jsonText(tool));
      tokens += templateTokens.otherTool;
    } else {
      functions.push(definition);
      // The older `functions` list them without a type.
      if (isObject(tool) && tool["type"] !== undefined) tokens += bareTokens(definition, form);
    }
  }
  if (isChat && hasSystem) tokens += templateTokens.joined;
  if (form === "harmony" && isSequential) tokens += templateTokens.sequential;
  const texts = [renderedFunctions(functions), ...others];
  if (isChat && toolChoice !== null) {
    tokens += templateTokens.choice[toolChoice === "none" ? "none" : "named"];
    if (toolChoice !== "none") texts.push(toolChoice.name);
  }
  return { texts, escaped: [], tokens };
}

function bareTokens({ description, parameters }: FunctionDefinition, form: PromptForm): number {
  const first = propertiesOf(parameters)[0];
  const isBare = isObject(first) && !isText(first["title"]) && !isText(first["description"]);
  return (isBare ? templateTokens.bareProperty : 0) + (isText(description) ? 0 : templateTokens.bareFunction[form]);
}

/** The function of `{ type: "function", function: {…} }`, or of the flat form that has its name beside its type. */
function functionOf(tool: unknown): FunctionDefinition | undefined {
  if (!isObject(tool)) return undefined;
  if (isObject(tool["function"])) return tool["function"];
  const { type = "function", name } = tool;
  return type === "function" && typeof name === "string" ? tool : undefined;
}

/** Calls and results; the result of a call names its function again. */
function turnParts({ kind, calls, results }: ToolTurn, api: ChatText["api"], form: PromptForm): TokenInput {
  const each =
    kind === "function"
      ? templateTokens.function
      : { call: templateTokens.call[form][api], result: templateTokens.result[form][api] };
  const isParallel = kind === "tool" && api === "chat" && calls.length > 1;
  const named = kind === "function" ? [] : calls.slice(0, results.length).map(({ name }) => repeatedName(name));
  return {
    texts: [...calls.flatMap((call) => [call.name, call.arguments]), ...(isParallel ? [] : results), ...named],
    // They reach the model as one JSON text.
    escaped: isParallel ? results : [],
    tokens:
      each.call * calls.length +
      each.result * results.length +
      (isParallel ? templateTokens.parallel.all + templateTokens.parallel.each * calls.length : 0),
  };
}

/** A name is repeated only where it is one that functions may have. */
function repeatedName(name: string): string {
  return /^[\w-]{1,64}$/.test(name) ? name : "";
}

function schemaParts({ schema, api, hasSystem, tools }: ChatText): TokenInput {
  if (schema === null) return nothing;
  const joins = api === "chat" && (hasSystem || tools.length > 0);
  const described = propertiesOf(schema.schema).filter((each) => isObject(each) && isText(each["description"]));
  return {
    texts: [schema.name, schema.description === "" ? "" : `// ${schema.description}`, jsonText(shown(schema))],
    escaped: [],
    tokens:
      templateTokens.schema[api] +
      (joins ? templateTokens.joined : 0) +
      templateTokens.describedProperty * described.length,
  };
}

/** A strict schema allows no other members: the prompt leaves that out. */
function shown({ schema, isStrict }: OutputSchema): unknown {
  if (!isStrict || !isObject(schema)) return schema;
  const { additionalProperties: _, ...others } = schema;
  return others;
}

function propertiesOf(schema: unknown): readonly unknown[] {
  return isObject(schema) && isObject(schema["properties"]) ? Object.values(schema["properties"]) : [];
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
