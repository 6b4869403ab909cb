import { z } from "zod";
import { namePattern } from "../core/keys.ts";

const shape = "must be 1 to 63 of a-z, 0-9, dot, underscore and dash, beginning with a letter or a digit";

/** A name of a key, team or admin. */
export const nameSchema = z.string(shape).regex(namePattern, shape);

const patternShape = "must be model names or patterns such as gpt-4o*, without spaces";

/** One wildcard pattern of models. */
export const patternPattern = /^[\x21-\x2b\x2d-\x7e]{1,200}$/;

/** Wildcard patterns of models; null for all. */
export const modelsSchema = z
  .array(z.string().regex(patternPattern, patternShape), patternShape)
  .min(1, patternShape)
  .max(100, "must be at most 100 patterns")
  .nullable();
