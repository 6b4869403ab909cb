import { z } from "zod";
import { periods } from "../../core/budget.ts";
import { count, text, textOrNull, time, timeOrNull, usd, type Shape } from "./fields.ts";

export const budgetFields = {
  scope: text,
  period: z.enum(periods),
  mode: z.enum(["hard", "soft"]),
  limit_usd: usd,
  warn_percent: z.int().nullable(),
};
export const setBudgetSchema = z.strictObject({
  ...budgetFields,
  note: textOrNull.meta({ description: "Hint about a likely mistake; null if there is none." }),
});
export type SetBudgetJson = Shape<typeof setBudgetSchema>;
/** Raise of one window of a budget. */
export const raiseSchema = z.strictObject({
  scope: text,
  subject: textOrNull,
  period: z.enum(periods),
  limit_usd: usd.meta({ description: "Limit of the budget, without raises." }),
  amount_usd: usd.meta({ description: "Amount added to the limit." }),
  starts_at: time,
  until: timeOrNull.meta({ description: "End of the raise; null if it has none." }),
  why: text,
});
export type RaiseJson = Shape<typeof raiseSchema>;
/** Key and subject of a window, by their names. */
export const subjectFields = {
  key: textOrNull.meta({ description: "Name of the window's key if the scope has `each-key`; otherwise null." }),
  subject: textOrNull.meta({
    description:
      "Values of the window's subject, such as `key=alice` or `user=u_42`; `no user` for requests without one. Null if the scope has no `each-…`, or the budget has no window yet.",
  }),
};
const raisedFields = {
  raised_usd: usd.meta({ description: "Amount that raises add to the limit." }),
  raised_until: timeOrNull.meta({
    description: "Earliest end of a raise that ends before its window; null if there is none.",
  }),
  raises: z
    .array(
      z.strictObject({
        amount_usd: usd,
        until: timeOrNull.meta({ description: "End of the raise; null if it has none." }),
      }),
    )
    .meta({ description: "Amounts that raises add to the limit, one for each end, in order of the ends." }),
};
/** State of a budget in one of its windows. */
export const standingSchema = z.strictObject({
  ...budgetFields,
  ...subjectFields,
  limit_usd: usd.meta({ description: "Limit in this window, with the raises in force." }),
  ...raisedFields,
  spent_usd: usd,
  held_usd: usd,
  remaining_usd: usd,
  starts_at: time,
  resets_at: timeOrNull,
  counts_since: time.optional().meta({
    description:
      "Time from which the budget counts charges, if it is within the window. Earlier charges do not state the budget's user, tag or label.",
  }),
});
export type StandingJson = Shape<typeof standingSchema>;

const raiseRequestFields = {
  id: text,
  scope: text,
  subject: textOrNull,
  period: z.enum(periods),
  amount_usd: usd,
  why: text,
  state: z.enum(["open", "approved", "denied", "lapsed"]),
  created_at: time,
  lapses_at: timeOrNull.meta({ description: "End of the window, at which an open request lapses; null for never." }),
  decided_at: timeOrNull,
  approved_usd: usd.nullable(),
  approved_until: timeOrNull,
};
/** Raise request in the form for the key that made it. */
export const raiseRequestSchema = z.strictObject(raiseRequestFields);
export type RaiseRequestJson = Shape<typeof raiseRequestSchema>;
const adminRaiseRequestSchema = z.strictObject({
  ...raiseRequestFields,
  key: textOrNull,
  decided_by: textOrNull,
  spenders: count.meta({ description: "Number of live keys that may spend the raise." }),
  spender_names: z.array(text).meta({ description: "Names of the first 20 of these keys." }),
});
export type AdminRaiseRequestJson = Shape<typeof adminRaiseRequestSchema>;
export const raiseRequestListSchema = z.strictObject({ raises: z.array(adminRaiseRequestSchema) });
export type RaiseRequestListJson = Shape<typeof raiseRequestListSchema>;
