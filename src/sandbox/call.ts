import type { IncomingMessage, ServerResponse } from "node:http";
import type { Billing, Consumption } from "./billing.ts";
import type { Observer, OpenRequest } from "./observer.ts";
import type { RequestHead, SandboxOptions } from "./options.ts";
import type { PromptCache } from "./prompt-cache.ts";
import type { Scenario } from "./scenarios.ts";
import type { SandboxTask } from "./task-records.ts";
import type { Webhooks } from "./webhooks.ts";

/** State shared by all requests to one sandbox. */
export interface SharedState {
  readonly options: Required<
    Omit<SandboxOptions, "scenario" | "scenarioAtHeaders" | "prices" | "minimum" | "billingErrors">
  > &
    Pick<SandboxOptions, "scenario" | "scenarioAtHeaders">;
  readonly billing: Billing;
  readonly observer: Observer;
  /** Prefix of request ids, computed once from the seed. Hashing every id would slow benchmarks. */
  readonly idPrefix: string;
  /** Tasks by their ids. */
  readonly tasks: Map<string, SandboxTask>;
  readonly promptCache: PromptCache;
  readonly webhooks: Webhooks;
  /**
   * One function for each task that is not billed yet. It tries to bill the task, and returns true if no further
   * attempt is needed.
   */
  readonly unbilled: Set<() => boolean>;
  /** Address of the sandbox, for redirects. */
  url(): URL;
}

/** Request together with its response. */
export interface Call {
  readonly shared: SharedState;
  readonly head: RequestHead;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly seen: OpenRequest;
  /** Path without its query and without the `/moved` prefix of a redirect. */
  readonly path: string;
  /** Number of redirects so far. */
  readonly redirects: number;
  /** Number of the request; 1 for the first one that the sandbox received. */
  readonly number: number;
  /** Id of the answer, sent as x-request-id. */
  readonly requestId: string;
  /** Aborted once the connection or the answer has ended. */
  readonly gone: AbortSignal;
  readonly scenario: Scenario;
}

/** Returns the call with its scenario and records the scenario's text. */
export function withScenario(call: Call, text: string, scenario: Scenario): Call {
  call.seen.scenario = text;
  return { ...call, scenario };
}

/** Returns the headers of every answer. */
function commonHeaders(call: Call): Record<string, string> {
  return {
    ...(isMessagesPath(call.path)
      ? { "request-id": call.requestId }
      : { "x-request-id": call.requestId, "openai-processing-ms": "42" }),
    "x-ratelimit-limit-requests": "10000",
    "x-ratelimit-remaining-requests": "9999",
    ...("set-cookie" in call.scenario ? { "set-cookie": "gateway_session=abc123; Path=/; HttpOnly; Secure" } : {}),
    ...("close" in call.scenario ? { connection: "close" } : {}),
  };
}

/** Writes the status line and the headers. */
export function writeHead(call: Call, status: number, headers: Record<string, string>): void {
  call.seen.status = status;
  call.response.writeHead(status, { ...commonHeaders(call), ...headers });
  call.shared.observer.changed();
}

/** Sends an answer with a complete body. */
export function send(call: Call, status: number, headers: Record<string, string>, body: string | Uint8Array): void {
  writeHead(call, status, { "content-length": String(Buffer.byteLength(body)), ...headers });
  call.response.end(body);
}

export function sendJson(call: Call, status: number, value: unknown, headers: Record<string, string> = {}): void {
  send(call, status, { "content-type": "application/json", ...headers }, JSON.stringify(value));
}

/** Returns true for paths of Anthropic's interface. Their errors and credentials have its form. */
export function isMessagesPath(path: string): boolean {
  return /^\/v1\/messages(\/|$)/.test(path);
}

/** Anthropic's error types by status. */
const messageErrors: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
  504: "timeout_error",
  529: "overloaded_error",
};

interface StatedError {
  readonly status: number;
  /** Type and code of OpenAI's endpoints. Anthropic's type depends on the status only. */
  readonly type: string;
  readonly code: string | null;
  readonly message: string;
}

