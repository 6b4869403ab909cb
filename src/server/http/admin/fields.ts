import { z } from "zod";
import { lifetimeMsMax, overlapMsMax } from "../../../admin/key-changes.ts";
import { failure, type Failure } from "../../../admin/result.ts";
import { dayMs, parseDuration } from "../../../core/time.ts";
import { listOrders, type ListQuery } from "../../../ports/lists.ts";
import {
  instantForms,
  isInstant,
  meantWord,
  parseSpan,
  type SpanResult,
  type SpanTexts,
} from "../../../reporting/instants.ts";
import type { Timed } from "./route.ts";

/*
 * Fields and queries that several routes share. Their schemas check values and describe them in the OpenAPI document.
 */

function duration(meaning: string, minMs: number, maxMs: number) {
  const shape = `must be a duration such as 12h or 30d, at most ${maxMs / dayMs}d`;
  return z
    .string(shape)
    .regex(/^\d{1,9}(ms|s|m|h|d)$/, shape)
    .refine((text) => within(parseDuration(text), minMs, maxMs), shape)
    .meta({ description: meaning, example: "30d" });
}

function within(value: number | undefined, min: number, max: number): boolean {
  return value !== undefined && value >= min && value <= max;
}

export const lifetime = duration("Lifetime from now.", 1, lifetimeMsMax);
export const overlap = duration("Time for which the current secret stays valid.", 0, overlapMsMax);

/** Returns the milliseconds of a validated duration. Returns undefined and null unchanged. */
export function msOf(text: string): number;
export function msOf(text: string | null | undefined): number | null | undefined;
export function msOf(text: string | null | undefined): number | null | undefined {
  return text === null || text === undefined ? text : parseDuration(text);
}

/** Instant in the forms that the commands accept. */
export const instant = z
  .string()
  .refine(isInstant, { error: ({ input }) => `must be ${instantForms}${meantWord(input)}` })
  .meta({
    description:
      "A time span before now (24h, 7d), an ISO 8601 instant with its zone, or the start of a period in the server's time zone (today, yesterday, week, month, last-month or a date).",
    example: "7d",
  });

/** Returns the time span of a query. Fails if the span ends before it begins. */
export function spanOf<Texts extends SpanTexts>(
  given: Texts,
  { clock, calendar }: Timed,
): (SpanResult<Texts> & { readonly ok: true }) | Failure {
  const read = parseSpan(given, "", clock.now(), calendar);
  return read.ok ? read : failure("invalid", read.problem, read.param);
}

export function limitOf(defaultCount: number) {
  const shape = "must be a whole number from 1 to 1000";
  return z.coerce
    .number(shape)
    .int(shape)
    .min(1, shape)
    .max(1000, shape)
    .default(defaultCount)
    .meta({ description: "Largest number of rows." });
}

export const cursor = z.string().max(200).meta({ description: "The `next` of the previous page." });

const searchShape = "must be a text of at most 100 characters";
export const search = z
  .string(searchShape)
  .regex(/^[^\0]{0,100}$/su, searchShape)
  .optional();

/**
 * Returns the query fields of a list, and the function that converts them to a query. The default sort is the first of
 * `sorts`. By default, sorts in `ascending` start with the smallest value, all others with the largest.
 */
export function listFields<Sort extends string>(sorts: readonly [Sort, ...Sort[]], ascending: readonly Sort[]) {
  const fields = {
    q: search.meta({ description: "Text that the name must contain, in any letter case." }),
    sort: z.enum(sorts, `must be one of ${sorts.join(", ")}`).default(sorts[0] as never),
    order: z
      .enum(listOrders, "must be asc or desc")
      .optional()
      .meta({ description: `The default is asc for ${ascending.join(" and ")}, otherwise desc.` }),
    limit: limitOf(100),
    cursor: z.string().max(1000).optional().meta({ description: "The `next` of the previous page in the same order." }),
  };
  return {
    fields,
    /** Returns the query of a list from its validated fields. */
    queryOf: (
      { q, sort: stated, order, limit, cursor: after }: z.output<z.ZodObject<typeof fields>>,
      at: number,
    ): ListQuery<Sort> => {
      const sort = stated as Sort;
      return { at, search: q, sort, order: order ?? (ascending.includes(sort) ? "asc" : "desc"), limit, after };
    },
  };
}

const nameShape = "must be a text of at most 200 characters";
export const name = z.string(nameShape).regex(/^[^\0]{0,200}$/su, nameShape);
export const model = name.optional().meta({ description: "The requested model." });
