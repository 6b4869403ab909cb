import { z } from "zod";
import { lifetimeMsMax, overlapMsMax } from "../../../admin/keys.ts";
import { parseDuration } from "../../../core/time.ts";
import { spendDimensions } from "../../../ports/spend.ts";
import { instantForms, isInstant, parseInstant } from "../../../reporting/instants.ts";
import { spanNames } from "../../../reporting/shapes/figures.ts";
import type { RouteTools } from "./route.ts";

/*
 * Fields and queries that several routes share. The schema describes valid values, for people and for the OpenAPI document.
 * The use case checks them together with the other fields.
 */

function duration(meaning: string, minMs: number, maxMs: number) {
  const shape = `must be a duration such as 12h or 30d, at most ${maxMs / 86_400_000}d`;
  return z
    .string(shape)
    .regex(/^\d{1,9}(ms|s|m|h|d)$/, shape)
    .refine((text) => within(parseDuration(text), minMs, maxMs), shape)
    .meta({ description: meaning, example: "30d" });
}

function within(value: number | undefined, min: number, max: number): boolean {
  return value !== undefined && value >= min && value <= max;
}

export const lifetime = duration("Lifetime from now on.", 1, lifetimeMsMax);
export const overlap = duration("Time that the present secret stays valid.", 0, overlapMsMax);

/** Returns the milliseconds of a validated duration. Returns undefined and null as they are. */
export function msOf(text: string): number;
export function msOf(text: string | null | undefined): number | null | undefined;
export function msOf(text: string | null | undefined): number | null | undefined {
  return text === null || text === undefined ? text : parseDuration(text);
}

/** An instant in the forms that the commands accept. */
export const instant = z.string().refine(isInstant, `must be ${instantForms}`).meta({
  description:
    "A span back from now (24h, 7d), the beginning of today, yesterday, week, month or last-month, or of a date, in the time zone, or an ISO 8601 instant with its zone.",
  example: "7d",
});

/** Returns the instant of a validated field, in milliseconds since 1970 UTC. */
export function atOf(text: string, { clock, calendar }: Pick<RouteTools, "clock" | "calendar">): number {
  const parsed = parseInstant("", text, clock.now(), calendar);
  return parsed.ok ? parsed.at : 0;
}

export function limitOf(defaultCount: number) {
  const shape = "must be a whole number from 1 to 1000";
  return z.coerce
    .number(shape)
    .int(shape)
    .min(1, shape)
    .max(1000, shape)
    .default(defaultCount)
    .meta({ description: "Largest number of entries." });
}

export const cursor = z.string().max(200).meta({ description: "The `next` of the page before." });

const model = z.string().optional().meta({ description: "The requested model." });
const chargeState = z.enum(["pending", "posted", "voided"], "must be pending, posted or voided").optional();

export const chargeQuery = z.strictObject({
  key: z.string().optional().meta({ description: "A key's name or id." }),
  model,
  state: chargeState,
  since: instant.optional(),
  until: instant.optional(),
  tag: z.string().optional().meta({ description: "name=value.", example: "feature=search" }),
  limit: limitOf(100),
  cursor: cursor.optional(),
});

export const overviewQuery = z.strictObject({
  span: z
    .enum(spanNames, `must be one of ${spanNames.join(", ")}`)
    .default("7d")
    .meta({ description: "Span of the series." }),
  by: z
    .enum(spendDimensions, `must be one of ${spendDimensions.join(", ")}`)
    .default("model")
    .meta({ description: "Dimension of the series." }),
});

export const liveQuery = z.strictObject({
  key: z.string().optional().meta({ description: "A key's name or id." }),
  team: z.string().optional(),
  model,
  state: chargeState.meta({ description: "Used without `after` only, since the end of a request changes its state." }),
  limit: limitOf(50),
  after: z.string().max(100).optional().meta({ description: "The `cursor` of an earlier answer." }),
});
