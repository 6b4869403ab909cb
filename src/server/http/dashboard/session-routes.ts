import { z } from "zod";
import type { Refusal } from "../../../core/refusals.ts";
import type { Clock } from "../../../ports/clock.ts";
import { type Exchange, notForwarded, type Handler } from "../../../ports/exchange.ts";
import { isoTime } from "../../../core/time.ts";
import type { DashboardSession } from "../../../reporting/shapes/keys.ts";
import { readBody } from "../admin/read-input.ts";
import type { Route } from "../http-app.ts";
import { answerJson, refuseUncached } from "../json.ts";
import { dropSession, keepSession } from "./cookie.ts";
import { isOwnPage, type BrowserSessions, type SignedIn } from "./signed-in.ts";

/** Returns the routes that sign in, sign out and show the session. The dashboard requests the session first. */
export function sessionRoutes(deps: {
  readonly sessions: BrowserSessions;
  readonly clock: Clock;
  readonly timeZone: string;
  readonly version: string;
}): readonly Route[] {
  const { sessions, clock } = deps;
  const about = { time_zone: deps.timeZone, version: deps.version };

  const show: Handler = async (exchange) => {
    const signedIn = await sessions.signedIn(exchange);
    return answerJson(exchange, signedIn === undefined ? signedOut : sessionJson(signedIn, about));
  };

  const signIn: Handler = async (exchange) => {
    if (!isOwnPage(exchange)) return refuseUncached(exchange, notOwnPage(exchange));
    const body = await readBody(exchange, tokenBody, bodyBytesMax);
    if (!body.ok) return body.refusal === null ? notForwarded : refuseUncached(exchange, body.refusal);
    const { token: text } = body.value as z.output<typeof tokenBody>;
    const result = await sessions.signIn(exchange, text);
    if (!result.ok)
      return refuseUncached(exchange, {
        code: "admin_refused",
        message: result.message,
        retryAfterSeconds: result.retryAfterSeconds,
      });
    const { signedIn, token } = result;
    return answerJson(exchange, sessionJson(signedIn, about), {
      headers: keepSession(exchange, token, signedIn.expiresAt - clock.now()),
    });
  };

  const signOut: Handler = async (exchange) => {
    if (!isOwnPage(exchange)) return refuseUncached(exchange, notOwnPage(exchange));
    await sessions.signOut(exchange);
    return answerJson(exchange, signedOut, { headers: dropSession(exchange) });
  };

  const path = "/dashboard/session";
  return [
    { method: "get", path, handler: show },
    { method: "post", path, handler: signIn },
    { method: "delete", path, handler: signOut },
  ];
}

const bodyBytesMax = 10_000;

const tokenBody = z.strictObject({
  token: z.string("must be a string").trim().min(1, "must not be empty").max(1000, "must have at most 1000 characters"),
});

const signedOut: DashboardSession = { kind: "none" };

function sessionJson(
  signedIn: SignedIn,
  about: { readonly time_zone: string; readonly version: string },
): DashboardSession {
  const common = { expires_at: isoTime(signedIn.expiresAt), ...about };
  if (signedIn.kind === "admin")
    return { kind: "admin", name: signedIn.caller.name, role: signedIn.caller.role, ...common };
  const { key } = signedIn.who;
  return { kind: "key", name: key?.name ?? null, team: key?.team ?? null, role: null, ...common };
}

function notOwnPage(exchange: Exchange): Refusal {
  return { code: "cross_site", origin: exchange.header("origin") ?? null, session: true };
}
