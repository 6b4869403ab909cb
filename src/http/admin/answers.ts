import { z } from "zod";
import { creditKinds } from "../../core/account.ts";
import { adminRoles } from "../../core/admins.ts";
import { alertTypes } from "../../core/alerts.ts";
import { periods } from "../../core/budget.ts";
import { doubts } from "../../core/doubts.ts";
import { tokenClasses, units } from "../../core/tokens.ts";
import { taskFailures } from "../../core/task-failures.ts";
import { taskStatuses } from "../../core/tasks.ts";

/* What the routes answer: for the document, and for the tests, which hold every answer against it. */

const time = z.iso.datetime().meta({ description: "ISO 8601 UTC." });
const timeOrNull = time.nullable();
const usd = z
  .string()
  .regex(/^-?\d+\.\d{2,12}$/)
  .meta({ description: "USD as a decimal string, exact.", example: "1.25" });
const usdOrNull = usd.nullable();
const count = z.int().min(0);
const limit = z.int().min(1).nullable();
const limits = z.strictObject({ rpm: limit, tpm: limit, parallel: limit });
const outputCap = limit.meta({ description: "Most output tokens for each choice of a request; null for no cap." });
const models = z.array(z.string()).nullable().meta({ description: "Patterns of models; null for all." });
const state = z.enum(["live", "expired", "revoked"]);

const next = z
  .string()
  .nullable()
  .meta({ description: "The cursor of the next page; null where this one is the last." });
export const whoami = z.strictObject({ name: z.string(), role: z.enum(adminRoles), expires_at: timeOrNull });

const keyFields = {
  id: z.string(),
  name: z.string(),
  team: z.string().nullable(),
  models,
  limits,
  output_cap: outputCap,
  created_at: time,
  expires_at: timeOrNull,
  revoked_at: timeOrNull,
  rotated_at: timeOrNull,
  previous_valid_until: timeOrNull,
};
const text = z.string().meta({ description: "The key itself. It is shown this once." });
export const key = z.strictObject({ ...keyFields, state });
export const keyList = z.strictObject({ keys: z.array(key), next });
export const newKey = z.strictObject({ ...keyFields, key: text });
export const rotatedKey = z.strictObject({
  id: z.string(),
  name: z.string(),
  key: text,
  previous_valid_until: timeOrNull,
});

const teamFields = { name: z.string(), models, limits, output_cap: outputCap, created_at: time };
export const team = z.strictObject(teamFields);
export const teamWithKeys = z.strictObject({
  ...teamFields,
  keys: z.array(z.string()).meta({ description: "Names of its live keys." }),
});
export const teamList = z.strictObject({ teams: z.array(teamWithKeys) });
export const removed = z.strictObject({ removed: z.literal(true) });

const budgetFields = {
  scope: z.string(),
  period: z.enum(periods),
  mode: z.enum(["hard", "soft"]),
  limit_usd: usd,
  warn_percent: z.int().nullable(),
};
export const budget = z.strictObject(budgetFields);
export const setBudget = z.strictObject({
  ...budgetFields,
  note: z.string().nullable().meta({ description: "Something that may not have been meant; null mostly." }),
});
export const standing = z.strictObject({
  ...budgetFields,
  key: z.string().nullable(),
  spent_usd: usd,
  held_usd: usd,
  remaining_usd: usd,
  starts_at: time,
  resets_at: timeOrNull,
});
export const budgetList = z.strictObject({ budgets: z.array(standing), next });
export const keyWithBudgets = z.strictObject({ ...keyFields, state, budgets: z.array(standing) });

