import { expect, it } from "vitest";
import { refusalCodes } from "../../../src/core/refusals.ts";

it("every code of a refusal is counted", () => {
  expect(refusalCodes.toSorted()).toEqual([
    "admin_refused",
    "balance_floor",
    "budget_exceeded",
    "budget_held",
    "concurrency_limit",
    "conflict",
    "cost_not_bounded",
    "cross_site",
    "gateway_redirect",
    "gateway_stream_broken",
    "gateway_timeout",
    "gateway_unreachable",
    "internal_error",
    "invalid_api_key",
    "invalid_json",
    "invalid_request",
    "ledger_unavailable",
    "method_not_allowed",
    "model_not_allowed",
    "model_not_priced",
    "not_found",
    "overloaded",
    "rate_limit_exceeded",
    "read_only",
    "request_timeout",
    "request_too_large",
    "unknown_host",
    "unsupported_encoding",
    "unsupported_media_type",
    "websocket_unsupported",
  ]);
});
