import { z } from "zod";
import { creditKinds } from "../../core/account.ts";
import { comparisons, type Uncertainty, type Movement, type Reconciliation } from "../../core/reconciliation.ts";
import { runSessionStates } from "../../core/keys.ts";
import type { ReportDimension } from "../../ports/ledger.ts";
import { spendDimensions } from "../../ports/spend.ts";
import { agents, cutRequests } from "./agent-sessions.ts";
import { rankedBudgetSchema } from "./lists.ts";
import { count, eachOf, text, textOrNull, time, timeOrNull, tokens, usd, usdOrNull, type Shape } from "./fields.ts";

export const requestsAndCost = z.strictObject({ requests: count, cost_usd: usd });
export const figures = {
  requests: count,
  tokens,
  cost_usd: usd,
  list_cost_usd: usd,
  saving_usd: usd.meta({
    description: "List cost minus cost; below zero if a minimum charge raised the cost.",
  }),
  by_source: z.record(z.string(), requestsAndCost),
  unpriced_requests: count,
  retries: count.meta({
    description: "Requests that the client's SDK sent again after a failure; each may have a cost.",
  }),
  cost_in_doubt_usd: usd.meta({ description: "Cost of charges with doubts." }),
};
const figuresSchema = z.strictObject(figures);
export type FiguresJson = Shape<typeof figuresSchema>;
const reportFigures = {
  ...figures,
  refused_requests: count.nullable().meta({
    description: "Number of refused requests. Null in rows by group, user, tag or label, which refusals do not have.",
  }),
};
const reportFiguresSchema = z.strictObject(reportFigures);
export type ReportFiguresJson = Shape<typeof reportFiguresSchema>;
/** Values of a row's dimensions. */
export type DimensionsJson = Readonly<Partial<Record<ReportDimension, string | null>>>;
export type ReportRowJson = DimensionsJson & ReportFiguresJson;
/** States the types explicitly, because an inferred index signature would make every field a text. */
export const dimension = text as z.ZodType<ReportDimension>;
const reportRow = z.object(reportFigures).catchall(textOrNull) as unknown as z.ZodType<ReportRowJson>;

/** Answer of `report` and of `GET /usage`. */
export const reportSchema = z.strictObject({
  since: time,
  until: time,
  by: z.array(dimension),
  rows: z.array(reportRow).meta({ description: "Each row has a field for each dimension of `by`." }),
  total: reportFiguresSchema,
  ceiling_price: requestsAndCost
    .nullable()
    .meta({ description: "Charges at the ceiling price of unknown models; null for none." }),
  raw_units: z
    .array(z.strictObject({ unit_type: text, units: text, tasks: count }))
    .meta({ description: "Units of tasks for which no price file states a value; they are not in the cost." }),
});
export type ReportJson = Shape<typeof reportSchema>;

const { requests, cost_usd, list_cost_usd, by_source, unpriced_requests } = figures;
const sessionFigures = {
  requests,
  tokens,
  cost_usd,
  list_cost_usd,
  unpriced_requests,
  by_source,
  estimated: requestsAndCost.meta({ description: "Requests whose usage the gateway did not report in full." }),
};
/** A session of `farebox run`. */
export const runSessionSchema = z.strictObject({
  id: text,
  key: text,
  state: z.enum(runSessionStates),
  created_at: time,
  expires_at: time,
  ended_at: timeOrNull,
  tags: z.record(z.string(), z.string()),
  budget: z.strictObject({ limit_usd: usd, remaining_usd: usd }).nullable(),
  pending: z.strictObject({ requests: count, held_usd: usd }).meta({
    description: "Requests that are not settled yet. A request that settles at this moment may also be in the sums.",
  }),
  ...sessionFigures,
  cut: cutRequests,
  models: z.array(z.strictObject({ model: textOrNull, ...sessionFigures })),
  agents: agents.meta({
    description:
      "The agents whose requests name them, as a tree; requests without an agent are those of the main agent.",
  }),
});
export type RunSessionJson = Shape<typeof runSessionSchema>;

export const balanceSchema = z.strictObject({
  balance_usd: usdOrNull,
  available_credits: z.number().nullable(),
  credits: eachOf(creditKinds, z.number().nullable()).meta({ description: "Amounts in the gateway's credits." }),
  plan: textOrNull,
  type: textOrNull,
  fetched_at: time,
  age_seconds: count,
  stale: z.boolean(),
  burn_usd_per_hour: usd,
  hours_left: z.number().nullable(),
});
export type BalanceJson = Shape<typeof balanceSchema>;

