import { isObject, objectOr } from "../../wire/json.ts";
import type { ChatText, OutputSchema, PromptForm, ToolTurn } from "../../core/prompt-text.ts";

/**
 * Tokens that the chat template adds to the texts. Messages and replies: OpenAI cookbook, "How to count tokens with
 * tiktoken". The other numbers were derived from published requests with known usage, in
 * test/unit/platform/tokens/published.ts.
 */
const templateTokens = {
  message: 3,
  name: 1,
  reply: { chat: 3, harmony: 2 },
  /** Text around the list of tools, counted once. */
  tools: { chat: { chat: 9, responses: 3 }, harmony: { chat: 91, responses: 9 } },
  /** For tools, or an output schema, that a chat's prompt merges into another system message. */
  joined: -4,
  /** For a function of `tools` whose first property has neither a title nor a description. */
  bareProperty: -1,
  /** For a function without a description. */
  bareFunction: { chat: 0, harmony: -1 },
  /** For a tool that is not a function, in addition to its JSON text. */
  otherTool: 7,
  /** Instruction to a reasoning model that it must not call several tools at once. */
  sequential: 78,
  /** For the `tool_choice` "none", or one that names a tool. */
  choice: { none: 1, named: 7 },
  /** For each tool call, and for each result. */
  call: { chat: { chat: 5, responses: 7 }, harmony: { chat: 9, responses: 12 } },
  result: { chat: { chat: 4, responses: 6 }, harmony: { chat: 6, responses: 8 } },
  /** For the older `function_call`, and for a message with the role `function`, including the tokens of the role. */
  function: { call: 3, result: 3 },
  /** Text around parallel calls: `all` counts once, `each` for every call. */
  parallel: { all: 12, each: 3 },
  /** For an output schema. */
  schema: { chat: 6, responses: 0 },
  /** For a property of a schema that has a description. */
  describedProperty: -1,
} as const;

/** Texts to tokenize, and tokens to add to their count. */
interface TokenInput {
  readonly texts: readonly string[];
  /** Texts that reach the model with every non-ASCII character as a `\u` escape. */
  readonly escaped: readonly string[];
  readonly tokens: number;
}

/** Returns the texts and template tokens that make up a chat's prompt. */
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

/** Returns the tools of a request: functions in the published form, other tools as JSON text. */
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
      // The older field `functions` lists functions without a type.
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

/** Returns the function of `{ type: "function", function: {…} }`, or of the flat form with `name` next to `type`. */
function functionOf(tool: unknown): FunctionDefinition | undefined {
  if (!isObject(tool)) return undefined;
  if (isObject(tool["function"])) return tool["function"];
  const { type = "function", name } = tool;
  return type === "function" && typeof name === "string" ? tool : undefined;
}

/** Returns tool calls and their results. The prompt repeats the function's name with each result. */
function turnParts({ kind, calls, results }: ToolTurn, api: ChatText["api"], form: PromptForm): TokenInput {
  const each =
    kind === "function"
      ? templateTokens.function
      : { call: templateTokens.call[form][api], result: templateTokens.result[form][api] };
  const isParallel = kind === "tool" && api === "chat" && calls.length > 1;
  const named = kind === "function" ? [] : calls.slice(0, results.length).map(({ name }) => repeatedName(name));
  return {
    texts: [...calls.flatMap((call) => [call.name, call.arguments]), ...(isParallel ? [] : results), ...named],
    // Parallel results reach the model as one JSON text.
    escaped: isParallel ? results : [],
    tokens:
      each.call * calls.length +
      each.result * results.length +
      (isParallel ? templateTokens.parallel.all + templateTokens.parallel.each * calls.length : 0),
  };
}

/**
 * Returns the name if it is valid for a function. Returns "" for other names, because the prompt does not repeat them.
 */
function repeatedName(name: string): string {
  return /^[\w-]{1,64}$/.test(name) ? name : "";
}

function schemaParts({ schema, api, hasSystem, tools }: ChatText): TokenInput {
  if (schema === null) return nothing;
  const joins = api === "chat" && (hasSystem || tools.length > 0);
  const described = propertiesOf(schema.schema).filter((each) => isObject(each) && isText(each["description"]));
  return {
    texts: [schema.name, schema.description === "" ? "" : `// ${schema.description}`, jsonText(shownSchema(schema))],
    escaped: [],
    tokens:
      templateTokens.schema[api] +
      (joins ? templateTokens.joined : 0) +
      templateTokens.describedProperty * described.length,
  };
}

