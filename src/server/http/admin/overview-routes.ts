import { askedKey } from "../../../admin/keys.ts";
import { failure } from "../../../admin/result.ts";
import { balanceJson, burnPerHour } from "../../../reporting/balance.ts";
import { runHealth } from "../../../reporting/health.ts";
import { keyNamesOf } from "../../../reporting/names.ts";
import { runOverview } from "../../../reporting/overview.ts";
import { priceHistoryJson } from "../../../reporting/prices.ts";
import { recentJson, recentQueryOf } from "../../../reporting/recent.ts";
import { readAccount } from "../../../wire/account.ts";
import { liveSchema } from "../../../reporting/shapes/charges.ts";
import { overviewSchema } from "../../../reporting/shapes/figures.ts";
import { healthSchema } from "../../../reporting/shapes/health.ts";
import { priceHistorySchema } from "../../../reporting/shapes/prices.ts";
import { liveQuery, overviewQuery } from "./fields.ts";
import { found, route, type AdminDeps, type AdminRoute } from "./route.ts";

/** Routes that return all data of one dashboard page in one answer. */
export const overviewRoutes: readonly AdminRoute[] = [
  route("GET /overview", {
    role: "viewer",
    summary: "Spending today, this month and over a span, with forecast and balance",
    query: overviewQuery,
    answer: overviewSchema,
    handle: async (tools, { query }) => {
      const [overview, balance] = await Promise.all([
        runOverview({ ...tools, ledger: tools.latest }, { ...query, now: tools.clock.now() }),
        balanceSoon(tools),
      ]);
      const { now, time_zone, today, month, forecast, ...rest } = overview;
      return found({ now, time_zone, today, month, forecast, balance, ...rest });
    },
  }),
  route("GET /requests/live", {
    role: "viewer",
    summary: "The latest requests; with `after`, those that started or ended since",
    query: liveQuery,
    answer: liveSchema,
    handle: async ({ latest, keys }, { query: { key: asked, team, ...rest } }) => {
      const recentQuery = recentQueryOf(rest);
      if (recentQuery === null) return failure("invalid", "after must be the cursor of an earlier answer");
      const named = await askedKey(keys, asked);
      if (!named.ok) return named;
      const { key } = named;
      const recent = await latest.recent({
        ...recentQuery,
        ...(key && { key: key.id }),
        ...(team !== undefined && { team }),
      });
      return found(
        recentJson(
          recent,
          await keyNamesOf(
            keys,
            recent.charges.map((charge) => charge.key),
          ),
        ),
      );
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
    summary: "Past, present and future prices of a model, newest first",
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

/** Longest time that an overview waits for the gateway, in milliseconds. A later answer appears in the next overview. */
const balancePatienceMs = 50;

async function balanceSoon({ account, accountTtlMs, latest, clock }: AdminDeps) {
  const late = new Promise<undefined>((resolve) => clock.after(balancePatienceMs, () => resolve(undefined)));
  const [record, burn] = await Promise.all([Promise.race([account(), late]), burnPerHour(latest, clock.now())]);
  return record === undefined
    ? null
    : balanceJson(readAccount(record.body), burn, {
        fetchedAt: record.fetchedAt,
        now: clock.now(),
        ttlMs: accountTtlMs,
      });
}