const tokens = z.strictObject(Object.fromEntries(tokenClasses.map((name) => [name, count])));
const source = z.enum(["reported", "counted", "partial", "assumed"]);
const correction = z.strictObject({ of: z.string(), by: z.string().nullable(), at: time, why: z.string().nullable() });
const describedUsd = (description: string) => usd.meta({ description });
const describedUsdOrNull = (description: string) => usdOrNull.meta({ description });
const textAs = (description: string) => z.string().meta({ description });
const textOrNull = (description: string) => z.string().nullable().meta({ description });
const chargeFields = {
  request_id: textAs("The `x-farebox-request-id` that the client got."),
  gateway_request_id: textOrNull("The gateway's own id of the request, where its answer states one."),
  time: time.meta({ description: "When the request was admitted." }),
  key: textOrNull("The key's name; null for a caller without one."),
  team: textOrNull("The team that the key was in at that time."),
  route: textAs("The pattern of its path."),
  model: textAs("The model that the request asked for."),
  served_model: textOrNull("The model that the answer names."),
  group: textOrNull("The group of the price file that priced it; `default` for a ceiling price."),
  state: z
    .enum(["pending", "posted", "voided"])
    .meta({ description: "Pending until it is settled, with an amount (posted) or without one (voided)." }),
  source: source.nullable().meta({ description: "How the amount is known; null until it is posted." }),
  stream: z.boolean().meta({ description: "Whether the answer was a stream." }),
  status: z.int().nullable().meta({ description: "The status that the client got." }),
  tokens: tokens.meta({ description: "Tokens that were charged for, in disjoint classes." }),
  cost_usd: describedUsdOrNull("What the gateway charges; null for no price, and unless it is posted."),
  list_cost_usd: describedUsdOrNull("The same tokens at the official price."),
  minimum_applied: z.boolean().meta({ description: "Whether a minimum charge raised the cost." }),
  hold_usd: describedUsdOrNull("What was held before the request was forwarded."),
  held_for: z
    .strictObject({ output_tokens: count.nullable(), by: z.string() })
    .nullable()
    .meta({ description: "The output tokens that were held for, and the field or bound that decided." }),
  output_cap: count.nullable().meta({ description: "The maximum that an output cap wrote into the request." }),
  fitted: count
    .nullable()
    .meta({ description: "The maximum that was written into the request so that it fits its budget." }),
  overage_usd: describedUsd("What was posted beyond the hold."),
  price_version: textOrNull("The price that it was computed with."),
  duration_ms: z.number().nullable().meta({ description: "From arrival to the end of the answer." }),
  first_token_ms: z.number().nullable().meta({ description: "From arrival to the first byte of the answer's body." }),
  tags: z.record(z.string(), z.string()).meta({ description: "The tags of its `x-farebox-tag` header." }),
  correction: correction
    .nullable()
    .meta({ description: "Of a correction: the charge that it corrects, who made it, when and why." }),
  doubts: z
    .array(z.enum(doubts))
    .meta({ description: "Why the amount may differ from the gateway's bill; [] for no reason." }),
  cost_in_doubt_usd: usd.meta({ description: "All of the cost where there are doubts, else 0." }),
  service_tier: z
    .string()
    .nullable()
    .meta({ description: "The service tier that answered; null for the standard one." }),
  tool_calls: z.record(z.string(), count).meta({ description: "Calls of hosted tools by their type." }),
  delivered: z
    .strictObject({ input: count, output: count })
    .nullable()
    .meta({ description: "Tokens that were counted as they passed; null where none were." }),
  units: z.string().nullable().meta({
    description:
      "What a task used up in the gateway's own units, as a decimal; null for what is no task and while it runs.",
  }),
  unit_type: z.string().nullable().meta({
    description: 'The type of these units, used_credits for the conversation family; "" where none is stated.',
  }),
  served_price_version: textOrNull("The price of the model that answered, where it is another one than was asked for."),
};
export const charge = z.strictObject(chargeFields);
export const chargeList = z.strictObject({ charges: z.array(charge), next });
const priceUsed = z
  .strictObject({
    model: z.string(),
    from: z.string(),
    source: z.string(),
    fraction: z.string().nullable(),
    minimum: z.strictObject({ tokens: count, usd }),
  })
  .nullable();
const perMillion = z
  .string()
  .regex(/^\d+(\.\d+)?$/)
  .nullable()
  .meta({ description: "USD per 1M tokens; null where no tokens are priced." });
export const chargeDetails = z.strictObject({
  ...chargeFields,
  corrections: z.array(charge),
  total_usd: usdOrNull,
  ended_at: timeOrNull,
  formula: z.enum(["tokens", "per_request", "task", "assumed", "adjustment", "unpriced"]).nullable(),
  reason: z.string().nullable(),
  clamped: z.boolean(),
  retry: count,
  items: z
    .array(
      z.strictObject({
        class: z.enum([...tokenClasses, "request", "minimum", "fee"]),
        tool: z.string().nullable(),
        tokens: count,
        usd_per_million: perMillion,
        cost_usd: usd,
        list_usd_per_million: perMillion,
        list_cost_usd: usd,
        tier_from: count,
      }),
    )
    .meta({ description: "The lines that add up to the cost; none where it is not made of tokens or a request." }),
  price: priceUsed,
  served_price: priceUsed.meta({
    description: "The price of the model that answered, where it is another one; the cost is the larger of both.",
  }),
  known: z.string().meta({ description: "How the amount is known, and why it may differ from the bill." }),
});
const taskFields = {
  task_id: z.string(),
  request_id: z.string().meta({ description: "The charge that pays for it." }),
  key: z.string().nullable(),
  model: z.string(),
  task_type: z.string().nullable(),
  status: z.enum(taskStatuses),
  failure: z.enum(taskFailures).nullable(),
  created_at: time,
  started_at: timeOrNull,
  ended_at: timeOrNull,
  settled_at: timeOrNull,
  seen_at: time,
  next_look_at: timeOrNull,
  consumption: z.strictObject({ type: z.string(), units: z.string(), units_per_usd: z.string().nullable() }).nullable(),
  quantity: z.string().nullable(),
};
export const task = z.strictObject(taskFields);
export const taskList = z.strictObject({ tasks: z.array(task), next });
export const correctionMade = z.strictObject({
  repeated: z
    .boolean()
    .meta({ description: "Whether the same correction was there already, so that nothing was changed." }),
  charge,
  correction: charge,
});

