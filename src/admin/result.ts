import type { z } from "zod";
import { didYouMean, meantValue } from "../core/fault.ts";

/** Reason why a use case changed nothing, in one sentence for a person. */
export interface Failure {
  readonly ok: false;
  readonly kind: "invalid" | "not_found" | "name_taken" | "refused";
  readonly message: string;
  /** Name of the invalid field, if there is one. */
  readonly param?: string;
}

export function failure(kind: Failure["kind"], message: string, param?: string): Failure {
  return { ok: false, kind, message, ...(param !== undefined && { param }) };
}

/**
 * Replaces the field name `amount` in a failure with `amount_usd`, the name in requests. Returns other failures
 * unchanged.
 */
export function withAmountUsd(failed: Failure): Failure {
  return failed.message.startsWith("amount must ")
    ? failure(failed.kind, `amount_usd${failed.message.slice("amount".length)}`, "amount_usd")
    : failed;
}

/** Returns the failure for an unknown name. Suggests the most similar known name. */
export function noSuch(noun: string, given: string, known: readonly string[]): Failure {
  return failure("not_found", `there is no ${noun} ${JSON.stringify(given)}${didYouMean(given, known)}`);
}

/** Checks an input. The first fault becomes the failure's message. */
export function parseInput<S extends z.ZodType>(
  schema: S,
  input: unknown,
): { readonly ok: true; readonly value: z.output<S> } | Failure {
  const result = schema.safeParse(input, { reportInput: true });
  if (result.success) return { ok: true, value: result.data };
  const [issue] = result.error.issues;
  if (issue === undefined) return failure("invalid", "malformed input");
  const field = issue.path.filter((step) => typeof step === "string").join(".");
  const problem = `${issue.message}${givenText(issue)}${meantValue(issue)}`;
  return failure("invalid", field === "" ? problem : `${field} ${problem}`);
}

/**
 * Returns the text that adds the given value to a message: `, not "$5"`. Returns "" if the message does not say what
 * the value must be, or if the value is not a short text.
 */
function givenText({ message, input: value }: z.core.$ZodIssue): string {
  const isShown = typeof value === "string" && value.trim() !== "" && value.length <= 80;
  return isShown && message.startsWith("must be ") ? `, not ${JSON.stringify(value)}` : "";
}

/** Checks an input without reading the store. Returns the first fault; null if there is none. */
export function inputFault<S extends z.ZodType>(schema: S, input: z.input<S>): Failure | null {
  const parsed = parseInput(schema, input);
  return parsed.ok ? null : parsed;
}

/** Checks an input as `parseInput` does. Also fails if the input names nothing to change. */
export function parseChange<S extends z.ZodType>(
  schema: S,
  input: unknown,
): { readonly ok: true; readonly value: z.output<S> } | Failure {
  const parsed = parseInput(schema, input);
  return parsed.ok && !statesAny(parsed.value)
    ? failure("invalid", "no change was given; name at least one setting")
    : parsed;
}

/** Checks a change without reading the store. Returns the first fault; null if there is none. */
export function changeFault<S extends z.ZodType>(schema: S, input: z.input<S>): Failure | null {
  const parsed = parseChange(schema, input);
  return parsed.ok ? null : parsed;
}

function statesAny(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value !== undefined;
  return Object.values(value).some(statesAny);
}
