import type { AdminCaller, AdminGate } from "../../../admin/admin-gate.ts";
import type { Refusal } from "../../../core/refusals.ts";
import type { Exchange } from "../../../ports/exchange.ts";
import { notForwarded, type Summary } from "../../../request/handler.ts";
import type { DashboardSessions } from "../dashboard/signed-in.ts";
import type { Route } from "../http-app.ts";
import { answerJson, refuseUncached } from "../json.ts";
import { readBody, readQuery } from "./read-input.ts";
import type { AdminDeps, AdminRoute, RouteAnswer } from "./route.ts";

export const adminBase = "/admin/v1";

/** Checks of an admin's token and of a dashboard session. */
interface Doors {
  readonly gate: AdminGate;
  readonly dashboardSessions: Pick<DashboardSessions, "admin">;
}

/** Returns the routes for the HTTP application. The last ones refuse all other paths of /admin/v1. */
export function serveAdmin(routes: readonly AdminRoute[], deps: AdminDeps & Doors): readonly Route[] {
  const served = routes.map((each): Route => ({
    method: each.method,
    path: adminBase + each.path.replace(/\{(\w+)\}/g, ":$1"),
    handler: (exchange) => serve(exchange, each, deps),
  }));
  const rest = (exchange: Exchange) => serveRest(exchange, routes, deps);
  return [
    ...served,
    { method: "all", path: adminBase, handler: rest },
    { method: "all", path: `${adminBase}/*rest`, handler: rest },
  ];
}

async function serve(exchange: Exchange, route: AdminRoute, deps: AdminDeps & Doors): Promise<Summary> {
  const admission = await admit(exchange, deps);
  if (!admission.ok) return refuseUncached(exchange, admission.refusal);
  const { caller } = admission;
  if (route.role === "editor" && caller.role !== "editor") return refuseUncached(exchange, { code: "read_only" });
  const query = readQuery(exchange.query, route.query);
  if (!query.ok) return refuseUncached(exchange, query.refusal);
  const body = await readBody(exchange, route.body, bodyBytesMax);
  if (!body.ok) return body.refusal === null ? notForwarded : refuseUncached(exchange, body.refusal);
  const input = { params: paramsOf(route, exchange.path), query: query.value as never, body: body.value as never };
  const answer = await route.handle({ ...deps, caller, by: caller.name }, input);
  if (!answer.ok) return refuseUncached(exchange, refusalOfFailure(answer));
  return answerJson(exchange, answer.json, { status: route.status });
}

/** Refuses an unknown path or method. Only admins learn which of the two is unknown. */
async function serveRest(exchange: Exchange, routes: readonly AdminRoute[], doors: Doors): Promise<Summary> {
  const admission = await admit(exchange, doors);
  if (!admission.ok) return refuseUncached(exchange, admission.refusal);
  const methods = routes.filter((each) => matches(each, exchange.path)).map(({ method }) => method.toUpperCase());
  if (methods.length > 0) return refuseUncached(exchange, { code: "method_not_allowed", allow: methods });
  return refuseUncached(exchange, {
    code: "not_found",
    message: `There is no such path; ${adminBase}/openapi.json lists those that there are.`,
  });
}

type Admitted = { readonly ok: true; readonly caller: AdminCaller } | { readonly ok: false; readonly refusal: Refusal };

async function admit(exchange: Exchange, { gate, dashboardSessions }: Doors): Promise<Admitted> {
  const authorization = exchange.header("authorization");
  if (authorization === undefined) {
    const session = await dashboardSessions.admin(exchange);
    if (session.ok) return { ok: true, caller: session.by };
    if (session.refusal !== null) return { ok: false, refusal: session.refusal };
  }
  const admission = await gate.admit(authorization, exchange.remoteAddress);
  if (admission.ok) return admission;
  const { message, retryAfterSeconds } = admission;
  return { ok: false, refusal: { code: "admin_refused", message, retryAfterSeconds } };
}

/** Largest body of a request, in bytes. No change needs this much. */
const bodyBytesMax = 1024 * 1024;

function paramsOf(route: AdminRoute, path: string): string[] {
  const given = path.slice(adminBase.length).split("/");
  return route.path
    .split("/")
    .flatMap((segment, index) => (segment.startsWith("{") ? [decodeURIComponent(given[index] ?? "")] : []));
}

function matches(route: AdminRoute, path: string): boolean {
  const given = path.slice(adminBase.length).split("/");
  const segments = route.path.split("/");
  return (
    segments.length === given.length &&
    segments.every((segment, index) => segment === given[index] || (segment.startsWith("{") && given[index] !== ""))
  );
}

export function refusalOfFailure({ kind, message, param }: RouteAnswer & { readonly ok: false }): Refusal {
  const sentence = `${message.slice(0, 1).toUpperCase()}${message.slice(1)}.`;
  switch (kind) {
    case "invalid":
      return { code: "invalid_request", message: sentence, param: param ?? null };
    case "not_found":
      return { code: "not_found", message: sentence };
    case "name_taken":
    case "refused":
      return { code: "conflict", message: sentence };
    case "no_gateway":
      return { code: "gateway_unreachable", message: sentence };
  }
}
