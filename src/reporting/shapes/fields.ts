import { z } from "zod";
import { hostedToolPolicies } from "../../core/keys.ts";
import { tokenClasses } from "../../core/usage.ts";

/*
 * Schemas of answers, each declared once. `/admin/v1`, `/v1/farebox`, `--json`, the OpenAPI document and the dashboard
 * all use them. Tests check answers against these schemas; a running proxy uses only their types.
 */

/** Read-only type of the values that a schema describes. */
export type Shape<Schema extends z.ZodType> = Frozen<z.output<Schema>>;
type Frozen<T> = unknown extends T ? T : { readonly [Name in keyof T]: Frozen<T[Name]> };

export const time = z.iso.datetime().meta({ description: "ISO 8601 UTC." });
export const timeOrNull = time.nullable();
export const usd = z
  .string()
  .regex(/^-?\d+\.\d{2,12}$/)
  .meta({ description: "USD as a decimal string, exact.", example: "1.25" });
export const usdOrNull = usd.nullable();
export const text = z.string();
export const textOrNull = text.nullable();
export const count = z.int().min(0);

const limit = z.int().min(1).nullable();
export const limits = z.strictObject({ rpm: limit, tpm: limit, parallel: limit });
export const outputCap = limit.meta({
  description: "Most output tokens for each choice of a request; null for no cap.",
});
export const hostedTools = z.enum(hostedToolPolicies).nullable().meta({
  description: "Policy for hosted tools that nothing bounds, under a hard budget; null if it is inherited.",
});
export const models = z.array(text).nullable().meta({ description: "Patterns of models; null for all." });

/** Returns the schema of an object that has the given field under each of these names. */
export function eachOf<Name extends string, Field extends z.ZodType>(names: readonly Name[], field: Field) {
  return z.strictObject(Object.fromEntries(names.map((name) => [name, field])) as Record<Name, Field>);
}

export const tokens = eachOf(tokenClasses, count);

export const next = textOrNull.meta({ description: "The cursor of the next page; null on the last page." });
