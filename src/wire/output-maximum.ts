import type { TextApi } from "../core/bounds.ts";
import { jsonMembers, parseJson, replaced, withMember } from "./json.ts";
import { isOutputLimit } from "./model-request.ts";

/** Limit of the answer's text in requests of an endpoint. */
export interface OutputMaximum {
  readonly api: TextApi;
  /** Fields of the request that state a maximum for each choice. */
  readonly fields: readonly string[];
  /** Tokens of each choice where no maximum is stated; null where that is the model's own maximum. */
  readonly absent: number | null;
}

/**
 * Returns the body with at most `most` output tokens for each choice; every other byte stays as it was. A larger stated
 * maximum, and one that is no whole number above 0, becomes `most`. Where none is stated, `field` gets `most`, at most the
 * `unstated` that would hold without it.
 */
export function withOutputMaximum(
  body: Buffer,
  { fields }: OutputMaximum,
  { field, most, unstated }: { readonly field: string; readonly most: number; readonly unstated: number },
): Buffer {
  const stated = jsonMembers(body)
    .filter(({ name }) => fields.includes(name))
    .map(({ valueStart, valueEnd }) => ({
      valueStart,
      valueEnd,
      value: parseJson(body.toString("latin1", valueStart, valueEnd)),
    }))
    .filter(({ value }) => value !== null);
  if (stated.length === 0) return withMember(body, field, String(Math.min(most, unstated)));
  return stated
    .filter(({ value }) => !isOutputLimit(value) || value > most)
    .reduceRight((whole, { valueStart, valueEnd }) => replaced(whole, valueStart, valueEnd, String(most)), body);
}
