import type { Encoding } from "../ports/catalogue.ts";
import type { ChatText } from "../ports/token-counter.ts";
import { jsonText } from "./json-text.ts";

/**
 * Tokens that the chat template adds to the texts. Source: OpenAI cookbook, "How to count tokens with tiktoken",
 * sections 6 and 7, whose examples they reproduce exactly; counts of tools beyond those are estimates.
 */
export const templateTokens = {
  message: 3,
  name: 1,
  reply: 3,
  /** Each function: the o200k_base models (gpt-4o and later) and the cl100k_base ones differ. */
  function: { o200k_base: 7, cl100k_base: 10 },
  /** Once for a function that has properties. */
  properties: 3,
  property: 3,
  enum: -3,
  enumItem: 3,
  /** Once for all tools together. */
  toolsEnd: 12,
} as const;

/** Keys of a parameters' schema that the published estimate leaves out. */
const uncountedSchemaKeys = ["$schema", "type", "required", "additionalProperties"];

/** Texts to tokenise, and tokens to add to their count. */
export interface ChatParts {
  readonly texts: readonly string[];
  readonly tokens: number;
}

/** Everything that a chat's prompt is counted from. */
export function chatParts(chat: ChatText, encoding: Encoding): ChatParts {
  const { message, name, reply } = templateTokens;
  const tools = toolParts(chat.tools, encoding);
  const template = message * chat.messages + name * chat.names + reply;
  return { texts: [...chat.texts, ...tools.texts], tokens: template + tools.tokens };
}

/**
 * The published estimate for tools: name, description and the properties' key, type, description and enum. Whatever
 * else a schema holds (nested properties, items, unions) counts as its JSON text, and so does a tool that is none.
 */
function toolParts(tools: readonly unknown[], encoding: Encoding): ChatParts {
  if (tools.length === 0) return { texts: [], tokens: 0 };
  const each = templateTokens.function[encoding];
  const parts = tools.map((tool) => oneToolParts(tool));
  return {
    texts: parts.flatMap((part) => part.texts),
    tokens: parts.reduce<number>((sum, part) => sum + each + part.tokens, templateTokens.toolsEnd),
  };
}

function oneToolParts(tool: unknown): ChatParts {
  const definition = functionOf(tool);
  if (definition === undefined) return { texts: [jsonText(tool)], tokens: 0 };
  const { name, description, parameters, strict: _, ...others } = definition;
  const line = `${plainText(name)}:${sentence(description)}`;
  const schema = schemaParts(parameters);
  return { texts: [line, ...schema.texts, ...textsOfRest(others)], tokens: schema.tokens };
}

function schemaParts(parameters: unknown): ChatParts {
  if (!isObject(parameters)) return { texts: textsOfValue(parameters), tokens: 0 };
  const { properties, ...others } = parameters;
  for (const key of uncountedSchemaKeys) delete others[key];
  const rest = textsOfRest(others);
  if (!isObject(properties)) return { texts: [...textsOfValue(properties), ...rest], tokens: 0 };
  const parts = Object.entries(properties).map(([key, property]) => propertyParts(key, property));
  const start = parts.length > 0 ? templateTokens.properties : 0;
  return {
    texts: [...parts.flatMap((part) => part.texts), ...rest],
    tokens: parts.reduce<number>((sum, part) => sum + part.tokens, start),
  };
}

function propertyParts(key: string, property: unknown): ChatParts {
  if (!isObject(property)) return { texts: [`${key}:${plainText(property)}`], tokens: templateTokens.property };
  const { type, description, enum: items, ...others } = property;
  const line = `${key}:${plainText(type)}:${sentence(description)}`;
  const choices = enumParts(items);
  return {
    texts: [line, ...choices.texts, ...textsOfRest(others)],
    tokens: templateTokens.property + choices.tokens,
  };
}

function enumParts(items: unknown): ChatParts {
  if (!Array.isArray(items)) return { texts: textsOfValue(items), tokens: 0 };
  return {
    texts: items.map((item) => plainText(item)),
    tokens: templateTokens.enum + templateTokens.enumItem * items.length,
  };
}

/** The function of `{ type: "function", function: {…} }`, or of the flat form that has its name beside its type. */
function functionOf(tool: unknown): Record<string, unknown> | undefined {
  if (!isObject(tool)) return undefined;
  if (isObject(tool["function"])) return tool["function"];
  if (typeof tool["name"] !== "string") return undefined;
  const { type: _, ...definition } = tool;
  return definition;
}

function textsOfRest(others: Record<string, unknown>): string[] {
  return Object.keys(others).length === 0 ? [] : [jsonText(others)];
}

function textsOfValue(value: unknown): string[] {
  return value === undefined || value === null ? [] : [plainText(value)];
}

/** A description as the template shows it: without its last full stop. */
function sentence(value: unknown): string {
  const text = plainText(value);
  return text.endsWith(".") ? text.slice(0, -1) : text;
}

function plainText(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? "" : jsonText(value);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
