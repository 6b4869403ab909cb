import { expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { everyRequest } from "../../../src/core/scope.ts";
import type { Refusal } from "../../../src/core/refusals.ts";
import { anthropicErrorEvent, errorShapeOf, refusalIn } from "../../../src/wire/anthropic-error.ts";
import { refusalAnswer } from "../../../src/wire/refusals.ts";

const id = "0199-id";

it.each([
  ["/v1/messages", false, "anthropic"],
  ["/v1/messages/count_tokens", false, "anthropic"],
  ["/v1/messages/batches/b1/results", false, "anthropic"],
  ["/messages", false, "anthropic"],
  ["/v1/messages-of-mine", false, "openai"],
  ["/v1/chat/completions", true, "openai"],
  ["/v1/responses/input_tokens", true, "openai"],
  ["/v1/models", false, "openai"],
  ["/v1/models", true, "anthropic"],
  ["/v1/files", true, "anthropic"],
  ["/api/hello", true, "anthropic"],
  ["/v1/unknown", false, "openai"],
  // The path of a request whose target is not valid.
  ["", true, "anthropic"],
  ["", false, "openai"],
])("a refusal of %s, with anthropic-version: %s, has the shape of %s", (path, hasVersion, shape) => {
  expect(errorShapeOf(path, hasVersion)).toBe(shape);
});

const budget: Refusal = {
  code: "budget_exceeded",
  shortage: {
    window: {
      budget: { id: "b", scope: everyRequest, period: "total", mode: "hard", limit: usd("1.00"), warnPercent: null },
      subject: "",
      start: 0,
      end: null,
      spent: usd("1.00"),
      held: usd("0.00"),
      raises: [],
    },
    needed: usd("0.30"),
    exhausted: true,
  },
  scopeName: "all",
  subjectName: null,
  showsAmounts: true,
};
const unbounded = (...fields: string[]): Refusal => ({ code: "cost_not_bounded", model: "m", fields, why: null });
const exceeded = { scope: "key:alice", kind: "rpm", limit: 60, needed: null } as const;

it.each<[Refusal, number, string, object?]>([
  [{ code: "invalid_json", message: "x" }, 400, "invalid_request_error"],
  [{ code: "invalid_request", message: "x", param: "n" }, 400, "invalid_request_error"],
  [{ code: "model_not_priced", model: "m", hardBudget: true }, 400, "policy_blocked"],
  [{ code: "model_not_allowed", model: "m" }, 400, "policy_blocked"],
  [unbounded("mcp_servers"), 400, "policy_blocked"],
  [unbounded("speed", "mcp_servers"), 400, "policy_blocked"],
  [unbounded("speed"), 429, "rate_limit_error", { "x-should-retry": "false" }],
  [{ code: "invalid_api_key", message: "x" }, 401, "authentication_error", { "x-should-retry": "false" }],
  [budget, 402, "billing_error", { "x-should-retry": "false" }],
  [{ code: "cross_site", origin: null }, 403, "permission_error"],
  [{ code: "not_found", message: "x" }, 404, "not_found_error"],
  [{ code: "method_not_allowed", allow: ["POST"] }, 405, "invalid_request_error", { allow: "POST" }],
  [{ code: "request_timeout" }, 408, "timeout_error"],
  [{ code: "conflict", message: "x" }, 409, "invalid_request_error", { "x-should-retry": "false" }],
  [{ code: "request_too_large", limitBytes: 5 }, 413, "request_too_large"],
  [{ code: "rate_limit_exceeded", exceeded, retryAfterSeconds: 7 }, 429, "rate_limit_error", { "retry-after": "7" }],
  [
    { code: "rate_limit_exceeded", exceeded: { ...exceeded, kind: "tpm", needed: 90 }, retryAfterSeconds: 60 },
    429,
    "rate_limit_error",
    { "retry-after": "60", "x-should-retry": "false" },
  ],
  [{ ...budget, code: "budget_held" } as Refusal, 429, "rate_limit_error", { "retry-after": "1" }],
  [{ code: "too_many_subjects" }, 429, "rate_limit_error", { "x-should-retry": "false" }],
  [{ code: "internal_error" }, 500, "api_error"],
  [{ code: "gateway_unreachable", message: "x" }, 502, "api_error"],
  [{ code: "gateway_key_refused" }, 502, "api_error", { "x-should-retry": "false" }],
  [{ code: "ledger_unavailable" }, 503, "overloaded_error", { "retry-after": "1" }],
  [{ code: "gateway_timeout", timeoutMs: 1000 }, 504, "timeout_error"],
])("in Anthropic's shape, $code has the status %i and the type %s", (refusal, status, type, headers = {}) => {
  const answer = refusalIn("anthropic", refusal, id);
  const sameInOpenAi = JSON.parse(refusalAnswer(refusal).body) as {
    error: { message: string; code: string; param: string | null; metadata?: object };
  };
  const { message, code, param, metadata } = sameInOpenAi.error;
  expect(answer.status).toBe(status);
  expect(Object.fromEntries(answer.headers)).toEqual({
    "content-type": "application/json",
    "x-farebox-error": code,
    "request-id": id,
    ...headers,
  });
  expect(JSON.parse(answer.body)).toEqual({
    type: "error",
    error: { type, message, code, ...(param !== null && { param }), ...(metadata && { metadata }) },
    request_id: id,
  });
  expect(anthropicErrorEvent(refusal, id)).toBe(`event: error\ndata: ${answer.body}\n\n`);
});

it("in OpenAI's shape, a refusal is that of the OpenAI endpoints", () => {
  const refusal: Refusal = { code: "model_not_allowed", model: "m" };
  expect(refusalIn("openai", refusal, id)).toEqual(refusalAnswer(refusal));
});
