import { findKeyIfNamed } from "../../../admin/keys.ts";
import { failure } from "../../../admin/result.ts";
import { balanceJson, burnPerHour } from "../../../reporting/balance.ts";
import { runHealth } from "../../../reporting/health.ts";
import { keysInRanked, rankedBudgetJson } from "../../../reporting/lists.ts";
import type { RankedBudgetJson } from "../../../reporting/shapes/lists.ts";
import { keyNamesIn, keyNamesOf } from "../../../reporting/names.ts";
import { runOverview } from "../../../reporting/overview.ts";
import { priceHistoryJson } from "../../../reporting/prices.ts";
import { recentJson, recentQueryOf } from "../../../reporting/charges.ts";
import { readAccount } from "../../../wire/account.ts";
import type { LedgerQueries } from "../../../ports/ledger.ts";
import { overviewSchema, type BalanceJson } from "../../../reporting/shapes/figures.ts";
import { liveSchema } from "../../../reporting/shapes/charges.ts";
import { healthSchema } from "../../../reporting/shapes/health.ts";
import { priceHistorySchema } from "../../../reporting/shapes/prices.ts";
import { askedOverview, liveQuery, overviewQuery } from "./fields.ts";
import { found, route, type AdminDeps, type AdminRoute } from "./route.ts";

/** Routes that return all data of one dashboard page in one answer. */
export const overviewRoutes: readonly AdminRoute[] = [
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
      const of = {
        ...(named.key && { key: named.key.id }),
        ...(team !== undefined && { team }),
        ...(model !== undefined && { model }),
      };
      const [overview, balance, atRisk] = await Promise.all([
        runOverview({ ...tools, ledger: tools.figures.ledger }, { ...read.asked, of, now: tools.clock.now() }),
        balanceInTime(tools),
        Object.keys(of).length === 0 ? budgetsAtRisk(tools) : [],
      ]);
      const { now, time_zone, today, month, forecast, refused_today, ...rest } = overview;
      return found({ now, time_zone, today, month, forecast, balance, refused_today, at_risk: atRisk, ...rest });
    },
  }),
  route("GET /requests/live", {
    role: "viewer",
    summary: "The latest requests; with `after`, the requests that started or ended since then",
    query: liveQuery,
    answer: liveSchema,
    handle: async ({ figures, keys }, { query: { key: asked, team, ...rest } }) => {
      const recentQuery = recentQueryOf(rest);
      if (recentQuery === null) return failure("invalid", "after must be the cursor of an earlier answer");
      const named = await findKeyIfNamed(keys, asked);
      if (!named.ok) return named;
      const { key } = named;
      const recent = await figures.ledger.recent({
        ...recentQuery,
        ...(key && { key: key.id }),
        ...(team !== undefined && { team }),
      });
      return found(recentJson(recent, await keyNamesIn(keys, recent.charges)));
    },
  }),
  route("GET /health", {
    role: "viewer",
    summary: "Reconciliation, pending holds, the gateway's errors, alerts",
    answer: healthSchema,
    handle: async (tools) => found(await runHealth(tools, tools.clock.now())),
  }),
  route("GET /prices/{model}/history", {
    role: "viewer",
    summary: "Past, current and future prices of a model, newest first",
    answer: priceHistorySchema,
    handle: async ({ catalogue, clock }, { params: [name = ""] }) => {
      const prices = catalogue();
      const model = prices.find(name, clock.now());
      const history = model && prices.histories().find(({ id }) => id === model.id);
      return history === undefined
        ? failure("not_found", `no price file names the model ${JSON.stringify(name)}`)
        : found(priceHistoryJson(history, clock.now()));
    },
  }),
];

/** Largest number of budgets at risk in an overview. */
const atRiskMax = 8;

async function budgetsAtRisk({ lists, keys, clock }: AdminDeps): Promise<readonly RankedBudgetJson[]> {
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

/**
 * Longest time that an overview waits for the gateway, in milliseconds. A later answer appears in the next overview.
 */
const balanceWaitMsMax = 50;

function balanceInTime(deps: AdminDeps) {
  const late = new Promise<undefined>((resolve) => deps.clock.after(balanceWaitMsMax, () => resolve(undefined)));
  return balanceIn(Promise.race([deps.account(), late]), deps.figures.ledger, deps);
}

/** Returns the balance in an account record, and how long it lasts; null if there is no record. */
export async function balanceIn(
  account: ReturnType<AdminDeps["account"]>,
  ledger: LedgerQueries,
  { accountTtlMs: ttlMs, clock }: AdminDeps,
): Promise<BalanceJson | null> {
  const [record, burn] = await Promise.all([account, burnPerHour(ledger, clock.now())]);
  if (record === undefined) return null;
  const { body, fetchedAt } = record;
  return balanceJson(readAccount(body), burn, { fetchedAt, now: clock.now(), ttlMs });
}