/** Removes `additionalProperties` from a strict schema, as the prompt does. */
function shownSchema({ schema, isStrict }: OutputSchema): unknown {
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

/** Largest number of schema levels that are rendered. Deeper levels count as JSON text. */
const depthMax = 64;

/** A function of a tool definition. */
interface FunctionDefinition {
  readonly name?: unknown;
  readonly description?: unknown;
  readonly parameters?: unknown;
}

/**
 * Renders functions as OpenAI's models see them: as a namespace of TypeScript types. OpenAI's Harmony guide documents
 * this form for open models, and hmarr/openai-chat-tokens for the other models. Each part of a schema is rendered once,
 * so that the text is never much longer than the definitions.
 */
function renderedFunctions(functions: readonly FunctionDefinition[]): string {
  const types = functions.map((definition) => renderedFunction(definition));
  return `namespace functions {\n\n${types.join("")}} // namespace functions`;
}

function renderedFunction({ name, description, parameters }: FunctionDefinition): string {
  const schema = objectOr(parameters);
  const rendering = new Rendering(schema);
  const comments = [description, schema["title"], schema["description"]].map(comment).join("");
  const members = rendering.members(schema, 0);
  const head = `${comments}type ${plainText(name)} = (`;
  return members === "" ? `${head}) => any;\n\n` : `${head}_: {\n${members}}) => any;\n\n`;
}

/** Renders one schema, and each of its definitions once. */
class Rendering {
  readonly #definitions: Readonly<Record<string, unknown>>;
  readonly #rendered = new Set<string>();

  constructor(schema: Readonly<Record<string, unknown>>) {
    this.#definitions = { ...objectOr(schema["definitions"]), ...objectOr(schema["$defs"]) };
  }

  /** Returns the properties of an object, one per line; empty for an object without properties. */
  members(schema: Readonly<Record<string, unknown>>, depth: number): string {
    const required = new Set<unknown>(Array.isArray(schema["required"]) ? schema["required"] : []);
    const lines: string[] = [];
    for (const [key, value] of Object.entries(objectOr(schema["properties"]))) {
      const property = objectOr(value);
      lines.push(comment(property["title"]), comment(property["description"]));
      lines.push(key, required.has(key) ? ": " : "?: ", this.#type(property, depth + 1), ",");
      if (property["default"] !== undefined) lines.push(` // default: ${plainText(property["default"])}`);
      lines.push("\n");
    }
    return lines.join("");
  }

  #type(value: unknown, depth: number): string {
    const schema = objectOr(value);
    if (depth > depthMax) return jsonText(value);
    if (typeof schema["$ref"] === "string") return this.#definition(schema["$ref"], depth);
    if (schema["const"] !== undefined) return jsonText(schema["const"]);
    if (Array.isArray(schema["enum"])) return schema["enum"].map((item) => jsonText(item)).join(" | ");
    const alternatives = schema["anyOf"] ?? schema["oneOf"] ?? schema["allOf"];
    if (Array.isArray(alternatives)) return alternatives.map((each) => this.#type(each, depth + 1)).join(" | ");
    const { type } = schema;
    if (Array.isArray(type)) return [...new Set(type)].map((each) => this.#plainType(each, schema, depth)).join(" | ");
    return this.#plainType(type, schema, depth);
  }

  #plainType(type: unknown, schema: Readonly<Record<string, unknown>>, depth: number): string {
    switch (type) {
      case "integer":
        return "number";
      case "array":
        return `${this.#type(schema["items"], depth + 1)}[]`;
      case "object": {
        const members = this.members(schema, depth);
        return members === "" ? "object" : `{\n${members}}`;
      }
      default:
        return typeof type === "string" ? type : "any";
    }
  }

  #definition(reference: string, depth: number): string {
    const name = reference.slice(reference.lastIndexOf("/") + 1);
    if (this.#rendered.has(name) || !Object.hasOwn(this.#definitions, name)) return name;
    this.#rendered.add(name);
    return this.#type(this.#definitions[name], depth + 1);
  }
}

/** Returns a text as a comment. Only the first line starts with `//`. The other lines lose their indentation. */
function comment(text: unknown): string {
  return typeof text === "string" && text !== "" ? `// ${text.replaceAll(/\n[ \t]+/g, "\n").trimEnd()}\n` : "";
}

function plainText(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined ? "" : jsonText(value);
}

/**
 * Returns the JSON text of a value, for counting only. `JSON.parse` reads any depth, but `JSON.stringify` overflows the
 * stack after some thousands of levels. This function flattens a value that `JSON.stringify` cannot write.
 */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return flatText(value);
  }
}

/**
 * Returns all keys and leaf values, and a pair of brackets for each level: about as many tokens as the JSON text has.
 */
function flatText(value: unknown): string {
  const parts: string[] = [];
  const seen = new Set<object>();
  const open: unknown[] = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next !== "object" || next === null) {
      parts.push(`${JSON.stringify(String(next))},`);
    } else if (!seen.has(next)) {
      seen.add(next);
      parts.push("[]");
      for (const [key, inner] of Object.entries(next)) {
        if (!Array.isArray(next)) parts.push(`${JSON.stringify(key)}:`);
        open.push(inner);
      }
    }
  }
  return parts.join("");
}
