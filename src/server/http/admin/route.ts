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
import type { SpendMemory } from "../../../reporting/spend-memory.ts";
import type { ProcessHealth } from "../../../reporting/health.ts";
import type { Store } from "../../../ports/store.ts";
import type { StoredUser } from "../../../wire/headers.ts";

/** Stores and services that the routes of the admin API call. */
export interface AdminDeps extends Store {
  /** True if `FAREBOX_ADMIN_TOKEN` is set. Its bearer is an editor. */
  readonly hasSettingsToken: boolean;
  readonly clock: Clock;
  readonly calendar: Calendar;
  /** Returns the prices in force. */
  readonly catalogue: () => Catalogue;
  /**
   * Returns the gateway's account record; undefined if there is none. It is at most `accountTtlMs` old if the gateway
   * answers.
   */
  readonly account: () => Promise<{ readonly body: unknown; readonly fetchedAt: number } | undefined>;
  readonly accountTtlMs: number;
  /** Returns the stored form of a user's name; null if users are not stored. */
  readonly storedUser: StoredUser | null;
  /** Cached spending of past days and hours. */
  readonly memory: SpendMemory;
  /** State of this process, for `GET /health`. */
  readonly process: ProcessHealth;
}

/** Dependencies and the caller of one request. `by` is the author of a change, for the audit. */
export interface RouteTools extends AdminDeps {
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

/** Route of the admin API, for serving and for the OpenAPI document. */
export interface AdminRoute {
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
  handle(
    tools: RouteTools,
    input: { readonly params: readonly string[]; readonly query: never; readonly body: never },
  ): Promise<RouteAnswer>;
}

interface Declared<A extends z.ZodType, Q extends z.ZodObject, B extends z.ZodObject> {
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
    tools: RouteTools,
    input: { readonly params: readonly string[]; readonly query: z.output<Q>; readonly body: z.output<B> },
  ): Promise<RouteAnswer<Shape<A>>>;
}

/**
 * Declares a route such as "GET /keys/{key}". `params` are in the order of the path. `handle` must return what `answer`
 * declares.
 */
export function route<A extends z.ZodType, Q extends z.ZodObject = z.ZodObject, B extends z.ZodObject = z.ZodObject>(
  name: `${"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} /${string}`,
  { query, body, status, csv, handle, ...declared }: Declared<A, Q, B>,
): AdminRoute {
  const [method = "", path = ""] = name.split(" ");
  return {
    ...declared,
    method: method.toLowerCase() as AdminMethod,
    path,
    query: query === undefined ? null : csv === undefined ? query : withFormat(query),
    csv: csv ?? null,
    body: body ?? null,
    status: status ?? 200,
    handle: handle as AdminRoute["handle"],
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
