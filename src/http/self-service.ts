import { z } from "zod";
import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import type { Exchange, HeaderList } from "../ports/exchange.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { FigureLedger, Ledger } from "../ports/ledger.ts";
import { outputCapOf, type Authenticate } from "../proxy/authenticate.ts";
import { notForwarded, refuse, withKey, type Handler, type Summary } from "../proxy/handler.ts";
import type { Limiter } from "../proxy/limits.ts";
import { meJson } from "../reporting/me.ts";
import { ownName } from "../reporting/names.ts";
import { runOverview } from "../reporting/overview.ts";
import { ownCharge, ownCharges } from "../reporting/own-charges.ts";
import { recentJson, recentQueryOf } from "../reporting/recent.ts";
import type { SpendMemory } from "../reporting/spend-memory.ts";
import { readQuery } from "./admin/input.ts";
import { liveQuery, overviewQuery } from "./admin/overview-queries.ts";
import type { Route } from "./http-app.ts";

export interface SelfServiceDeps {
  readonly authenticate: Authenticate;
  readonly limiter: Limiter;
  readonly ledger: Ledger;
  /** For reads that are short and frequent. */
  readonly latest: FigureLedger;
  readonly keys: KeyStore;
  readonly memory: SpendMemory;
  readonly calendar: Calendar;
  readonly clock: Clock;
  /** The cap of all keys; null for none. */
  readonly outputCap: number | null;
}

const json: HeaderList = [
  ["content-type", "application/json"],
  ["cache-control", "no-store"],
];

/** What a key is told of itself, with the key itself. */
export function selfServiceRoutes(deps: SelfServiceDeps): readonly Route[] {
  return [
    { method: "get", path: "/v1/farebox/me", handler: me(deps) },
    { method: "get", path: "/v1/farebox/overview", handler: overview(deps) },
    { method: "get", path: "/v1/farebox/requests/live", handler: live(deps) },
    { method: "get", path: "/v1/farebox/charges", handler: listCharges(deps) },
    { method: "get", path: "/v1/farebox/charges/:id", handler: showCharge(deps) },
  ];
}

function me({ authenticate, limiter, ledger, latest, clock, outputCap }: SelfServiceDeps): Handler {
  return withKey(authenticate, async (exchange, who) => {
    if (exchange.query !== "") return refuseAnyQuery(exchange);
    return answerJson(
      exchange,
      await meJson({ ledger, latest }, who, limiter.standing(who), outputCapOf(who, outputCap), clock.now()),
    );
  });
}

const ownOverviewQuery = overviewQuery.extend({
  by: z.enum(["model", "group"], "must be model or group").default("model"),
});

function overview({ authenticate, latest, keys, memory, calendar, clock }: SelfServiceDeps): Handler {
  return withKey(authenticate, async (exchange, { caller }) => {
    const query = readQuery(exchange.query, ownOverviewQuery);
    if (!query.ok) return refuse(exchange, query.refusal);
    const params = query.value as z.output<typeof ownOverviewQuery>;
    const found = await runOverview(
      { ledger: latest, memory, keys, calendar },
      { ...params, now: clock.now(), key: caller.key },
    );
    const { now, time_zone, today, month, forecast, ...rest } = found;
    // The account is not a key's to see.
    return answerJson(exchange, { now, time_zone, today, month, forecast, balance: null, ...rest });
  });
}

const ownLiveQuery = liveQuery.omit({ key: true, team: true });

function live({ authenticate, latest }: SelfServiceDeps): Handler {
  return withKey(authenticate, async (exchange, { key, caller }) => {
    const query = readQuery(exchange.query, ownLiveQuery);
    if (!query.ok) return refuse(exchange, query.refusal);
    const params = query.value as z.output<typeof ownLiveQuery>;
    const asked = recentQueryOf(params);
    if (asked === null)
      return refuse(exchange, {
        code: "invalid_request",
        message: "after must be the cursor of an earlier answer.",
        param: "after",
      });
    return answerJson(exchange, recentJson(await latest.recent({ ...asked, key: caller.key }), ownName(key)));
  });
}

function listCharges({ authenticate, ledger, calendar, clock }: SelfServiceDeps): Handler {
  return withKey(authenticate, async (exchange, { key }) => {
    const found = await ownCharges({ ledger, key }, new URLSearchParams(exchange.query), {
      now: clock.now(),
      calendar,
    });
    if (!found.ok)
      return refuse(exchange, { code: "invalid_request", message: `${found.message}.`, param: found.param });
    return answerJson(exchange, found.page);
  });
}

function showCharge({ authenticate, ledger }: SelfServiceDeps): Handler {
  return withKey(authenticate, async (exchange, { key }) => {
    if (exchange.query !== "") return refuseAnyQuery(exchange);
    const id = decodeURIComponent(exchange.path.slice("/v1/farebox/charges/".length));
    const charge = await ownCharge({ ledger, key }, id);
    if (charge === undefined) {
      const message = `This key has no charge '${id}'; GET /v1/farebox/charges lists those that it has.`;
      return refuse(exchange, { code: "not_found", message });
    }
    return answerJson(exchange, charge);
  });
}

function answerJson(exchange: Exchange, value: object): Summary {
  exchange.answer(200, json, JSON.stringify(value));
  return notForwarded;
}

function refuseAnyQuery(exchange: Exchange): Summary {
  const [name] = new URLSearchParams(exchange.query).keys();
  if (name === undefined)
    return refuse(exchange, { code: "invalid_request", message: "This path takes no query.", param: null });
  const message = `There is no parameter ${JSON.stringify(name)} here: this path takes none.`;
  return refuse(exchange, { code: "invalid_request", message, param: name });
}