const figures = {
  requests: count,
  tokens,
  cost_usd: usd,
  list_cost_usd: usd,
  saving_usd: usd,
  by_source: z.record(z.string(), z.strictObject({ requests: count, cost_usd: usd })),
  unpriced_requests: count,
  retries: count,
  cost_in_doubt_usd: usd.meta({ description: "Of the cost, that of charges with doubts." }),
};
export const usage = z.strictObject({
  since: time,
  until: time,
  by: z.array(z.string()),
  rows: z
    .array(z.object(figures).catchall(z.string().nullable()))
    .meta({ description: "With a field for each dimension of `by`." }),
  total: z.strictObject(figures),
  ceiling_price: z.strictObject({ requests: count, cost_usd: usd }).nullable(),
  raw_units: z
    .array(z.strictObject({ unit_type: z.string(), units: z.string(), tasks: count }))
    .meta({ description: "What tasks used up in units that no price file values, beside the cost." }),
});

const rate = z.string().regex(/^\d+(\.\d+)?$/);
const rates = z.strictObject(Object.fromEntries(tokenClasses.map((name) => [name, rate])));
const priceTiers = z.array(
  z.strictObject({ from_prompt_tokens: count, gateway_usd_per_million: rates, official_usd_per_million: rates }),
);
const priceInForce = z
  .strictObject({
    id: z.string(),
    from: z.string(),
    until: z.string().nullable(),
    source: z.string(),
    fraction: z.string().nullable(),
    tier_mode: z.string(),
    tiers: priceTiers,
    per_request_usd: z.strictObject({ gateway: usd, official: usd }).nullable(),
    minimum: z.strictObject({ tokens: count, usd }),
    service_tiers: z
      .array(z.strictObject({ service_tier: z.string(), tiers: priceTiers }))
      .meta({ description: "`tiers` beside it are those of the standard one." }),
    fees: z.array(z.strictObject({ tool: z.string(), gateway_usd: usd, official_usd: usd, input_tokens: count })).meta({
      description:
        "Of one call of a hosted tool, beside its tokens; `input_tokens` is the most that it adds to the prompt.",
    }),
  })
  .nullable();
export const price = z.strictObject({
  id: z.string(),
  provider: z.string().nullable(),
  group: z.string().nullable(),
  unit: z.enum(units).meta({ description: "What its rates are for a million of." }),
  price: priceInForce,
});
export const priceHistory = z.strictObject({
  id: z.string(),
  provider: z.string().nullable(),
  aliases: z.array(z.string()),
  entries: z.array(
    z.strictObject({ starts_at: timeOrNull, in_force: z.boolean(), group: z.string().nullable(), price: priceInForce }),
  ),
});
export const priceList = z.strictObject({ digest: z.string(), models: z.array(price) });

export const balance = z.strictObject({
  balance_usd: usdOrNull,
  available_credits: z.number().nullable(),
  credits: z
    .strictObject(Object.fromEntries(creditKinds.map((kind) => [kind, z.number().nullable()])))
    .meta({ description: "In the gateway's own credits." }),
  plan: z.string().nullable(),
  type: z.string().nullable(),
  fetched_at: time,
  age_seconds: count,
  stale: z.boolean(),
  burn_usd_per_hour: usd,
  hours_left: z.number().nullable(),
});

const bounds = { below_usd: usd, above_usd: usdOrNull };
export const reconciliation = z.strictObject({
  ok: z.boolean(),
  since: time,
  until: time,
  samples: count,
  measure: z.string(),
  requests: count,
  ledger_usd: usd,
  cost_in_doubt_usd: usd,
  gateway_usd: usd,
  difference_usd: usd,
  difference_percent: z.number().nullable(),
  factor: z
    .strictObject({ value: z.string(), from: z.string().nullable(), to: z.string().nullable() })
    .nullable()
    .meta({
      description: "What the gateway billed for each US dollar of the ledger; null where the ledger charged nothing.",
    }),
  explained_by: z
    .array(
      z.strictObject({
        group: z.string(),
        fraction: z.string(),
        instead_of: z.string(),
        from: z.string(),
        to: z.string(),
      }),
    )
    .meta({
      description: "Groups of which another fraction of the official price alone would explain the difference.",
    }),
  uncertainty: z.strictObject({ ...bounds, items: z.array(z.strictObject({ kind: z.string(), ...bounds })) }),
  movements: z.array(z.strictObject({ kind: z.string(), usd, estimate: z.boolean() })),
  left_out: z.array(z.strictObject({ since: time, until: time, why: z.string() })),
  balance: z.strictObject({ from_usd: z.string().nullable(), to_usd: z.string().nullable() }),
});

