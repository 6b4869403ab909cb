import type { AdminCaller, AdminGate } from "../../admin/admin-gate.ts";
import type { Refusal } from "../../core/refusals.ts";
import type { Exchange, HeaderList } from "../../ports/exchange.ts";
import { notForwarded, type Summary } from "../../proxy/handler.ts";
import type { DashboardSessions } from "../dashboard/signed-in.ts";
import type { Route } from "../http-app.ts";
import { readFields, readJsonBody, readQuery, type Read } from "./read-input.ts";
import type { AdminDeps, AdminRoute, RouteAnswer } from "./route.ts";

export const adminBase = "/admin/v1";

export const answerHeaders: HeaderList = [
  ["content-type", "application/json"],
  ["cache-control", "no-store"],
];
const refusalHeaders: HeaderList = [["cache-control", "no-store"]];

/** Checks of admins: by token, and by session of the dashboard. */
export interface Doors {
  readonly gate: AdminGate;
  readonly dashboardSessions: Pick<DashboardSessions, "admin">;
}

/** Routes of the table for the HTTP application, followed by a refusal for the rest of /admin/v1. */
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
  if (!admission.ok) return refused(exchange, admission.refusal);
  const { caller } = admission;
  if (route.role === "editor" && caller.role !== "editor") return refused(exchange, { code: "read_only" });
  const query = readQuery(exchange.query, route.query);
  if (!query.ok) return refused(exchange, query.refusal);
  const body = await readBody(exchange, route);
  if (!body.ok) return body.refusal === null ? notForwarded : refused(exchange, body.refusal);
  const input = { params: paramsOf(route, exchange.path), query: query.value as never, body: body.value as never };
  const answer = await route.handle({ ...deps, caller, by: caller.name }, input);
  if (!answer.ok) return refused(exchange, refusalOfFailure(answer));
  exchange.answer(route.status, answerHeaders, JSON.stringify(answer.json));
  return notForwarded;
}

/** Refuses an unknown path or method. Only admins learn which. */
async function serveRest(exchange: Exchange, routes: readonly AdminRoute[], doors: Doors): Promise<Summary> {
  const admission = await admit(exchange, doors);
  if (!admission.ok) return refused(exchange, admission.refusal);
  const methods = routes.filter((each) => matches(each, exchange.path)).map(({ method }) => method.toUpperCase());
  if (methods.length > 0) return refused(exchange, { code: "method_not_allowed", allow: methods });
  return refused(exchange, {
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

function refused(exchange: Exchange, refusal: Refusal): Summary {
  exchange.refuse(refusal, refusalHeaders);
  return notForwarded;
}

/** Reads the body. Refuses one where none is taken, since its content would be ignored. */
async function readBody(
  exchange: Exchange,
  route: AdminRoute,
): Promise<Read<unknown> | { readonly ok: false; readonly refusal: null }> {
  const read = await exchange.readBody(bodyBytesMax);
  if (!read.ok)
    return {
      ok: false,
      refusal: read.refusal?.code === "request_too_large" ? { ...read.refusal, setting: null } : read.refusal,
    } as never;
  try {
    if (route.body === null) return read.bytes.length === 0 ? { ok: true, value: undefined } : takesNoBody;
    if (read.bytes.length === 0) return readFields(route.body, {}, "body");
    return readJsonBody(read.bytes, exchange.header("content-type"), route.body);
  } finally {
    read.release();
  }
}

/** More than any change needs. */
const bodyBytesMax = 1024 * 1024;

const takesNoBody = {
  ok: false,
  refusal: { code: "invalid_request", message: "This request takes no body.", param: null },
} as const satisfies Read<unknown>;

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
