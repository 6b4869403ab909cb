import type { z } from "zod";
import { failure } from "../../admin/result.ts";
import type { OwnView } from "../../core/budget.ts";
import { outputCapOf, type Authenticate, type Authenticated, withKey } from "../../request/authenticate.ts";
import { notForwarded, refuse, type Handler } from "../../ports/exchange.ts";
import type { RateLimiter } from "../../request/rate-limits.ts";
import { raiseRequestSchema, requestRaise } from "../../admin/raise-requests.ts";
import { meJson, ownCharge, ownCharges, ownWindows } from "../../reporting/me.ts";
import { raiseRequestJson } from "../../reporting/standing.ts";
import { ownName } from "../../reporting/names.ts";
import { chargesCsv, refusalsCsv, type CsvList } from "../../reporting/list-csv.ts";
import { ownRefusals, refusalCausesJson } from "../../reporting/refusals.ts";
import { runOverview } from "../../reporting/overview.ts";
import { recentJson, recentQueryOf } from "../../reporting/charges.ts";
import { askedCharges, chargeQuery } from "./admin/charges.ts";
import { askedOverview, overviewQueryBy } from "./admin/overview.ts";
import { askedCauses, askedRefusals, causeQuery, refusalQuery } from "./admin/refusals.ts";
import { liveQuery } from "./admin/requests.ts";
import { withFormat } from "./admin/csv.ts";
import { readBody, readQuery } from "./admin/read-input.ts";
import { found, type RouteAnswer, type Timed, type WithUsers } from "./admin/route.ts";
import { answerRoute, refusalOfFailure } from "./admin/serve-route.ts";
import type { Store } from "../../ports/stores.ts";
import type { SpendMemory } from "../../reporting/spend-memory.ts";
import type { Route } from "./http-app.ts";
import { answerJson } from "./json.ts";

type OwnStores = "ledger" | "lists" | "figures" | "raiseRequests" | "keys";

interface SelfServiceDeps extends Pick<Store, OwnStores>, Timed, WithUsers {
  readonly memory: SpendMemory;
  readonly authenticate: Authenticate;
  readonly limiter: RateLimiter;
  /** Writes the refusals that are still in memory. */
  readonly flushRefusals: () => Promise<void>;
  /** Called after a key has asked for a raise. */
  readonly onRaiseRequest: () => void;
  /** Output cap of all keys; null if there is none. */
  readonly outputCap: number | null;
  readonly ownView: OwnView;
}

const ownOverviewQuery = overviewQueryBy(["model", "group"]);
const ownLiveQuery = liveQuery.omit({ key: true, team: true });
const ownRefusalQuery = refusalQuery.omit({ key: true, team: true });
const ownCauseQuery = causeQuery.omit({ key: true, team: true });
const ownChargeQuery = chargeQuery.omit({ key: true, team: true });

