import { readFileSync } from "node:fs";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { parse } from "yaml";

export type Fields = { readonly [name: string]: unknown };

const path = new URL("../../docs/gateway-openapi.yaml", import.meta.url);
/** Document of the gateway's interface. */
export const gatewayDocument = parse(readFileSync(path, "utf8")) as {
  readonly paths: Readonly<Record<string, Fields>>;
  readonly components: { readonly schemas: Readonly<Record<string, Fields>> };
};

/**
 * Returns a line for each rule of a schema that a value breaks; [] if the value is valid. With `closed`, fields that
 * the document does not name are faults too, for answers that the sandbox invents.
 */
export function breachesOf(schema: string, value: unknown, closed: "closed" | "open" = "closed"): string[] {
  const validate = validatorFor(schema, closed);
  if (validate(value)) return [];
  return (validate.errors ?? []).map(
    ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
  );
}

const validators = new Map<string, ValidateFunction>();

function validatorFor(schema: string, closed: "closed" | "open"): ValidateFunction {
  const key = `${closed} ${schema}`;
  const made = validators.get(key) ?? compile(schema, closed);
  validators.set(key, made);
  return made;
}

function compile(schema: string, closed: "closed" | "open"): ValidateFunction {
  if (gatewayDocument.components.schemas[schema] === undefined)
    throw new RangeError(`the document has no schema ${schema}`);
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  const whole = closed === "closed" ? withoutOthers(gatewayDocument) : gatewayDocument;
  ajv.addSchema({ $id: "gateway", ...(whole as object) });
  return ajv.compile({ $ref: `gateway#/components/schemas/${schema}` });
}

/** Returns the same schemas with no fields except the named ones. */
function withoutOthers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutOthers);
  if (typeof value !== "object" || value === null) return value;
  const inner = Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withoutOthers(each)]));
  const isObjectSchema = typeof inner["properties"] === "object" && inner["type"] === "object";
  return isObjectSchema ? { additionalProperties: false, ...inner } : inner;
}
