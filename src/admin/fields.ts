import { z } from "zod";
import { namePattern } from "../core/keys.ts";
import { limitMax } from "../core/limits.ts";
import { outputCapMax } from "../core/bounds.ts";

const nameShape = "must be 1 to 63 of a-z, 0-9, dot, underscore and dash, beginning with a letter or a digit";

/** Name of a key, team or admin. */
export const nameSchema = z.string(nameShape).regex(namePattern, nameShape);

const patternShape = "must be model names or patterns such as gpt-4o*, without spaces";

/** Form of one wildcard pattern for models. */
export const patternPattern = /^[\x21-\x2b\x2d-\x7e]{1,200}$/;

/** Wildcard patterns for models; null for all models. */
export const modelsSchema = z
  .array(z.string().regex(patternPattern, patternShape), patternShape)
  .min(1, patternShape)
  .max(100, "must be at most 100 patterns")
  .nullable();

/** Returns the schema of a whole number from 1 to `max`, or null for none. `lead` starts the error message. */
export function wholeNumberOrNull(lead: "must be " | "", max: number, what: "limit" | "cap") {
  const shape = `${lead}a whole number from 1 to ${max}, or null for no ${what}`;
  return z.int(shape).min(1, shape).max(max, shape).nullable();
}

const limitSchema = wholeNumberOrNull("must be ", limitMax, "limit").optional();

/**
 * Limits on requests and tokens in any 60 seconds, and on parallel requests. A missing limit stays as it is; null removes
 * it.
 */
export const limitsSchema = z.strictObject({ rpm: limitSchema, tpm: limitSchema, parallel: limitSchema });

/** Largest number of output tokens for each choice of a request; null for no cap. */
export const outputCapSchema = wholeNumberOrNull("must be ", outputCapMax, "cap");