const bounds = { below_usd: usd, above_usd: usdOrNull };
const uncertaintyKind = text as z.ZodType<Uncertainty["kind"]>;
const movementKind = text as z.ZodType<Movement["kind"]>;
const whyLeftOut = text as z.ZodType<Reconciliation["leftOut"][number]["why"]>;
/** Comparison of the ledger with the gateway's account. A null amount has no bound. */
export const reconciliationSchema = z.strictObject({
  ok: z.boolean(),
  comparison: z.enum(comparisons).meta({
    description:
      "`differs` if the difference exceeds the uncertainty; otherwise `agree`, or `cannot_tell` if the uncertainty exceeds 5% of the amount.",
  }),
  why: textOrNull.meta({ description: "For `cannot_tell`: a sentence that says how to reduce the uncertainty." }),
  since: time,
  until: time,
  samples: count,
  measure: text,
  requests: count,
  ledger_usd: usd,
  cost_in_doubt_usd: usd.meta({ description: "Cost of charges with doubts." }),
  gateway_usd: usd,
  difference_usd: usd.meta({ description: "Above zero when the gateway billed more than the ledger says." }),
  difference_percent: z.number().nullable().meta({ description: "Null if the ledger charged nothing." }),
  factor: z.strictObject({ value: text, from: textOrNull, to: textOrNull }).nullable().meta({
    description: "Amount that the gateway billed for each US dollar of the ledger; null if the ledger charged nothing.",
  }),
  explained_by: z.array(z.strictObject({ group: text, fraction: text, instead_of: text, from: text, to: text })).meta({
    description: "Groups for which another fraction of the official price would explain the whole difference.",
  }),
  uncertainty: z.strictObject({ ...bounds, items: z.array(z.strictObject({ kind: uncertaintyKind, ...bounds })) }),
  movements: z.array(z.strictObject({ kind: movementKind, usd, estimate: z.boolean() })),
  left_out: z.array(z.strictObject({ since: time, until: time, why: whyLeftOut })),
  balance: z.strictObject({ from_usd: textOrNull, to_usd: textOrNull }),
});
export type ReconciliationJson = Shape<typeof reconciliationSchema>;

const spent = { requests: count, cost_usd: usd, list_cost_usd: usd, saving_usd: usd };
const line = {
  cost_usd: usd,
  requests: count,
  values: z.array(usd).meta({ description: "One amount for each time in `starts`." }),
};
const spender = { name: textOrNull, requests: count, cost_usd: usd, saving_usd: usd };
/** Spans that an overview can cover. */
export const spanNames = ["24h", "7d", "30d", "90d"] as const;
export type SpanName = (typeof spanNames)[number];
export const overviewSchema = z.strictObject({
  now: time,
  time_zone: text,
  today: z.strictObject({ since: time, ...spent, yesterday_by_now_usd: usd }),
  month: z.strictObject({ since: time, until: time, ...spent }),
  forecast: z.strictObject({ month_end_usd: usd, usd_per_hour: usd, from: time }).nullable().meta({
    description:
      "Forecast of the month's spending at the rate since `from`; null without requests in the last seven days.",
  }),
  balance: balanceSchema.nullable(),
  refused_today: count.meta({ description: "Requests that were refused since the start of the day." }),
  at_risk: z.array(rankedBudgetSchema).meta({
    description:
      "At most eight budgets that refuse requests or whose use has reached 80% or the warning; refusing and fullest ones first. Empty in the overview of a key, a team or a model.",
  }),
  span: z.strictObject({
    name: z.enum(spanNames).nullable().meta({ description: "Null if the request stated `since`." }),
    since: time,
    until: time,
    ...spent,
    unpriced_requests: count,
    cost_in_doubt_usd: usd,
    previous: z
      .strictObject({ since: time, until: time, ...requestsAndCost.shape })
      .nullable()
      .meta({
        description: "The previous span, as long as the part of this span that has passed; null without `compare`.",
      }),
  }),
  series: z.strictObject({
    by: z.enum(spendDimensions),
    then_by: z.enum(spendDimensions).nullable(),
    bucket: z.enum(["hour", "day", "month"]),
    starts: z.array(time),
    rows: z.array(
      z.strictObject({
        name: textOrNull,
        ...line,
        parts: z
          .array(z.strictObject({ name: textOrNull, cost_usd: usd }))
          .optional()
          .meta({
            description: "The eight most expensive names of the dimension `then_by`; missing without `then_by`.",
          }),
      }),
    ),
    other: z
      .strictObject({ count, ...line })
      .nullable()
      .meta({ description: "Sum of all names except the eight most expensive ones." }),
  }),
  top: z.strictObject({
    keys: z.array(z.strictObject({ ...spender, team: textOrNull })),
    models: z.array(z.strictObject(spender)),
  }),
  empty: z
    .strictObject({ keys: z.boolean(), charges: z.boolean() })
    .meta({ description: "`keys` is true if there is no live key, `charges` if the ledger has no charge." }),
});
export type OverviewJson = Shape<typeof overviewSchema>;
