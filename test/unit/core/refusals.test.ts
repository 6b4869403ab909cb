import { expect, it } from "vitest";
import { invalid, isOfGateway, refusalCodes } from "../../../src/core/refusals.ts";

it("the list of refusal codes is complete", () => {
  expect(refusalCodes.toSorted()).toEqual([
    "admin_refused",
    "balance_floor",
    "budget_exceeded",
    "budget_held",
    "concurrency_limit",
    "conflict",
    "cost_not_bounded",
    "cross_site",
    "gateway_key_refused",
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
    "too_many_subjects",
    "unknown_host",
    "unsupported_encoding",
    "unsupported_media_type",
    "websocket_unsupported",
  ]);
});

it("the failures of the gateway are separate from Farebox's own refusals", () => {
  expect(refusalCodes.filter(isOfGateway).toSorted()).toEqual([
    "gateway_key_refused",
    "gateway_redirect",
    "gateway_stream_broken",
    "gateway_timeout",
    "gateway_unreachable",
  ]);
});

it.each([["model"], [null]])("an invalid request is refused with the parameter %j and a message", (param) => {
  expect(invalid(param, "not a model")).toStrictEqual({
    ok: false,
    refusal: { code: "invalid_request", param, message: "not a model" },
  });
});
