import { z } from "zod";
import { periods } from "../core/budget.ts";
import { unknownFields } from "../core/fault.ts";
import { rateLimitMax } from "../core/rate-limits.ts";
import { outputCapMax } from "../core/bounds.ts";
import { parseUsd } from "../core/money.ts";
import {
  hostedToolsOf,
  labelsSchema,
  labelsShape,
  modelsOf,
  nameOf,
  pinsSchema,
  pinsShape,
  requirementsOf,
  requirementsShape,
  userOf,
  userShape,
  wholeNumberOrNull,
} from "./fields.ts";
import { readBudgetScope } from "./scopes.ts";

/*
 * Schema of a file for `apply`. Each `error` says what is expected, and completes a sentence that begins with "write".
 * The schema does not transform valid values.
 */

/** Returns the schema of an object that permits only the fields of `shape`. Its error reports each unknown field. */
function block<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  const known = Object.keys(shape);
  return z.strictObject(shape, {
    error: ({ code, ...issue }) =>
      code === "unrecognized_keys"
        ? unknownFields((issue as { keys: string[] }).keys, known)
        : `a block of the fields ${known.join(", ")}`,
  });
}

const nameWords = "a name of 1 to 63 of a-z, 0-9, dot, underscore and dash, beginning with a letter or a digit";
const name = nameOf(nameWords);

function named<Value extends z.ZodType>(value: Value) {
  return z.record(name, value, { error: "a block with one entry for each name, or {} for none" });
}

const modelWords = 'a list of model names or patterns such as ["gpt-4o*", o3], or null for all';
const patternWords = "a model name or a pattern such as gpt-4o*, without spaces";
const models = modelsOf(modelWords, patternWords, "at most 100 patterns")
  .optional()
  .describe("Models that requests may use; * stands for any characters. Missing or null: all models.");

const limit = wholeNumberOrNull("", rateLimitMax, "limit").optional();
const limits = block({
  rpm: limit.describe("Requests in any 60 seconds."),
  tpm: limit.describe("Tokens of the requests in any 60 seconds."),
  parallel: limit.describe("Requests at the same time."),
}).optional();

const outputCap = wholeNumberOrNull("", outputCapMax, "cap")
  .optional()
  .describe("Most output tokens for each choice of a request. Missing or null: no cap.");

/** Returns the schema of named values, such as labels. `shape` describes valid values in the error. */
function valuesOf(shape: string, schema: z.ZodType) {
  const error = `a block of ${shape}`;
  return z
    .record(z.string(), z.string({ error }), { error })
    .refine((values) => schema.safeParse(values).success, { error })
    .optional();
}

const hostedTools = hostedToolsOf("")
  .optional()
  .describe(
    "Hosted tools that nothing bounds, under a hard budget: refuse the request, remove the tools, or allow them. Missing or null: as the team, or else as FAREBOX_HOSTED_TOOLS.",
  );

const expiresWords =
  "a day such as 2027-01-31 (its beginning), an instant such as 2027-01-31T12:00:00Z, or null for never";
const key = block({
  team: name.nullable().optional(),
  models,
  expires: z
    .union([z.iso.date(), z.iso.datetime({ offset: true })], { error: expiresWords })
    .nullable()
    .optional()
    .describe("Time at which the key stops working. Missing or null: never."),
  limits,
  output_cap: outputCap,
  hosted_tools: hostedTools,
  labels: valuesOf(labelsShape, labelsSchema).describe("Labels of the key, for budgets and reports."),
  tags: valuesOf(pinsShape, pinsSchema).describe(
    "Tags of all requests of the key. They replace the values that a request states.",
  ),
  user: userOf(userShape)
    .optional()
    .describe(
      "User of all requests of the key. It replaces the user that a request names. Missing or null: each request names its own user.",
    ),
  requires: requirementsOf(`a list of ${requirementsShape}`)
    .optional()
    .describe("Values that each request must name: user and tag:NAME."),
});

const team = block({ models, limits, output_cap: outputCap, hosted_tools: hostedTools });

const limitUsdWords = 'a decimal string in quotes, USD below 9 million, such as "60" or "2.50"';
const scopeWords = "all, or conditions such as team:NAME, key:NAME, model:PATTERN and each-key";
const warnWords = "a share of the limit from 1% to 100%, or null for none";
const budget = block({
  scope: z.string({ error: scopeWords }).superRefine((text, context) => {
    const read = readBudgetScope(text);
    if (!read.ok) context.addIssue(`${scopeWords}; ${read.message}`);
  }),
  per: z.enum(periods, { error: `one of ${periods.join(", ")}` }),
  limit: z
    .string({ error: limitUsdWords })
    .refine((text) => parseUsd(text) !== undefined, { error: limitUsdWords })
    .describe("USD, a decimal string."),
  mode: z
    .enum(["hard", "soft"], { error: "hard or soft" })
    .optional()
    .describe("hard (default) refuses requests that do not fit; soft only counts."),
  warn: z
    .string({ error: warnWords })
    .regex(/^(?:100|[1-9]\d?)%$/, { error: warnWords })
    .nullable()
    .optional()
    .describe("Share of the limit at which an alert is sent."),
  shared: z
    .boolean({ error: "true or false" })
    .optional()
    .describe("true allows a hard budget on a user or tag that every key can use up. Missing: false."),
});

const applyFileSchema = block({
  teams: named(team.nullable()).optional().describe("All teams. If this section is missing, teams stay unchanged."),
  keys: named(key.nullable()).optional().describe("All keys. If this section is missing, keys stay unchanged."),
  budgets: z
    .array(budget, { error: "a list of budgets, or [] for none" })
    .optional()
    .describe("All budgets. If this section is missing, budgets stay unchanged."),
});

export type ApplyFile = z.infer<typeof applyFileSchema>;
export type StatedKey = z.infer<typeof key>;
export type StatedTeam = z.infer<typeof team>;
export type StatedBudget = z.infer<typeof budget>;

/** Noun and schema of apply files, for `readYaml`. */
export const applyFileKind = { noun: "an apply file", schema: applyFileSchema };

/** Returns the JSON Schema of apply files, for editors. A test compares it with `docs/apply.schema.json`. */
export function applyFileJsonSchema(): string {
  const schema = z.toJSONSchema(applyFileSchema, { io: "input", reused: "ref" });
  return `${JSON.stringify({ title: "Farebox apply file", ...schema }, null, 2)}\n`;
}
