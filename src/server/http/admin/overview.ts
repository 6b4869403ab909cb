import { z } from "zod";
import { findKeyIfNamed } from "../../../admin/key-changes.ts";
import { failure, type Failure } from "../../../admin/result.ts";
import { type SpendDimension, spendDimensions } from "../../../ports/spend.ts";
import type { Store } from "../../../ports/stores.ts";
import { keyNamesOf } from "../../../reporting/names.ts";
import { type OverviewParams, runOverview } from "../../../reporting/overview.ts";
import { overviewSchema, spanNames } from "../../../reporting/shapes/figures.ts";
import type { RankedBudgetJson } from "../../../reporting/shapes/lists.ts";
import type { SpendMemory } from "../../../reporting/spend-memory.ts";
import { balanceInTime, type BalanceTools } from "./balance.ts";
import { keysInRanked, rankedBudgetJson } from "./budgets.ts";
import { instant, model, spanOf } from "./fields.ts";
import { found, routesFor, type Timed } from "./route.ts";

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

const overviewQuery = overviewQueryBy(spendDimensions).extend({
  key: z.string().max(200).optional().meta({ description: "A key's name or id." }),
  team: z.string().max(200).optional(),
});

/** Converts an overview's parameters to its span, dimensions and comparison. */
export function askedOverview(
  { span, since, until, by, then_by: thenBy, compare }: z.output<ReturnType<typeof overviewQueryBy<SpendDimension>>>,
  tools: Timed,
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

/** Stores and services that the overview uses. */
interface Tools extends Pick<Store, "figures" | "keys" | "lists" | "refusals">, Timed, BalanceTools {
  /** Cached spending of past days and hours. */
  readonly memory: SpendMemory;
}

const route = routesFor<Tools>();

export const overviewRoutes = [
  route("GET /overview", {
    role: "viewer",
    summary: "Spending today, this month and over a span, with forecast and balance",
    query: overviewQuery,
    answer: overviewSchema,
    handle: async (tools, { query: { key: nameOrId, team, model, ...query } }) => {
      const named = await findKeyIfNamed(tools.keys, nameOrId);
      if (!named.ok) return named;
      const read = askedOverview(query, tools);
      if (!read.ok) return read;
      const filter = {
        ...(named.key && { key: named.key.id }),
        ...(team !== undefined && { team }),
        ...(model !== undefined && { model }),
      };
      const [overview, balance, atRisk] = await Promise.all([
        runOverview({ ...tools, ledger: tools.figures.ledger }, { ...read.asked, filter, now: tools.clock.now() }),
        balanceInTime(tools),
        Object.keys(filter).length === 0 ? budgetsAtRisk(tools) : [],
      ]);
      const { now, time_zone, today, month, forecast, refused_today, ...rest } = overview;
      return found({ now, time_zone, today, month, forecast, balance, refused_today, at_risk: atRisk, ...rest });
    },
  }),
];

/** Largest number of budgets at risk in an overview. */
const atRiskMax = 8;

async function budgetsAtRisk({
  lists,
  keys,
  clock,
}: Pick<Tools, "lists" | "keys" | "clock">): Promise<readonly RankedBudgetJson[]> {
  const page = await lists.listBudgets({
    at: clock.now(),
    atRisk: true,
    sort: "share",
    order: "desc",
    limit: atRiskMax,
  });
  const rows = page?.rows ?? [];
  const nameOf = await keyNamesOf(keys, keysInRanked(rows));
  return rows.map((row) => rankedBudgetJson(row, nameOf));
}
