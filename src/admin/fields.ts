import { z } from "zod";
import { periods } from "../core/budget.ts";
import {
  hostedToolPolicies,
  isRequirement,
  isTagName,
  isTagValue,
  labelsMax,
  modelPattern,
  namePattern,
  sessionTag,
  tagsMax,
  tagValueCharsMax,
  userPattern,
} from "../core/keys.ts";
import { rateLimitMax } from "../core/rate-limits.ts";
import { parseUsd } from "../core/money.ts";
import { outputCapMax } from "../core/bounds.ts";

const nameShape = "must be 1 to 63 of a-z, 0-9, dot, underscore and dash, beginning with a letter or a digit";

/** Returns the schema of the name of a key, team or admin. `words` is the error message. */
export function nameOf(words: string) {
  return z.string(words).regex(namePattern, words);
}

export const nameSchema = nameOf(nameShape);

const patternShape = "must be model names or patterns such as gpt-4o*, without spaces";

/**
 * Returns the schema of a list of wildcard patterns for models; null permits all models. The parameters are the error
 * messages.
 */
export function modelsOf(list: string, pattern: string, tooMany: string) {
  return z.array(z.string(list).regex(modelPattern, pattern), list).min(1, list).max(100, tooMany).nullable();
}

export const modelsSchema = modelsOf(patternShape, patternShape, "must be at most 100 patterns");

/** Returns the schema of a whole number from 1 to `max`, or null for none. `lead` starts the error message. */
export function wholeNumberOrNull(lead: "must be " | "", max: number, what: "limit" | "cap") {
  const shape = `${lead}a whole number from 1 to ${max}, or null for no ${what}`;
  return z.int(shape).min(1, shape).max(max, shape).nullable();
}

const limitSchema = wholeNumberOrNull("must be ", rateLimitMax, "limit").optional();

/**
 * Limits on requests and tokens in any 60 seconds, and on parallel requests. A missing limit stays unchanged; null
 * removes it.
 */
export const limitsSchema = z.strictObject({ rpm: limitSchema, tpm: limitSchema, parallel: limitSchema });

/** Largest number of output tokens for each choice of a request; null for no cap. */
export const outputCapSchema = wholeNumberOrNull("must be ", outputCapMax, "cap");

const policyShape = `one of ${hostedToolPolicies.join(", ")}, or null to inherit it`;

/** Returns the schema of a policy for hosted tools; null for the policy of the team or the settings. */
export function hostedToolsOf(lead: "must be " | "") {
  return z.enum(hostedToolPolicies, { error: lead + policyShape }).nullable();
}

/**
 * Returns the schema of an amount in USD as a decimal string. `form` completes "must be an amount in USD". `read` returns
 * undefined for an amount that is not valid. `notText` is the error for a value that is not a string.
 */
export function usdSchema(form: string, read: typeof parseUsd = parseUsd, notText?: string) {
  return z.string(notText).transform((text, context) => {
    const amount = read(text);
    if (amount !== undefined) return amount;
    context.addIssue(`must be an amount in USD ${form}`);
    return z.NEVER;
  });
}

/** Period of a budget's windows. */
export const periodSchema = z.enum(periods, `must be one of ${periods.join(", ")}`);

const percentShape = "must be a whole number of percent from 1 to 100";

/** Share of a limit at which an alert is sent, in percent; null for none. */
export const warnPercentSchema = z
  .int(percentShape)
  .min(1, percentShape)
  .max(100, percentShape)
  .nullable()
  .default(null);

const valueShape = `values of 1 to ${tagValueCharsMax} characters without a comma`;

export const labelsShape = `at most ${labelsMax} names (a-z, 0-9, dot, underscore and dash) with ${valueShape}`;

/** The tag of `farebox run` cannot be pinned, because each session has its own value. */
export const pinsShape = `at most ${tagsMax - 1} names (a-z, 0-9, dot, underscore and dash) other than ${sessionTag}, with ${valueShape}`;

function isLabel([name, value]: readonly [string, string | null]): boolean {
  return isTagName(name) && (value === null || isTagValue(value));
}

/** Returns true if a session or a key can give its requests this tag. A null value removes the tag. */
export function isPin(tag: readonly [name: string, value: string | null]): boolean {
  return isLabel(tag) && tag[0] !== sessionTag;
}

/** Returns the schema of named values. Null removes the value with that name. */
function valuesOf(shape: string, max: number, isValid: typeof isLabel) {
  return z
    .record(z.string(), z.string(`must have ${shape}`).nullable(), `must have ${shape}`)
    .refine(
      (values) =>
        Object.values(values).filter((value) => value !== null).length <= max && Object.entries(values).every(isValid),
      `must have ${shape}`,
    );
}

/** Labels of a key, or changes to them. */
export const labelsSchema = valuesOf(labelsShape, labelsMax, isLabel);

/** Tags that a key gives to all its requests, or changes to them. */
export const pinsSchema = valuesOf(pinsShape, tagsMax - 1, isPin);

export const userShape = "1 to 128 characters without control characters, or null for none";

/**
 * Returns the schema of the user that a key gives to all its requests; null if each request names its own user. `words`
 * is the error message.
 */
export function userOf(words: string) {
  return z.string(words).regex(userPattern, words).nullable();
}

export const userSchema = userOf(`must be ${userShape}`);

export const requirementsShape = `at most ${tagsMax} entries, each user or tag:NAME, such as tag:session`;

/**
 * Returns the schema of a key's requirements: the user or tags that each request must have. `words` is the error
 * message.
 */
export function requirementsOf(words: string) {
  return z.array(z.string(words).refine(isRequirement, words), words).max(tagsMax, words);
}

export const requirementsSchema = requirementsOf(`must be ${requirementsShape}`);
