import type { Shortage } from "./budget.ts";
import type { LimitMet } from "./limits.ts";
import type { CeilingMet } from "./tasks.ts";

/** Reasons why Farebox itself refuses a request. The wire layer gives each reason a status, headers and a body. */
export type Refusal =
  | { readonly code: "invalid_json"; readonly message: string }
  | { readonly code: "invalid_request"; readonly message: string; readonly param: string | null }
  | { readonly code: "model_not_priced"; readonly model: string; readonly underBudget: boolean }
  /** `why`: why the first field has no bound; null if its name says enough. */
  | {
      readonly code: "cost_not_bounded";
      readonly model: string;
      readonly fields: readonly string[];
      readonly why: string | null;
    }
  | { readonly code: "invalid_api_key"; readonly message: string }
  /** `running`: the refusal ends a running stream whose budget cannot pay for more output. */
  | {
      readonly code: "budget_exceeded";
      readonly shortage: Shortage;
      readonly scopeName: string;
      readonly running?: boolean;
      readonly affordable?: Affordable;
    }
  | {
      readonly code: "budget_held";
      readonly shortage: Shortage;
      readonly scopeName: string;
      readonly affordable?: Affordable;
    }
  | { readonly code: "model_not_allowed"; readonly model: string }
  | { readonly code: "read_only" }
  | { readonly code: "admin_refused"; readonly message: string; readonly retryAfterSeconds: number | null }
  | { readonly code: "conflict"; readonly message: string }
  | { readonly code: "method_not_allowed"; readonly allow: readonly string[] }
  | { readonly code: "unsupported_media_type"; readonly contentType: string }
  /** `session`: the request has a browser session, which may write only from the dashboard page. */
  | { readonly code: "cross_site"; readonly origin: string | null; readonly session?: true }
  | { readonly code: "not_found"; readonly message: string }
  | { readonly code: "request_too_large"; readonly limitBytes: number; readonly setting?: null }
  | { readonly code: "request_timeout" }
  | { readonly code: "unsupported_encoding"; readonly encoding: string }
  | { readonly code: "websocket_unsupported" }
  | { readonly code: "unknown_host"; readonly host: string }
  | { readonly code: "rate_limit_exceeded"; readonly met: LimitMet; readonly retryAfterSeconds: number }
  | { readonly code: "concurrency_limit"; readonly met: LimitMet | CeilingMet; readonly retryAfterSeconds: number }
  | { readonly code: "gateway_unreachable"; readonly message: string }
  | { readonly code: "gateway_redirect" }
  | { readonly code: "gateway_timeout"; readonly timeoutMs: number }
  | { readonly code: "gateway_stream_broken"; readonly message: string }
  /** `running`: the refusal ends a running stream whose hold cannot grow. */
  | { readonly code: "ledger_unavailable"; readonly running?: boolean }
  | { readonly code: "balance_floor" }
  | { readonly code: "overloaded"; readonly message: string }
  | { readonly code: "internal_error" };

/** Output limit with which the request would have fitted its budget when it was refused. */
export interface Affordable {
  /** Number of output tokens for each choice. */
  readonly tokens: number;
  /** Request field that limits them; null if unknown. */
  readonly field: string | null;
}

export type RefusalCode = Refusal["code"];

/** All codes, so that the count of each can start at 0. The compiler reports a missing code. */
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
  gateway_unreachable: null,
  gateway_redirect: null,
  gateway_timeout: null,
  gateway_stream_broken: null,
  ledger_unavailable: null,
  balance_floor: null,
  overloaded: null,
  internal_error: null,
};
export const refusalCodes = Object.keys(everyCode) as readonly RefusalCode[];