/** Returns the routes with which a key reads its own data and asks for raises. */
export function selfServiceRoutes(deps: SelfServiceDeps): readonly Route[] {
  const { limiter, ledger, figures, clock, ownView } = deps;
  return [
    route(deps, "/me", null, async (who) => {
      const settings = { outputCap: outputCapOf(who, deps.outputCap), view: ownView };
      return found(await meJson(deps, who, limiter.standing(who), settings, clock.now()));
    }),
    route(deps, "/overview", ownOverviewQuery, async ({ caller }, { model, ...query }) => {
      const read = askedOverview(query, deps);
      if (!read.ok) return read;
      const { now, time_zone, today, month, forecast, refused_today, ...rest } = await runOverview(
        { ...deps, ...figures },
        { ...read.asked, filter: { key: caller.key, ...(model !== undefined && { model }) }, now: clock.now() },
      );
      // A key may not see the account's balance, or budgets of others.
      return found({ now, time_zone, today, month, forecast, balance: null, refused_today, at_risk: [], ...rest });
    }),
    route(deps, "/requests/live", ownLiveQuery, async ({ key, caller }, query) => {
      const asked = recentQueryOf(query);
      if (asked === null) return failure("invalid", "after must be the cursor of an earlier answer", "after");
      return found(recentJson(await figures.ledger.recent({ ...asked, key: caller.key }), ownName(key)));
    }),
    route(
      deps,
      "/charges",
      ownChargeQuery,
      async ({ key }, query) => {
        const read = askedCharges(query, deps);
        if (!read.ok) return read;
        const page = await ownCharges({ ledger, key }, read.asked);
        return page === undefined
          ? failure("invalid", "cursor must be the `next` of an earlier page of this list", "cursor")
          : found(page);
      },
      chargesCsv,
    ),
    route(deps, "/charges/:id", null, async ({ key }, _query, id) => {
      const charge = await ownCharge({ ledger, key }, id);
      return charge === undefined
        ? failure("not_found", `this key has no charge '${id}'; GET /v1/farebox/charges lists its charges`)
        : found(charge);
    }),
    route(
      deps,
      "/refusals",
      ownRefusalQuery,
      async ({ key }, query) => {
        const read = askedRefusals(query, deps);
        if (!read.ok) return read;
        const page = await ownRefusals({ refusals: figures.refusals, key }, read.asked);
        return page === undefined
          ? failure("invalid", "cursor must be the `next` of an earlier page of this list in the same order", "cursor")
          : found(page);
      },
      refusalsCsv,
    ),
    route(deps, "/refusals/causes", ownCauseQuery, async ({ key }, query) => {
      const read = askedCauses(query, deps);
      if (!read.ok) return read;
      return found(
        refusalCausesJson(await figures.refusals.causes({ ...read.asked, key: key?.id ?? "" }), ownName(key)),
      );
    }),
    { method: "post", path: "/v1/farebox/raises", handler: askForRaise(deps) },
  ];
}

const raiseBytesMax = 16 * 1024;

/** Handles a key's request for a raise of a budget that refuses the key's requests. */
function askForRaise(deps: SelfServiceDeps): Handler {
  const { authenticate, raiseRequests, clock } = deps;
  return withKey(authenticate, null, async (exchange, { key, caller, session }) => {
    if (key === null || session !== undefined) return refuse(exchange, needsKey);
    const input = await readBody(exchange, raiseRequestSchema, raiseBytesMax);
    if (!input.ok) return input.refusal === null ? notForwarded : refuse(exchange, input.refusal);
    // Refusals are written every two seconds, but a client may ask right after it was refused.
    await deps.flushRefusals();
    const { refusing } = await ownWindows(deps, caller, clock.now());
    const asked = await requestRaise(
      { raiseRequests, clock },
      key,
      refusing,
      input.value as Parameters<typeof requestRaise>[3],
    );
    if (!asked.ok) return refuse(exchange, refusalOfFailure(asked));
    deps.onRaiseRequest();
    return answerJson(exchange, raiseRequestJson(asked.request, ownName(key), clock.now()), { status: 201 });
  });
}

const needsKey = {
  code: "invalid_api_key",
  message: "Only a key can ask for a raise; send the key as 'Authorization: Bearer sk-fb-…'.",
} as const;

/**
 * Declares a GET route. `handle` receives the last segment of the path as `last`. With `csv`, the route accepts the
 * parameter `format` and can return the list as CSV.
 */
function route<Q extends z.ZodObject>(
  { authenticate }: SelfServiceDeps,
  path: string,
  query: Q | null,
  handle: (who: Authenticated, query: z.output<Q>, last: string) => Promise<RouteAnswer>,
  csv?: CsvList<never>,
): Route {
  const handler = withKey(authenticate, null, async (exchange, who) => {
    const read = readQuery(exchange.query, csv === undefined || query === null ? query : withFormat(query));
    if (!read.ok) return refuse(exchange, read.refusal);
    const last = decodeURIComponent(exchange.path.slice(exchange.path.lastIndexOf("/") + 1));
    return answerRoute(exchange, { csv: csv ?? null }, read.value, (parameters) =>
      handle(who, parameters as z.output<Q>, last),
    );
  });
  return { method: "get", path: `/v1/farebox${path}`, handler };
}
