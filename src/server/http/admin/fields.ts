import { z } from "zod";
import { readPair } from "../../../admin/charge-lists.ts";
import { lifetimeMsMax, overlapMsMax } from "../../../admin/keys.ts";
import { sources } from "../../../core/charge.ts";
import { parseSignedUsd } from "../../../core/money.ts";
import { refusalCodes } from "../../../core/refusals.ts";
import { parseDuration } from "../../../core/time.ts";
import { doubts } from "../../../core/usage.ts";
import { chargeNames, chargeSorts, type ChargeQuery } from "../../../ports/ledger.ts";
import { listOrders, type ListQuery } from "../../../ports/lists.ts";
import { refusalSorts } from "../../../ports/refusals.ts";
import { spendDimensions, type SpendDimension } from "../../../ports/spend.ts";
import { failure, type Failure } from "../../../admin/result.ts";
import type { OverviewParams } from "../../../reporting/overview.ts";
import {
  instantForms,
  isInstant,
  meantWord,
  parseSpan,
  type SpanResult,
  type SpanTexts,
} from "../../../reporting/instants.ts";
import { spanNames } from "../../../reporting/shapes/figures.ts";
import { userAsStored } from "../../../wire/headers.ts";
import type { RouteTools } from "./route.ts";

/*
 * Fields and queries that several routes share. Their schemas check values and describe them in the OpenAPI document.
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
  { clock, calendar }: Pick<RouteTools, "clock" | "calendar">,
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
const model = name.optional().meta({ description: "The requested model." });
const chargeState = z.enum(["pending", "posted", "voided"], "must be pending, posted or voided").optional();

const amountShape = "must be an amount in USD such as 0.25, below 9 million";
const amount = z.string().refine((text) => parseSignedUsd(text) !== undefined, amountShape);

export const chargeQuery = z.strictObject({
  key: name.optional().meta({ description: "A key's name or id." }),
  team: name.optional().meta({ description: "The key's team at the time of the request." }),
  model,
  group: name.optional().meta({ description: "The group of the model's price." }),
  without: z
    .enum(chargeNames, `must be one of ${chargeNames.join(", ")}`)
    .optional()
    .meta({ description: "Only charges without a `key`, `team` or `group`." }),
  state: chargeState,
  status: z
    .string()
    .regex(/^[1-5](\d\d|xx)$/, "must be an HTTP status such as 429, or 4xx or 5xx")
    .optional()
    .meta({ description: "Status that the client received, or `4xx` or `5xx`.", example: "5xx" }),
  source: z.enum(sources, `must be one of ${sources.join(", ")}`).optional(),
  doubt: z
    .enum(["true", ...doubts], `must be true or one of ${doubts.join(", ")}`)
    .optional()
    .meta({ description: "Only charges with this doubt; `true` for charges with any doubt." }),
  min_usd: amount.optional().meta({ description: "Smallest cost.", example: "0.10" }),
  max_usd: amount.optional().meta({ description: "Largest cost." }),
  q: search.meta({ description: "Beginning of a request id." }),
  since: instant.optional(),
  until: instant.optional(),
  tag: name
    .refine((text) => readPair(text) !== null, "must be a name and a value such as feature=search")
    .optional()
    .meta({ description: "Tag as name=value.", example: "feature=search" }),
  label: name
    .refine((text) => readPair(text) !== null, "must be a name and a value such as env=prod")
    .optional()
    .meta({ description: "Label that the key had at the time of the request, as name=value.", example: "env=prod" }),
  user: name.optional().meta({ description: "User that the request named, or that its key pins." }),
  sort: z.enum(chargeSorts, `must be one of ${chargeSorts.join(", ")}`).default("time"),
  order: z.enum(listOrders, "must be asc or desc").default("desc"),
  limit: limitOf(100),
  cursor: cursor.optional(),
});

/**
 * Largest number of charges that one request examines. Searching and sorting a hundred thousand takes about 0.1 s.
 */
const examinedMax = 100_000;

/** Converts the parameters of a list of charges to a query of the ledger. */
export function askedCharges(
  {
    key: _key,
    tag,
    label,
    user,
    cursor: after,
    status,
    doubt,
    min_usd: min,
    max_usd: max,
    q,
    since,
    until,
    ...rest
  }: Omit<z.output<typeof chargeQuery>, "key" | "team"> & Partial<Pick<z.output<typeof chargeQuery>, "key" | "team">>,
  tools: Pick<RouteTools, "clock" | "calendar" | "storedUser">,
): { readonly ok: true; readonly asked: ChargeQuery } | Failure {
  const span = spanOf({ since, until }, tools);
  if (!span.ok) return span;
  const asked: ChargeQuery = {
    ...rest,
    after,
    tag: tag === undefined ? undefined : (readPair(tag) ?? undefined),
    user: user === undefined ? undefined : userAsStored(user, tools.storedUser),
    label: label === undefined ? undefined : (readPair(label) ?? undefined),
    since: span.since,
    until: span.until,
    status: status === undefined ? undefined : statusesOf(status),
    doubt: doubt === "true" ? (true as const) : doubt,
    minCost: min === undefined ? undefined : parseSignedUsd(min),
    maxCost: max === undefined ? undefined : parseSignedUsd(max),
    idPrefix: q === "" ? undefined : q,
    examinedMax,
  };
  return { ok: true, asked };
}

