import type { Refusal } from "../core/refusals.ts";
import { anthropicPaths, isBelow, openAiPaths } from "../core/task-routes.ts";
import { errorOf, noRetry, refusalAnswer, type RefusalAnswer, type WholeError } from "./refusals.ts";

/** Interface whose clients read an error. */
export type ErrorShape = "openai" | "anthropic";

/** With the path without `/v1` of a misspelled request. */
const messagesPaths = [...anthropicPaths, "/messages"];

/**
 * Returns the shape of a refusal. Paths that both interfaces have, and unknown ones, have that of the client: only
 * Anthropic's clients send `anthropic-version`.
 */
export function errorShapeOf(path: string, hasAnthropicVersion: boolean): ErrorShape {
  if (isBelow(path, messagesPaths)) return "anthropic";
  return hasAnthropicVersion && !isBelow(path, openAiPaths) ? "anthropic" : "openai";
}

/** Returns the whole answer to a refused request, in the shape that its client reads. */
export function refusalIn(shape: ErrorShape, refusal: Refusal, requestId: string): RefusalAnswer {
  if (shape === "openai") return refusalAnswer(refusal);
  const error = restated(refusal);
  return {
    status: error.status,
    headers: [
      ["content-type", "application/json"],
      ["x-farebox-error", error.code],
      ["request-id", requestId],
      ...(error.headers ?? []),
    ],
    body: JSON.stringify(errorObject(error, requestId)),
  };
}

/** Returns the event that ends a broken stream of the Messages API. */
export function anthropicErrorEvent(refusal: Refusal, requestId: string): string {
  return `event: error\ndata: ${JSON.stringify(errorObject(restated(refusal), requestId))}\n\n`;
}

type TypedError = WholeError & { readonly type: string };

function errorObject({ type, message, code, param, metadata }: TypedError, requestId: string): object {
  const details = { ...(param != null && { param }), ...(metadata && { metadata }) };
  return { type: "error", error: { type, message, code, ...details }, request_id: requestId };
}

/**
 * Returns the error with Anthropic's type. Claude Code sends an ordinary 400 six times and hides the sentence of a 404,
 * but shows that of `policy_blocked` after one request.
 */
function restated(refusal: Refusal): TypedError {
  const error = errorOf(refusal);
  if (!policies.has(refusal.code)) return { ...error, type: typeOf(error.status) };
  // After this answer, Claude Code continues at standard speed.
  if (isOnlyAboutSpeed(refusal)) return { ...error, status: 429, type: typeOf(429), headers: [noRetry] };
  return { ...error, status: 400, type: "policy_blocked" };
}

/** Refusals by a rule of this proxy: the same request to the gateway may be valid. */
const policies: ReadonlySet<Refusal["code"]> = new Set(["model_not_allowed", "model_not_priced", "cost_not_bounded"]);

function isOnlyAboutSpeed(refusal: Refusal): boolean {
  return refusal.code === "cost_not_bounded" && refusal.fields.length === 1 && refusal.fields[0] === "speed";
}

/** Returns the error type that Anthropic uses with a status. */
function typeOf(status: number): string {
  return types[status] ?? (status >= 500 ? "api_error" : "invalid_request_error");
}

const types: Readonly<Record<number, string>> = {
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  408: "timeout_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
  504: "timeout_error",
};
