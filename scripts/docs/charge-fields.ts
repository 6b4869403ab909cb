import { z } from "zod";
import { chargeSchema } from "../../src/reporting/shapes/charges.ts";
import { cell, code, table } from "./markdown.ts";

/** Parts of JSON Schema that charges use. */
interface Schema {
  readonly type?: string | readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly enum?: readonly string[];
  readonly format?: string;
  readonly items?: Schema;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
}

const plainTypes: Readonly<Record<string, string>> = {
  string: "text",
  integer: "whole number",
  boolean: "true or false",
};

/** Returns a table of all fields of a charge with their types, from the schema of the admin API's answers. */
export function chargeFieldsTable(): string {
  const { properties = {} } = z.toJSONSchema(chargeSchema, { io: "output" }) as Schema;
  return table(
    ["field", "type", "meaning"],
    Object.entries(properties).map(([name, schema]) => [code(name), typeOf(schema), cell(meaningOf(schema))]),
  );
}

function meaningOf({ description, anyOf = [] }: Schema): string {
  return description ?? anyOf.map(({ description: inner }) => inner).find((inner) => inner !== undefined) ?? "";
}

function typeOf({ type = "", anyOf, enum: values, format, items, properties }: Schema): string {
  if (anyOf !== undefined) return anyOf.map(typeOf).join(" or ");
  if (typeof type !== "string") return type.map((each) => typeOf({ type: each })).join(" or ");
  if (values !== undefined) return values.map(code).join(", ");
  if (format === "date-time") return "time";
  if (items !== undefined) return items.enum === undefined ? `list of ${typeOf(items)}` : "list of texts";
  if (type === "object" && properties !== undefined) return `object: ${Object.keys(properties).map(code).join(", ")}`;
  return plainTypes[type] ?? type;
}
