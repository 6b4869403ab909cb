import { jsonText } from "./json-text.ts";

/** Levels of a schema that are rendered; what is deeper counts by its JSON text. */
const depthMax = 64;

/** A function of a tool definition. */
export interface FunctionDefinition {
  readonly name?: unknown;
  readonly description?: unknown;
  readonly parameters?: unknown;
}

/**
 * Functions in the form in which OpenAI's models see them, a namespace of TypeScript types: published for open models in
 * OpenAI's Harmony guide, and found for the others by hmarr/openai-chat-tokens. Each part of a schema is written once, so
 * that the text is never much longer than the definitions.
 */
export function renderedFunctions(functions: readonly FunctionDefinition[]): string {
  const types = functions.map((definition) => renderedFunction(definition));
  return `namespace functions {\n\n${types.join("")}} // namespace functions`;
}

function renderedFunction({ name, description, parameters }: FunctionDefinition): string {
  const schema = objectOf(parameters);
  const rendering = new Rendering(schema);
  const comments = [description, schema["title"], schema["description"]].map(comment).join("");
  const members = rendering.members(schema, 0);
  const head = `${comments}type ${plainText(name)} = (`;
  return members === "" ? `${head}) => any;\n\n` : `${head}_: {\n${members}}) => any;\n\n`;
}

/** The rendering of one schema, which writes each of its definitions out once. */
class Rendering {
  readonly #definitions: Readonly<Record<string, unknown>>;
  readonly #written = new Set<string>();

  constructor(schema: Readonly<Record<string, unknown>>) {
    this.#definitions = { ...objectOf(schema["definitions"]), ...objectOf(schema["$defs"]) };
  }

  /** The properties of an object, one a line; empty for none. */
  members(schema: Readonly<Record<string, unknown>>, depth: number): string {
    const required = new Set<unknown>(Array.isArray(schema["required"]) ? schema["required"] : []);
    const lines: string[] = [];
    for (const [key, value] of Object.entries(objectOf(schema["properties"]))) {
      const property = objectOf(value);
      lines.push(comment(property["title"]), comment(property["description"]));
      lines.push(key, required.has(key) ? ": " : "?: ", this.#type(property, depth + 1), ",");
      if (property["default"] !== undefined) lines.push(` // default: ${plainText(property["default"])}`);
      lines.push("\n");
    }
    return lines.join("");
  }

  #type(value: unknown, depth: number): string {
    const schema = objectOf(value);
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
    if (this.#written.has(name) || !Object.hasOwn(this.#definitions, name)) return name;
    this.#written.add(name);
    return this.#type(this.#definitions[name], depth + 1);
  }
}

/** A comment, whose further lines bear no mark and lose their indentation. */
function comment(text: unknown): string {
  return typeof text === "string" && text !== "" ? `// ${text.replaceAll(/\n[ \t]+/g, "\n").trimEnd()}\n` : "";
}

function plainText(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined ? "" : jsonText(value);
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}