const alert = z.strictObject({
  id: z.string(),
  type: z.enum(alertTypes),
  time,
  severity: z.enum(["warning", "critical"]),
  title: z.string(),
  text: z.string(),
  data: z.record(z.string(), z.union([z.string(), z.number(), z.null()])),
  delivery: z.strictObject({
    state: z.enum(["waiting", "delivered", "given_up", "unsent"]),
    tries: count,
    next_try_at: timeOrNull,
    ended_at: timeOrNull,
    last_error: z.string().nullable(),
  }),
});
export const alertList = z.strictObject({ alerts: z.array(alert), next });

const spent = { requests: count, cost_usd: usd, list_cost_usd: usd, saving_usd: usd };
const line = {
  cost_usd: usd,
  requests: count,
  values: z.array(usd).meta({ description: "One for each of `starts`." }),
};
const spender = { name: z.string().nullable(), requests: count, cost_usd: usd, saving_usd: usd };
const overviewFields = {
  span: z.strictObject({
    name: z.string(),
    since: time,
    until: time,
    ...spent,
    unpriced_requests: count,
    cost_in_doubt_usd: usd,
  }),
  series: z.strictObject({
    by: z.string(),
    bucket: z.enum(["hour", "day"]),
    starts: z.array(time),
    rows: z.array(z.strictObject({ name: z.string().nullable(), ...line })),
    other: z
      .strictObject({ count, ...line })
      .nullable()
      .meta({ description: "All names beyond the dearest eight together." }),
  }),
  top: z.strictObject({
    keys: z.array(z.strictObject({ ...spender, team: z.string().nullable() })),
    models: z.array(z.strictObject(spender)),
  }),
  empty: z
    .strictObject({ keys: z.boolean(), charges: z.boolean() })
    .meta({ description: "What there is nothing of yet." }),
};
export const overview = z.strictObject({
  now: time,
  time_zone: z.string(),
  today: z.strictObject({ since: time, ...spent, yesterday_by_now_usd: usd }),
  month: z.strictObject({ since: time, until: time, ...spent }),
  forecast: z.strictObject({ month_end_usd: usd, usd_per_hour: usd, from: time }).nullable().meta({
    description:
      "The month's spending by its end at the rate since `from`; null where nothing was spent in the last seven days.",
  }),
  balance: balance.nullable(),
  ...overviewFields,
});

export const live = z.strictObject({
  charges: z.array(charge),
  cursor: z.string().meta({ description: "For `after`." }),
});

export const health = z.strictObject({
  now: time,
  version: z.string(),
  started_at: time,
  ready: z.boolean(),
  reconciliation: reconciliation.nullable(),
  reconciliation_missing: z.string().nullable(),
  pending: z.strictObject({
    count,
    oldest_at: timeOrNull,
    old: z.array(
      z.strictObject({
        request_id: z.string(),
        key: z.string().nullable(),
        held_since: time,
        hold_usd: usdOrNull,
        orphaned: z.boolean(),
      }),
    ),
  }),
  stream_bursts: z
    .array(
      z.strictObject({
        model: z.string(),
        key: z.string().nullable(),
        all_keys: z.boolean(),
        since: time,
        live_streams: count.meta({ description: "Streams that came live since; a mark ends after an hour and three." }),
      }),
    )
    .meta({ description: "Models whose streams came at once: their answers are held whole." }),
  gateway: z.strictObject({
    since: time,
    requests: count,
    errors: count,
    by_status: z.record(z.string(), count),
    minutes: z.strictObject({ starts: z.array(time), requests: z.array(count), errors: z.array(count) }),
    last: z.array(z.strictObject({ request_id: z.string(), time, model: z.string().nullable(), status: z.int() })),
  }),
  alerts: z.strictObject({ day: count, latest: z.array(alert) }),
  prices: z.strictObject({
    digest: z.string(),
    models: count,
    reviewed_on: z.string().nullable(),
    age_days: count.nullable(),
    review_due: z.boolean().meta({ description: "Whether the newest review is more than 60 days ago." }),
  }),
});

const facts = z
  .record(z.string(), z.unknown())
  .nullable()
  .meta({ description: "The thing as it was or became, without secrets; null where it was not there." });
export const auditList = z.strictObject({
  entries: z.array(
    z.strictObject({
      id: z.int(),
      time,
      by: z.string(),
      action: z.string(),
      object: z.string(),
      before: facts,
      after: facts,
    }),
  ),
  next,
});

export const document = z.looseObject({ openapi: z.literal("3.1.0") });
