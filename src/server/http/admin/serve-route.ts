import type { AdminCaller, AdminGate } from "../../../admin/admin-gate.ts";
import type { OrRefused, Refusal } from "../../../core/refusals.ts";
import { type Exchange, notForwarded, type Summary } from "../../../ports/exchange.ts";
import type { BrowserSessions } from "../dashboard/signed-in.ts";
import type { Route } from "../http-app.ts";
import { adminBase, latePaths } from "../late-paths.ts";
import { answerJson, refuseUncached } from "../json.ts";
import { answerCsv, firstPage } from "./csv.ts";
import { readBody, readQuery } from "./read-input.ts";
import type { AdminRoute, RouteAnswer } from "./route.ts";

/** Checks of an admin's token and of a dashboard session. */
interface AccessChecks {
  readonly gate: AdminGate;
  readonly browserSessions: Pick<BrowserSessions, "admin">;
}

/** Route with the pattern of its paths. */
interface ServedRoute<Tools = never> extends AdminRoute<Tools> {
  readonly pattern: RegExp;
}

/**
 * Returns HTTP routes that cover all paths of the admin API. They refuse a path that no admin route answers, so the HTTP
 * application need not load the admin routes before the first request to the API.
 */
export function serveAdmin<Tools>(
  adminRoutes: readonly AdminRoute<Tools>[],
  deps: Tools & AccessChecks,
): readonly Route[] {
  const routes = adminRoutes.map((each): ServedRoute<Tools> => ({ ...each, pattern: patternOf(each) }));
  // A model's path matches longer paths, too, so longer routes come first.
  const inOrder = routes.toSorted((one, other) => other.path.split("/").length - one.path.split("/").length);
  const handler = async (exchange: Exchange): Promise<Summary> => {
    const method = exchange.method === "HEAD" ? "get" : exchange.method.toLowerCase();
    const wanted = inOrder.find((each) => each.method === method && each.pattern.test(exchange.path));
    if (wanted === undefined) return refuseUnknownRoute(exchange, routes, deps);
    const route = shownPath(wanted);
    try {
      return { ...(await serve(exchange, wanted, deps)), route };
    } catch (error) {
      return { ...notForwarded, route, error };
    }
  };
  return latePaths.admin.map((each) => ({ ...each, handler }));
}

/** Returns a route's path in Express' form, which is its name in metrics. */
function shownPath({ path }: AdminRoute): string {
  return adminBase + path.replace("{model}", "*model").replace(/\{(\w+)\}/g, ":$1");
}

async function serve<Tools>(
  exchange: Exchange,
  route: ServedRoute<Tools>,
  deps: Tools & AccessChecks,
): Promise<Summary> {
  const admission = await admit(exchange, deps);
  if (!admission.ok) return refuseUncached(exchange, admission.refusal);
  const { caller } = admission;
  if (route.role === "editor" && caller.role !== "editor") return refuseUncached(exchange, { code: "read_only" });
  const query = readQuery(exchange.query, route.query);
  if (!query.ok) return refuseUncached(exchange, query.refusal);
  const body = await readBody(exchange, route.body, bodyBytesMax);
  if (!body.ok) return body.refusal === null ? notForwarded : refuseUncached(exchange, body.refusal);
  const params = (route.pattern.exec(exchange.path) ?? []).slice(1).map(decodeURIComponent);
  return answerRoute(exchange, route, query.value, (parameters) =>
    route.handle(
      { ...deps, caller, by: caller.name },
      { params, query: parameters as never, body: body.value as never },
    ),
  );
}

/** Answers with the result of `read`. Sends JSON, or CSV of all pages if the parameter `format` is "csv". */
export async function answerRoute(
  exchange: Exchange,
  { csv, status }: Partial<Pick<AdminRoute, "csv" | "status">>,
  query: unknown,
  read: (parameters: object) => Promise<RouteAnswer>,
): Promise<Summary> {
  const { format, ...parameters } = query as { readonly format?: "json" | "csv" };
  const list = format === "csv" ? csv : null;
  const answer = await read(list ? { ...parameters, ...firstPage } : parameters);
  if (!answer.ok) return refuseUncached(exchange, refusalOfFailure(answer));
  if (!list) return answerJson(exchange, answer.json, status && { status });
  return answerCsv(exchange, list, answer.json, (cursor) => read({ ...parameters, ...firstPage, cursor }));
}

/** Refuses an unknown path or method. Only admins learn which of the two is unknown. */
async function refuseUnknownRoute(
  exchange: Exchange,
  routes: readonly ServedRoute[],
  checks: AccessChecks,
): Promise<Summary> {
  const admission = await admit(exchange, checks);
  if (!admission.ok) return refuseUncached(exchange, admission.refusal);
  const methods = routes.filter(({ pattern }) => pattern.test(exchange.path)).map(({ method }) => method.toUpperCase());
  if (methods.length > 0) return refuseUncached(exchange, { code: "method_not_allowed", allow: methods });
  return refuseUncached(exchange, {
    code: "not_found",
    message: `There is no such path; ${adminBase}/openapi.json lists all paths.`,
  });
}

async function admit(
  exchange: Exchange,
  { gate, browserSessions }: AccessChecks,
): Promise<OrRefused<{ caller: AdminCaller }>> {
  const authorization = exchange.header("authorization");
  if (authorization === undefined) {
    const session = await browserSessions.admin(exchange);
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

/**
 * Returns the pattern of a route's paths. The id of a model may contain slashes, and a path cannot contain them
 * encoded.
 */
function patternOf({ path }: AdminRoute): RegExp {
  const segments = path
    .split("/")
    .map((each) => (each === "{model}" ? "(.+)" : each.startsWith("{") ? "([^/]+)" : each.replace(".", "[.]")));
  return new RegExp(`^${adminBase}${segments.join("/")}$`);
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
