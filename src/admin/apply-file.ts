import { z } from "zod";
import { isOfSession, parseScope, periods, teamOfScope } from "../core/budget.ts";
import { unknownFields } from "../core/fault.ts";
import { namePattern } from "../core/keys.ts";
import { limitMax } from "../core/limits.ts";
import { outputCapMax } from "../core/bounds.ts";
import { parseUsd } from "../core/money.ts";
import { patternPattern, wholeNumberOrNull } from "./fields.ts";

/*
 * Schema of a file for `apply`. Every `error` completes a sentence that begins with "write", so that it says what is
 * expected. The schema transforms nothing: a valid value is returned as it was written.
 */

/** Returns the schema of an object with these fields only. Its error reports each unknown field. */
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
const name = z.string({ error: nameWords }).regex(namePattern, { error: nameWords });

function named<Value extends z.ZodType>(value: Value) {
  return z.record(name, value, { error: "a block with one entry a name, or {} for none" });
}

const modelWords = 'a list of model names or patterns such as ["gpt-4o*", o3], or null for all';
const models = z
  .array(
    z
      .string({ error: modelWords })
      .regex(patternPattern, { error: "a model name or a pattern such as gpt-4o*, without spaces" }),
    { error: modelWords },
  )
  .min(1, { error: modelWords })
  .max(100, { error: "at most 100 patterns" })
  .nullable()
  .optional()
  .describe("Models that may be used, * standing for any characters; left out or null, all.");

const limit = wholeNumberOrNull("", limitMax, "limit").optional();
const limits = block({
  rpm: limit.describe("Requests in any 60 seconds."),
  tpm: limit.describe("Tokens of the requests of any 60 seconds."),
  parallel: limit.describe("Requests at the same time."),
}).optional();

const outputCap = wholeNumberOrNull("", outputCapMax, "cap")
  .optional()
  .describe("Most output tokens for each choice of a request; left out or null, no cap.");

const expiresWords =
  "a day such as 2027-01-31 (its beginning), an instant such as 2027-01-31T12:00:00Z, or null for never";
const key = block({
  team: name.nullable().optional(),
  models,
  expires: z
    .union([z.iso.date(), z.iso.datetime({ offset: true })], { error: expiresWords })
    .nullable()
    .optional()
    .describe("Time at which it stops working; left out or null, never."),
  limits,
  output_cap: outputCap,
});

const team = block({ models, limits, output_cap: outputCap });

const limitUsdWords = 'a decimal string in quotes, USD below 9 million, such as "60" or "2.50"';
const scopeWords = "all, team:NAME, key:NAME, each-key or each-key:TEAM";
const warnWords = "a share of the limit from 1% to 100%, or null for none";
const budget = block({
  scope: z.string({ error: scopeWords }).refine(isScope, { error: scopeWords }),
  per: z.enum(periods, { error: `one of ${periods.join(", ")}` }),
  limit: z
    .string({ error: limitUsdWords })
    .refine((text) => parseUsd(text) !== undefined, { error: limitUsdWords })
    .describe("USD, a decimal string."),
  mode: z
    .enum(["hard", "soft"], { error: "hard or soft" })
    .optional()
    .describe("hard (default) refuses what does not fit; soft only counts."),
  warn: z
    .string({ error: warnWords })
    .regex(/^(?:100|[1-9]\d?)%$/, { error: warnWords })
    .nullable()
    .optional()
    .describe("Share of the limit at which a warning is due."),
});

function isScope(text: string): boolean {
  const scope = parseScope(text);
  if (scope === undefined || isOfSession(scope)) return false;
  const teamName = teamOfScope(scope);
  return teamName === null || namePattern.test(teamName);
}

export const applyFileSchema = block({
  teams: named(team.nullable()).optional().describe("All teams. Left out, teams are left alone."),
  keys: named(key.nullable()).optional().describe("All keys. Left out, keys are left alone."),
  budgets: z
    .array(budget, { error: "a list of budgets, or [] for none" })
    .optional()
    .describe("All budgets. Left out, budgets are left alone."),
});

export type ApplyFile = z.infer<typeof applyFileSchema>;
export type StatedKey = z.infer<typeof key>;
export type StatedTeam = z.infer<typeof team>;
export type StatedBudget = z.infer<typeof budget>;

/** Noun and schema for the reader of these files. */
export const applyFileKind = { noun: "a file of apply", schema: applyFileSchema };

/** Returns the same schema as JSON Schema, for editors. A test compares it with `docs/apply.schema.json`. */
export function applyFileJsonSchema(): string {
  const schema = z.toJSONSchema(applyFileSchema, { io: "input", reused: "ref" });
  return `${JSON.stringify({ title: "Farebox apply file", ...schema }, null, 2)}\n`;
}
