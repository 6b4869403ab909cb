import type { z } from "zod";
import type { AdminCaller } from "../../../admin/admin-gate.ts";
import type { Failure } from "../../../admin/result.ts";
import type { AdminRole } from "../../../core/keys.ts";
import type { AccountSamples } from "../../../ports/account-samples.ts";
import type { AuditLog } from "../../../ports/audit-log.ts";
import type { Calendar } from "../../../ports/calendar.ts";
import type { Catalogue } from "../../../ports/catalogue.ts";
import type { Clock } from "../../../ports/clock.ts";
import type { KeyStore } from "../../../ports/key-store.ts";
import type { BudgetStore, Charging, LedgerMaintenance, LedgerQueries } from "../../../ports/ledger.ts";
import type { Shape } from "../../../reporting/shapes/fields.ts";
import type { SpendMemory } from "../../../reporting/spend-memory.ts";
import type { ProcessHealth } from "../../../reporting/health.ts";
import type { Outbox } from "../../../ports/outbox.ts";
import type { TaskStore } from "../../../ports/task-store.ts";
import type { TeamStore } from "../../../ports/team-store.ts";

/** Stores and services that the routes of the admin API call. */
export interface AdminDeps {
  readonly ledger: LedgerQueries & BudgetStore & LedgerMaintenance & Charging;
  /** The same ledger, for short and frequent queries that long queries must not delay. */
  readonly latest: LedgerQueries;
  readonly keys: KeyStore;
  readonly teams: TeamStore;
  readonly samples: AccountSamples;
  readonly audit: AuditLog;
  readonly outbox: Outbox;
  readonly tasks: TaskStore;
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
  /** Spending in past days and hours. */
  readonly memory: SpendMemory;
  /** State of this process, for its health. */
  readonly process: ProcessHealth;
}

/** Dependencies and the caller of one request. `by` is the author of a change, for the audit. */
export interface RouteTools extends AdminDeps {
  readonly caller: AdminCaller;
  readonly by: string;
}

export type RouteAnswer<Json = unknown> = { readonly ok: true; readonly json: Json } | Failure | NoGateway;

/** The route needs an answer from the gateway, but the gateway did not answer. */
interface NoGateway {
  readonly ok: false;
  readonly kind: "no_gateway";
  readonly message: string;
  readonly param?: never;
}

type AdminMethod = "get" | "post" | "put" | "patch" | "delete";

/** One route of the admin API, as it is served and documented. */
export interface AdminRoute {
  readonly method: AdminMethod;
  /** Path below /admin/v1 with parameters in braces: "/keys/{key}". */
  readonly path: string;
  /** Role that may call it. */
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
  { query, body, status, handle, ...declared }: Declared<A, Q, B>,
): AdminRoute {
  const [method = "", path = ""] = name.split(" ");
  return {
    ...declared,
    method: method.toLowerCase() as AdminMethod,
    path,
    query: query ?? null,
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
