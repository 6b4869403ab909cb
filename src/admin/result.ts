import type { z } from "zod";

/** Why a use case did not do what was asked, in one sentence for a person. Nothing was changed. */
export interface Failure {
  readonly ok: false;
  readonly kind: "invalid" | "not_found" | "name_taken" | "refused";
  readonly message: string;
}

export function failure(kind: Failure["kind"], message: string): Failure {
  return { ok: false, kind, message };
}

/** Checks an input; the first thing wrong with it becomes the failure's sentence. */
export function parseInput<S extends z.ZodType>(
  schema: S,
  input: unknown,
): { readonly ok: true; readonly value: z.output<S> } | Failure {
  const result = schema.safeParse(input);
  if (result.success) return { ok: true, value: result.data };
  const [issue] = result.error.issues;
  const field = issue?.path[0];
  return failure("invalid", field === undefined ? (issue?.message ?? "malformed input") : `${String(field)} ${issue?.message}`);
}
