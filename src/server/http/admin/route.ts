import type { z } from "zod";
import type { CsvList } from "../../../reporting/list-csv.ts";
import { withFormat } from "./csv.ts";
import type { AdminCaller } from "../../../admin/admin-gate.ts";
import { failure, type Failure } from "../../../admin/result.ts";
import type { AdminRole } from "../../../core/keys.ts";
import type { Calendar } from "../../../ports/calendar.ts";
import type { Catalogue } from "../../../ports/catalogue.ts";
import type { Clock } from "../../../ports/clock.ts";
import type { Shape } from "../../../reporting/shapes/fields.ts";
import type { StoredUser } from "../../../wire/headers.ts";

/** Clock and calendar of a route that reads times. */
export interface Timed {
  readonly clock: Clock;
  readonly calendar: Calendar;
}

/** Prices of a route that reads them. */
export interface WithPrices {
  /** Returns the prices in force. */
  readonly catalogue: () => Catalogue;
}

/** Form of users' names, for a route whose parameters name users. */
export interface WithUsers {
  /** Returns the stored form of a user's name; null if users are not stored. */
  readonly storedUser: StoredUser | null;
}

/** Caller of a request. `by` is the author of a change, for the audit. */
interface RouteCaller {
  readonly caller: AdminCaller;
  readonly by: string;
}

export type RouteAnswer<Json = unknown> = { readonly ok: true; readonly json: Json } | Failure | NoGateway;

/** Failure of a route that needs an answer from the gateway, if the gateway did not answer. */
interface NoGateway {
  readonly ok: false;
  readonly kind: "no_gateway";
  readonly message: string;
  readonly param?: never;
}

type AdminMethod = "get" | "post" | "put" | "patch" | "delete";

/** Route of the admin API, for serving and for the OpenAPI document. `Tools`: the stores and services that it uses. */
export interface AdminRoute<Tools = never> {
  readonly method: AdminMethod;
  /** Path below /admin/v1 with parameters in braces: "/keys/{key}". */
  readonly path: string;
  /** Lowest role that may call the route. */
  readonly role: AdminRole;
  readonly summary: string;
  /** Schema of the query parameters; null if there are none. */
  readonly query: z.ZodObject | null;
  /** Schema of the body; null if there is none. A body may be missing if all its fields are optional. */
  readonly body: z.ZodObject | null;
  /** Status of a successful answer. */
  readonly status: 200 | 201;
  /** Schema of the answer, for types, the OpenAPI document and tests. */
  readonly answer: z.ZodType;
  /** Rows and columns of the answer as CSV; null if it is not a list. */
  readonly csv: CsvList<never> | null;
  readonly handle: (
    tools: Tools & RouteCaller,
    input: { readonly params: readonly string[]; readonly query: never; readonly body: never },
  ) => Promise<RouteAnswer>;
}

/** The stores and services that these routes use together. */
export type ToolsOf<Route extends AdminRoute> = [Route["handle"]] extends [
  (tools: infer Tools, input: never) => unknown,
]
  ? Omit<Tools, keyof RouteCaller>
  : never;

interface Declared<Tools, A extends z.ZodType, Q extends z.ZodObject, B extends z.ZodObject> {
  readonly role: AdminRole;
  readonly summary: string;
  readonly query?: Q;
  readonly body?: B;
  readonly status?: 201;
  readonly answer: A;
  /**
   * Adds the parameter `format`, with which the route returns all pages as one CSV file. The query needs `limit` and
   * `cursor`, the answer `next`.
   */
  readonly csv?: CsvList<Shape<A>>;
  handle(
    tools: Tools & RouteCaller,
    input: { readonly params: readonly string[]; readonly query: z.output<Q>; readonly body: z.output<B> },
  ): Promise<RouteAnswer<Shape<A>>>;
}

/**
 * Returns the function that declares a route such as "GET /keys/{key}" of a resource. `Tools` are the stores and
 * services that the resource uses. `params` are in the order of the path. `handle` must return what `answer` declares.
 */
export function routesFor<Tools>() {
  return <A extends z.ZodType, Q extends z.ZodObject = z.ZodObject, B extends z.ZodObject = z.ZodObject>(
    name: `${"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} /${string}`,
    { query, body, status, csv, handle, ...declared }: Declared<Tools, A, Q, B>,
  ): AdminRoute<Tools> => {
    const [method = "", path = ""] = name.split(" ");
    return {
      ...declared,
      method: method.toLowerCase() as AdminMethod,
      path,
      query: query === undefined ? null : csv === undefined ? query : withFormat(query),
      csv: csv ?? null,
      body: body ?? null,
      status: status ?? 200,
      handle,
    };
  };
}

/** Returns the failure of a use case, or its result as JSON. */
export function answered<T extends { readonly ok: true }, Json>(
  result: T | Failure,
  json: (done: T) => Json,
): RouteAnswer<Json> {
  return result.ok ? { ok: true, json: json(result) } : result;
}

export function found<Json>(json: Json): RouteAnswer<Json> {
  return { ok: true, json };
}

/** Returns the failure for a cursor that does not come from this list in the same order. */
export function wrongCursor(list: string): Failure {
  return failure("invalid", `cursor must be the cursor of an earlier list of ${list} in the same order`);
}