function statusesOf(text: string): readonly [number, number] {
  return [Number(text.replace("xx", "00")), Number(text.replace("xx", "99"))];
}

export const refusalQuery = z.strictObject({
  key: z.string().optional().meta({ description: "A key's name or id." }),
  team: z.string().optional(),
  model: z
    .string()
    .optional()
    .meta({ description: "The requested model; `other` for models that no price file names." }),
  code: z.enum(refusalCodes, "must be the code of a refusal, such as budget_exceeded").optional(),
  q: search.meta({
    description: "Text in the key, team, model, code, scope or subject, in any letter case.",
  }),
  since: instant.optional(),
  until: instant.optional(),
  sort: z.enum(refusalSorts, `must be one of ${refusalSorts.join(", ")}`).default("time"),
  order: z.enum(listOrders, "must be asc or desc").default("desc"),
  limit: limitOf(100),
  cursor: cursor.optional(),
});

export const causeQuery = refusalQuery
  .pick({ key: true, team: true, model: true, since: true, until: true })
  .extend({ limit: limitOf(100) });

/** Largest number of refusals that one request examines. PostgreSQL searches fifty thousand in about 0.1 s. */
const refusalsExaminedMax = 50_000;

/** Converts the parameters of a list of refusals to a query of the ledger. */
export function askedRefusals<Params extends Omit<z.output<typeof refusalQuery>, "key" | "team">>(
  { q, since, until, ...rest }: Params,
  tools: Pick<RouteTools, "clock" | "calendar">,
) {
  const span = spanOf({ since, until }, tools);
  if (!span.ok) return span;
  const asked = { ...rest, search: q, since: span.since, until: span.until, examinedMax: refusalsExaminedMax };
  return { ok: true as const, asked };
}

/** Converts the parameters of a list of refusal causes to a query of the ledger. */
export function askedCauses<Params extends Omit<z.output<typeof causeQuery>, "key" | "team">>(
  { since, until, ...rest }: Params,
  tools: Pick<RouteTools, "clock" | "calendar">,
) {
  const span = spanOf({ since, until }, tools);
  if (!span.ok) return span;
  const asked = { ...rest, since: span.since, until: span.until, examinedMax: refusalsExaminedMax };
  return { ok: true as const, asked };
}

/** Returns the schema of an overview's parameters. `dimensions` are the valid values of `by` and `then_by`. */
export function overviewQueryBy<Dimension extends SpendDimension>(dimensions: readonly Dimension[]) {
  // Formatted only for a fault, because loading `Intl.ListFormat` takes 15 ms.
  const error = () => `must be ${new Intl.ListFormat("en", { type: "disjunction" }).format(dimensions)}`;
  const dimension = z.enum(dimensions, { error });
  return z.strictObject({
    span: z
      .enum(spanNames, `must be one of ${spanNames.join(", ")}`)
      .optional()
      .meta({ description: "Span of the series, which ends now. The default is 7d, unless `since` is given." }),
    since: instant.optional(),
    until: instant.optional(),
    model,
    by: dimension.default("model" as never).meta({ description: "Dimension of the series." }),
    then_by: dimension.optional().meta({ description: "Second dimension. Splits each series of `by`." }),
    compare: z
      .literal("previous", "must be previous")
      .optional()
      .meta({ description: "`previous` compares the span with the previous span." }),
  });
}

export const overviewQuery = overviewQueryBy(spendDimensions).extend({
  key: z.string().max(200).optional().meta({ description: "A key's name or id." }),
  team: z.string().max(200).optional(),
});

/** Converts an overview's parameters to its span, dimensions and comparison. */
export function askedOverview(
  { span, since, until, by, then_by: thenBy, compare }: z.output<ReturnType<typeof overviewQueryBy<SpendDimension>>>,
  tools: Pick<RouteTools, "clock" | "calendar">,
): { readonly ok: true; readonly asked: Pick<OverviewParams, "span" | "by" | "thenBy" | "compares"> } | Failure {
  const rest = { by, thenBy, compares: compare !== undefined };
  if (thenBy === by) return failure("invalid", "then_by and by must be different dimensions", "then_by");
  if (since === undefined) {
    if (until !== undefined) return failure("invalid", "until needs since", "until");
    return { ok: true, asked: { span: span ?? "7d", ...rest } };
  }
  if (span !== undefined) return failure("invalid", "state either span or since, not both", "span");
  const now = tools.clock.now();
  const read = spanOf({ since, until }, tools);
  if (!read.ok) return read;
  const { since: from, until: to = now } = read;
  if (from >= to || from > now) return failure("invalid", "since must be before until and not in the future", "since");
  return { ok: true, asked: { span: { since: from, until: to }, ...rest } };
}

export const liveQuery = z.strictObject({
  key: z.string().optional().meta({ description: "A key's name or id." }),
  team: z.string().optional(),
  model,
  state: chargeState.meta({
    description: "Ignored with `after`, because the state of a request changes when it ends.",
  }),
  limit: limitOf(50),
  after: z.string().max(100).optional().meta({ description: "The `cursor` of an earlier answer." }),
});