/** Builds an error in the form of the endpoint: OpenAI's or Anthropic's. */
export function errorBody(call: Call, { status, type, code, message }: StatedError): object {
  if (!isMessagesPath(call.path)) return { error: { message, type, param: null, code } };
  const error = { type: messageErrors[status] ?? "api_error", message };
  return { type: "error", error, request_id: call.requestId };
}

/** Sends an error in the form of the endpoint. */
export function sendError(
  call: Call,
  status: number,
  type: string,
  code: string | null,
  message: string,
  headers: Record<string, string> = {},
): void {
  sendJson(call, status, errorBody(call, { status, type, code, message }), headers);
}

/** Sends an error in the form of the gateway's own interface. */
export function sendEnvelope(call: Call, status: number, message: string): void {
  sendJson(call, status, { code: status, data: null, message });
}

/**
 * Returns true if a call of the gateway's own interface has the right key. Otherwise sends an error and returns false.
 */
export function hasApiKey(call: Call): boolean {
  const isRight = call.head.headers["x-api-key"] === call.shared.options.apiKey;
  if (!isRight) sendEnvelope(call, 401, "unauthorized: invalid api key");
  return isRight;
}

/**
 * Returns true if a call of /v1/messages has the right key, in either header or in both. Otherwise sends an error and
 * returns false.
 */
function hasMessagesKey(call: Call): boolean {
  const { authorization, "x-api-key": key } = call.head.headers;
  const { apiKey } = call.shared.options;
  const isRight =
    (authorization ?? key) !== undefined &&
    (authorization === undefined || authorization === `Bearer ${apiKey}`) &&
    (key === undefined || key === apiKey);
  if (!isRight) {
    const given = key === undefined && authorization !== undefined ? "bearer token" : "x-api-key";
    sendError(call, 401, "", null, authorization === key ? "x-api-key header is required" : `invalid ${given}`);
  }
  return isRight;
}

/** Returns true if a call has the right key, in the form of its endpoint. Otherwise sends an error and returns false. */
export function hasBearerKey(call: Call): boolean {
  if (isMessagesPath(call.path)) return hasMessagesKey(call);
  const { authorization = "" } = call.head.headers;
  if (authorization === `Bearer ${call.shared.options.apiKey}`) return true;
  const given = /^Bearer (.+)$/.exec(authorization)?.[1];
  const message =
    given === undefined
      ? "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth."
      : `Incorrect API key provided: ${masked(given)}.`;
  sendError(call, 401, "invalid_request_error", given === undefined ? null : "invalid_api_key", message);
  return false;
}

function masked(key: string): string {
  return key.length < 12 ? "***" : `${key.slice(0, 3)}***${key.slice(-4)}`;
}

/** Sends an error for a request with an unknown scenario, so that the user notices a mistyped name. */
export function refuseScenario(call: Call): void {
  sendError(
    call,
    400,
    "invalid_request_error",
    "unknown_scenario",
    `The sandbox does not have the scenario of this request; farebox sandbox --help lists all.`,
  );
}

/** Ends the connection at once. `reset` sends a RST; `close` still delivers what was written. */
export function breakOff(call: Call, how: "reset" | "close"): void {
  call.seen.ended = "brokenOff";
  if (how === "reset") call.request.socket.resetAndDestroy();
  else call.request.socket.destroy();
}

/** Bills the call, except in the scenario `free`. If the client leaves later, marks the billed call. */
export function charge(call: Call, consumption: Consumption): void {
  if ("free" in call.scenario) return;
  const leaves = call.gone.aborted && call.seen.ended !== "brokenOff" && !call.response.writableFinished;
  const billed = call.shared.billing.charge(consumption, leaves);
  call.gone.addEventListener("abort", () => {
    if (call.seen.ended === "clientLeft") {
      billed.abortedByClient = true;
      call.shared.observer.changed();
    }
  });
  call.shared.observer.changed();
}
