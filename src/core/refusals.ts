import type { Shortage } from "./budget.ts";
import type { ExceededRateLimit } from "./rate-limits.ts";
import type { ExceededCeiling } from "./tasks.ts";

interface RefusedModel {
  readonly model: string;
  /** Id of the most similar model that the key may use and that has a price; absent if none is similar. */
  readonly near?: string;
}

/** Reasons why Farebox itself refuses a request. The wire layer gives each reason a status, headers and a body. */
export type Refusal =
  | { readonly code: "invalid_json"; readonly message: string }
  | { readonly code: "invalid_request"; readonly message: string; readonly param: string | null }
  /** `hardBudget`: true if a hard budget requires a price, false if `FAREBOX_UNPRICED=refuse` does. */
  | ({ readonly code: "model_not_priced"; readonly hardBudget: boolean } & RefusedModel)
  /** `why`: the reason why the first field has no bound; null if its name says enough. */
  | {
      readonly code: "cost_not_bounded";
      readonly model: string;
      readonly fields: readonly string[];
      readonly why: string | null;
    }
  | { readonly code: "invalid_api_key"; readonly message: string }
  | BudgetExceeded
  | BudgetHeld
  | ({ readonly code: "model_not_allowed" } & RefusedModel)
  | { readonly code: "read_only" }
  | { readonly code: "admin_refused"; readonly message: string; readonly retryAfterSeconds: number | null }
  | { readonly code: "conflict"; readonly message: string }
  | { readonly code: "method_not_allowed"; readonly allow: readonly string[] }
  | { readonly code: "unsupported_media_type"; readonly contentType: string }
  /** `session`: the request has a browser session, which may write only from the dashboard page. */
  | { readonly code: "cross_site"; readonly origin: string | null; readonly session?: true }
  | { readonly code: "not_found"; readonly message: string }
  /**
   * `setting`: null if the limit is fixed; absent if `FAREBOX_BODY_LIMIT` states it. `isDecoded`: true if the body is
   * too large only after it is decoded.
   */
  | {
      readonly code: "request_too_large";
      readonly limitBytes: number;
      readonly setting?: null;
      readonly isDecoded?: true;
    }
  | { readonly code: "request_timeout" }
  | { readonly code: "unsupported_encoding"; readonly encoding: string }
  | { readonly code: "websocket_unsupported" }
  | { readonly code: "unknown_host"; readonly host: string }
  | { readonly code: "rate_limit_exceeded"; readonly exceeded: ExceededRateLimit; readonly retryAfterSeconds: number }
  | {
      readonly code: "concurrency_limit";
      readonly exceeded: ExceededRateLimit | ExceededCeiling;
      readonly retryAfterSeconds: number;
    }
  | { readonly code: "too_many_subjects" }
  | { readonly code: "gateway_unreachable"; readonly message: string }
  | { readonly code: "gateway_redirect" }
  /** The gateway does not accept `FAREBOX_GATEWAY_API_KEY`. */
  | { readonly code: "gateway_key_refused" }
  | { readonly code: "gateway_timeout"; readonly timeoutMs: number }
  | { readonly code: "gateway_stream_broken"; readonly message: string }
  /**
   * `running`: the refusal ends a running stream whose hold cannot grow. `forwarded`: the refusal replaces an answer of
   * the gateway that cannot be recorded.
   */
  | { readonly code: "ledger_unavailable"; readonly running?: boolean; readonly forwarded?: true }
  | { readonly code: "balance_floor" }
  | { readonly code: "overloaded"; readonly message: string }
  | { readonly code: "internal_error" };

export interface Refused {
  readonly ok: false;
  readonly refusal: Refusal;
}

/** Outcome of a step: the request passes with these values, or is refused. */
export type OrRefused<Values> = ({ readonly ok: true } & Readonly<Values>) | Refused;

/** Refuses an invalid request. `param`: the invalid parameter; null if the fault is not in a single parameter. */
export function invalid(param: string | null, message: string): Refused {
  return { ok: false, refusal: { code: "invalid_request", param, message } };
}

/** Names of a window's scope and subject for users. `subjectName` is null for a scope without `each-…`. */
export interface BudgetNames {
  readonly scopeName: string;
  readonly subjectName: string | null;
}

/** Refusal by a budget. */
export interface BudgetRefusal extends BudgetNames {
  /** Figures for the operator. The client sees the budget's amounts only if `showsAmounts` is true. */
  readonly shortage: Shortage;
  /** True if the client may see the budget's limit and its spent and held amounts. */
  readonly showsAmounts: boolean;
  readonly affordable?: Affordable;
}

interface BudgetExceeded extends BudgetRefusal {
  readonly code: "budget_exceeded";
  /** True if the refusal ends a running stream whose budget cannot pay for more output. */
  readonly running?: boolean;
  /** True if the body was not read, so that the cost of the request is not known. */
  readonly beforeBody?: true;
}

interface BudgetHeld extends BudgetRefusal {
  readonly code: "budget_held";
}

/** Output limit with which the request would have fitted into the budget at the time of its refusal. */
export interface Affordable {
  /** Number of output tokens for each choice. */
  readonly tokens: number;
  /** Request field that limits the output tokens; null if unknown. */
  readonly field: string | null;
}

export type RefusalCode = Refusal["code"];

/** Every code, so that the metric of each code can start at 0. The compiler reports a code that is missing here. */
const everyCode: Readonly<Record<RefusalCode, null>> = {
  invalid_json: null,
  invalid_request: null,
  model_not_priced: null,
  cost_not_bounded: null,
  invalid_api_key: null,
  budget_exceeded: null,
  budget_held: null,
  model_not_allowed: null,
  read_only: null,
  admin_refused: null,
  conflict: null,
  method_not_allowed: null,
  unsupported_media_type: null,
  cross_site: null,
  not_found: null,
  request_too_large: null,
  request_timeout: null,
  unsupported_encoding: null,
  websocket_unsupported: null,
  unknown_host: null,
  rate_limit_exceeded: null,
  concurrency_limit: null,
  too_many_subjects: null,
  gateway_unreachable: null,
  gateway_redirect: null,
  gateway_key_refused: null,
  gateway_timeout: null,
  gateway_stream_broken: null,
  ledger_unavailable: null,
  balance_floor: null,
  overloaded: null,
  internal_error: null,
};
export const refusalCodes = Object.keys(everyCode) as readonly RefusalCode[];

/** Returns true for a failure of the gateway. The request has a charge, which states the failure. */
export function isOfGateway(code: RefusalCode): boolean {
  return code.startsWith("gateway_");
}
