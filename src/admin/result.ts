import type { z } from "zod";
import { nearest } from "../core/fault.ts";

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

/** Returns the failure for an unknown name. Suggests the most similar known name. */
export function noSuch(noun: string, given: string, known: readonly string[]): Failure {
  const [near] = nearest(given, known);
  const hint = near === undefined ? "" : `; did you mean ${JSON.stringify(near)}?`;
  return failure("not_found", `there is no ${noun} ${JSON.stringify(given)}${hint}`);
}

/** Checks an input. The first fault becomes the failure's message. */
export function parseInput<S extends z.ZodType>(
  schema: S,
  input: unknown,
): { readonly ok: true; readonly value: z.output<S> } | Failure {
  const result = schema.safeParse(input);
  if (result.success) return { ok: true, value: result.data };
  const [issue] = result.error.issues;
  const field = issue?.path.filter((step) => typeof step === "string").join(".") ?? "";
  return failure("invalid", field === "" ? (issue?.message ?? "malformed input") : `${field} ${issue?.message}`);
}

/** Returns the fault of an input that can be found without reading the store; null if there is none. */
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
  return parsed.ok && !namesAny(parsed.value) ? failure("invalid", "nothing to change was given") : parsed;
}

/** Returns the fault of a change that can be found without reading the store; null if there is none. */
export function changeFault<S extends z.ZodType>(schema: S, input: z.input<S>): Failure | null {
  const parsed = parseChange(schema, input);
  return parsed.ok ? null : parsed;
}

function namesAny(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value !== undefined;
  return Object.values(value).some(namesAny);
}
