import { z } from "zod";
import { failure } from "../../admin/result.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KeyStore } from "../../ports/key-store.ts";
import type { BudgetStore, LedgerQueries } from "../../ports/ledger.ts";
import { outputCapOf, type Authenticate, type Authenticated } from "../../request/authenticate.ts";
import { refuse, withKey } from "../../request/handler.ts";
import type { Limiter } from "../../request/limits.ts";
import { meJson, ownCharge, ownCharges } from "../../reporting/me.ts";
import { ownName } from "../../reporting/names.ts";
import { runOverview } from "../../reporting/overview.ts";
import { recentJson, recentQueryOf } from "../../reporting/recent.ts";
import type { SpendMemory } from "../../reporting/spend-memory.ts";
import { atOf, chargeQuery, liveQuery, overviewQuery } from "./admin/fields.ts";
import { readQuery } from "./admin/read-input.ts";
import { found, type RouteAnswer } from "./admin/route.ts";
import { refusalOfFailure } from "./admin/serve-route.ts";
import type { Route } from "./http-app.ts";
import { answerJson } from "./json.ts";

interface SelfServiceDeps {
  readonly authenticate: Authenticate;
  readonly limiter: Limiter;
  readonly ledger: LedgerQueries & BudgetStore;
  /** For reads that are short and frequent. */
  readonly latest: LedgerQueries;
  readonly keys: KeyStore;
  readonly memory: SpendMemory;
  readonly calendar: Calendar;
  readonly clock: Clock;
  /** The cap of all keys; null for none. */
  readonly outputCap: number | null;
}

const ownOverviewQuery = overviewQuery.extend({
  by: z.enum(["model", "group"], "must be model or group").default("model"),
});
const ownLiveQuery = liveQuery.omit({ key: true, team: true });
const ownChargeQuery = chargeQuery.pick({ limit: true, cursor: true, model: true, state: true, since: true });

/** A key's view of itself, for the key. */
export function selfServiceRoutes(deps: SelfServiceDeps): readonly Route[] {
  const { limiter, ledger, latest, keys, memory, calendar, clock, outputCap } = deps;
  return [
    route(deps, "/me", null, async (who) =>
      found(await meJson({ ledger, latest }, who, limiter.standing(who), outputCapOf(who, outputCap), clock.now())),
    ),
    route(deps, "/overview", ownOverviewQuery, async ({ caller }, query) => {
      const { now, time_zone, today, month, forecast, ...rest } = await runOverview(
        { ledger: latest, memory, keys, calendar },
        { ...query, now: clock.now(), key: caller.key },
      );
      // The account is not a key's to see.
      return found({ now, time_zone, today, month, forecast, balance: null, ...rest });
    }),
    route(deps, "/requests/live", ownLiveQuery, async ({ key, caller }, query) => {
      const asked = recentQueryOf(query);
      if (asked === null) return failure("invalid", "after must be the cursor of an earlier answer", "after");
      return found(recentJson(await latest.recent({ ...asked, key: caller.key }), ownName(key)));
    }),
    route(deps, "/charges", ownChargeQuery, async ({ key }, { since, ...query }) => {
      const from = since === undefined ? since : atOf(since, deps);
      const page = await ownCharges({ ledger, key }, { ...query, since: from });
      return page === undefined
        ? failure("invalid", "cursor must be the `next` of an earlier page of this list", "cursor")
        : found(page);
    }),
    route(deps, "/charges/:id", null, async ({ key }, _query, id) => {
      const charge = await ownCharge({ ledger, key }, id);
      return charge === undefined
        ? failure("not_found", `this key has no charge '${id}'; GET /v1/farebox/charges lists those that it has`)
        : found(charge);
    }),
  ];
}

/** `last`: the last segment of the path. */
function route<Q extends z.ZodObject>(
  { authenticate }: SelfServiceDeps,
  path: string,
  query: Q | null,
  handle: (who: Authenticated, query: z.output<Q>, last: string) => Promise<RouteAnswer>,
): Route {
  const handler = withKey(authenticate, async (exchange, who) => {
    const read = readQuery(exchange.query, query);
    if (!read.ok) return refuse(exchange, read.refusal);
    const last = decodeURIComponent(exchange.path.slice(exchange.path.lastIndexOf("/") + 1));
    const answer = await handle(who, read.value as z.output<Q>, last);
    return answer.ok ? answerJson(exchange, answer.json) : refuse(exchange, refusalOfFailure(answer));
  });
  return { method: "get", path: `/v1/farebox${path}`, handler };
}
