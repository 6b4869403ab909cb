import { z } from "zod";
import { priceFileSchema } from "../../src/catalogue/schema.ts";
import { cell, code, table } from "./markdown.ts";

/** Parts of JSON Schema that price files use. */
interface Schema {
  readonly type?: string | readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly enum?: readonly string[];
  readonly const?: boolean;
  readonly items?: Schema;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | false;
}

/** Titles of the tables, by the path of the block whose fields they list. A field appears in the table of its nearest block. */
const titles: Readonly<Record<string, string>> = {
  "": "A file",
  "groups.NAME": "A group, or `gateway`",
  "models.NAME": "A model",
  "models.NAME.change": "A change of a model",
  "models.NAME.prices[]": "A price of a model",
  "models.NAME.tasks.TYPE[]": "A price of a task",
  "routes.PATH": "A path of the gateway",
};

/** Tables whose rows a table does not repeat. A sentence names these fields instead. */
const others: Readonly<Record<string, readonly string[]>> = { "models.NAME.change": ["groups.NAME", "models.NAME"] };

/** Placeholders in a path for members whose names a price file chooses. */
const memberNames: Readonly<Record<string, string>> = { tasks: "TYPE", routes: "PATH", fees: "CALL" };

/** Blocks with the same fields as other blocks, or with one rate for each token class. The text of the page describes them. */
const repeated: ReadonlySet<string> = new Set([
  "changes",
  "default",
  "defaults",
  "official",
  "gateway",
  "priority",
  "flex",
  "batch",
  "fast",
  "us",
]);

/** Returns tables of all fields of a price file with their types, from the schema that checks the files. */
export function priceFieldTables(): string {
  const file = z.toJSONSchema(priceFileSchema, { io: "input" }) as Schema;
  const rows = new Map(Object.keys(titles).map((path): [string, string[][]] => [path, []]));
  addFields(file, "", "");
  return Object.entries(titles)
    .map(([path, title]) => {
      const heading = path === "" ? `**${title}**` : `**${title}** (${code(path)})`;
      const own = rows.get(path) ?? [];
      const shared = (others[path] ?? []).map((other) => [other, own.filter(isIn(rows.get(other) ?? []))] as const);
      const listed = own.filter((row) => shared.every(([, equal]) => !equal.includes(row)));
      const fields = table(["field", "type", "meaning"], listed);
      return [heading, fields, ...shared.map(([other, equal]) => alsoIn(other, equal))].join("\n\n");
    })
    .join("\n\n");

  /** Adds the fields of a block. `within`: path of the block whose table lists them. */
  function addFields(block: Schema, path: string, within: string): void {
    for (const [name, field] of variantsOf(block).flatMap(({ properties = {} }) => Object.entries(properties))) {
      const fieldPath = path === "" ? name : `${path}.${name}`;
      const shown = within === "" ? fieldPath : fieldPath.slice(within.length + 1);
      if (field.description === undefined) throw new Error(`the field ${fieldPath} of price files has no description`);
      rows.get(within)?.push([code(shown), typeOf(field), cell(field.description)]);
      if (!repeated.has(name)) addMembers(field, fieldPath, name, nearest(fieldPath, within));
    }
  }

  function addMembers(field: Schema, path: string, name: string, within: string): void {
    for (const variant of variantsOf(field)) {
      if (variant.properties !== undefined) addFields(variant, path, within);
      if (variant.items !== undefined) addMembers(variant.items, `${path}[]`, name, nearest(`${path}[]`, within));
      const { additionalProperties: members } = variant;
      if (members === undefined || members === false) continue;
      const memberPath = `${path}.${memberNames[name] ?? "NAME"}`;
      addMembers(members, memberPath, name, nearest(memberPath, within));
    }
  }
}

/** Returns a filter for rows that these rows also contain. */
function isIn(rows: readonly string[][]): (row: readonly string[]) => boolean {
  return (row) => rows.some((other) => other.join("|") === row.join("|"));
}

/** Returns the sentence that names the fields of another table. Their parts are not named. */
function alsoIn(path: string, rows: readonly (readonly string[])[]): string {
  const names = rows.flatMap(([name = ""]) => (/[.[]/.test(name) ? [] : [name]));
  return `Also, as in ${code(path)}: ${names.join(", ")}.`;
}

/** Returns the path itself if it has a table; otherwise the path of the enclosing block. */
function nearest(path: string, within: string): string {
  return path in titles ? path : within;
}

/** Returns the forms of a field, without null. */
function variantsOf(schema: Schema): readonly Schema[] {
  return (schema.anyOf?.flatMap(variantsOf) ?? [schema]).filter(({ type }) => type !== "null");
}

const plainTypes: Readonly<Record<string, string>> = {
  string: "text",
  integer: "whole number",
  boolean: "true or false",
  null: "null",
};

/** Returns the plural of a member's type. */
function listed(member: Schema): string {
  const [{ type } = member] = variantsOf(member);
  return type === "string" ? "texts" : type === "integer" ? "numbers" : "blocks";
}

function typeOf({
  type = "",
  anyOf,
  enum: values,
  const: value,
  items,
  additionalProperties: members,
}: Schema): string {
  if (anyOf !== undefined) return [...new Set(anyOf.map(typeOf))].join(" or ");
  if (typeof type !== "string") return type.map((each) => typeOf({ type: each })).join(" or ");
  if (value !== undefined) return code(String(value));
  if (values !== undefined) return values.map(code).join(", ");
  if (items !== undefined) return `list of ${items.type === "string" ? "texts" : "blocks"}`;
  if (type !== "object") return plainTypes[type] ?? type;
  return members ? `${listed(members)} by name` : "block";
}
