import { assertNever } from "../core/assert.ts";
import { formatUsd, larger, noMoney, subtract } from "../core/money.ts";
import type { Period, Scope, Shortage } from "../core/budget.ts";
import type { LimitMet } from "../core/limits.ts";
import type { CeilingMet } from "../core/tasks.ts";
import type { Affordable, Refusal } from "../core/refusals.ts";

/** One of our own errors as it leaves: OpenAI's shape with all four fields, `metadata` where there is more to say. */
interface RefusalAnswer {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
}

interface ErrorParams {
  readonly status: number;
  readonly type: string;
  readonly code: string;
  readonly message: string;
  readonly param?: string | null;
  readonly metadata?: Readonly<Record<string, string | number | null>>;
  readonly headers?: readonly (readonly [string, string])[];
}

/** The whole answer to a refused request. */
export function refusalAnswer(refusal: Refusal): RefusalAnswer {
  const error = errorParams(refusal);
  return {
    status: error.status,
    headers: [["content-type", "application/json"], ["x-farebox-error", error.code], ...(error.headers ?? [])],
    body: JSON.stringify(errorObject(error)),
  };
}

/** The event that ends a stream which cannot go on, so that no client takes it for a whole answer. */
export function refusalEvent(refusal: Refusal): string {
  return `data: ${JSON.stringify(errorObject(errorParams(refusal)))}\n\n`;
}

/** The same for streams whose events have a type: as their own error event, with the object that other streams end with. */
export function typedRefusalEvent(refusal: Refusal): string {
  const error = errorParams(refusal);
  const event = {
    type: "error",
    code: error.code,
    message: error.message,
    param: error.param ?? null,
    sequence_number: 0,
    ...errorObject(error),
  };
  return `event: error\ndata: ${JSON.stringify(event)}\n\n`;
}

/**
 * The events that end a stream of the Responses API. `response.failed` with this code is the one that Codex shows and does not
 * try again; the official SDKs raise the error event, which has the code of ours.
 */
export function failedResponseEvents(refusal: Refusal): string {
  const { message } = errorParams(refusal);
  const response = {
    id: "",
    object: "response",
    created_at: 0,
    status: "failed",
    error: { code: "invalid_prompt", message },
    incomplete_details: null,
    model: "",
    output: [],
    usage: null,
  };
  const event = { type: "response.failed", sequence_number: 0, response };
  return `event: response.failed\ndata: ${JSON.stringify(event)}\n\n${typedRefusalEvent(refusal)}`;
}

/** The status that a refusal is answered with. */
export function refusalStatus(refusal: Refusal): number {
  return errorParams(refusal).status;
}

function errorObject({ message, type, code, param, metadata }: ErrorParams): object {
  return { error: { message, type, param: param ?? null, code, ...(metadata && { metadata }) } };
}

const invalidRequest = "invalid_request_error";
const gatewayTrouble = "api_error";

function errorParams(refusal: Refusal): ErrorParams {
  const { code } = refusal;
  switch (code) {
    case "invalid_json":
      return { status: 400, type: invalidRequest, code, message: refusal.message };
    case "invalid_request":
      return { status: 400, type: invalidRequest, code, message: refusal.message, param: refusal.param };
    case "model_not_priced":
      return { status: 400, type: invalidRequest, code, message: notPriced(refusal), param: "model" };
    case "cost_not_bounded": {
      const message = `${refusal.fields.map(quoted).join(", ")} can cost more than Farebox can bound for ${refusal.model}, so a key under a hard budget cannot use it${refusal.why === null ? "" : `: ${refusal.why}`}.`;
      return {
        status: 400,
        type: invalidRequest,
        code: "invalid_request",
        message,
        param: refusal.fields[0]?.replace(toolType, "") ?? null,
      };
    }
    case "invalid_api_key":
      return { status: 401, type: invalidRequest, code, message: refusal.message };
    case "budget_exceeded":
      return withAffordable(budgetExceeded(refusal.shortage, refusal.scopeName, refusal.running ?? false), refusal);
    case "budget_held":
      return withAffordable(budgetHeld(refusal.shortage, refusal.scopeName), refusal);
    case "model_not_allowed":
      return {
        status: 403,
        type: invalidRequest,
        code,
        message: `This key may not use the model ${refusal.model}.`,
        param: "model",
      };
    case "read_only":
      return {
        status: 403,
        type: invalidRequest,
        code,
        message: "This is a viewer's token, which may not change anything.",
      };
    case "admin_refused":
      return adminRefused(refusal.message, refusal.retryAfterSeconds);
    case "conflict":
      return { status: 409, type: invalidRequest, code, message: refusal.message };
    case "method_not_allowed": {
      const allow = refusal.allow.join(", ");
      return {
        status: 405,
        type: invalidRequest,
        code,
        message: `This path takes ${allow}.`,
        headers: [["allow", allow]],
      };
    }
    case "unsupported_media_type":
      return {
        status: 415,
        type: invalidRequest,
        code,
        message: `The body must be JSON with content-type application/json; it was '${refusal.contentType}'.`,
      };
    case "cross_site":
      return { status: 403, type: invalidRequest, code, message: refusal.session ? ownPageOnly : otherSite };
    case "not_found":
      return { status: 404, type: invalidRequest, code, message: refusal.message };
    case "request_too_large":
      return {
        status: 413,
        type: invalidRequest,
        code,
        message: `The request body is larger than the ${refusal.limitBytes} bytes that ${refusal.setting === null ? "are allowed here" : "FAREBOX_BODY_LIMIT allows"}.`,
      };
    case "request_timeout":
      return { status: 408, type: invalidRequest, code, message: "The request did not arrive in time." };
    case "unsupported_encoding":
      return {
        status: 415,
        type: invalidRequest,
        code,
        message: `The request body must not be encoded; content-encoding was '${refusal.encoding}'.`,
      };
    case "websocket_unsupported":
      // Clients that try a WebSocket first, as Codex does, go on over HTTP after this status at once.
      return {
        status: 426,
        type: invalidRequest,
        code,
        message: "Farebox speaks no WebSocket; send the request over HTTP, with 'stream': true for events.",
        headers: [
          ["upgrade", "HTTP/1.1"],
          ["connection", "upgrade, close"],
        ],
      };
    case "unknown_host":
      return {
        status: 421,
        type: invalidRequest,
        code,
        message: `This proxy listens on loopback only and does not answer for the host '${refusal.host}'.`,
      };
    case "concurrency_limit":
      if ("family" in refusal.met) return ceilingMet(refusal.met, refusal.retryAfterSeconds);
      return limitMet(code, refusal.met, refusal.retryAfterSeconds);
    case "rate_limit_exceeded":
      return limitMet(code, refusal.met, refusal.retryAfterSeconds);
    case "gateway_unreachable":
    case "gateway_stream_broken":
      return { status: 502, type: gatewayTrouble, code, message: refusal.message };
    case "gateway_redirect":
      return {
        status: 502,
        type: gatewayTrouble,
        code,
        message: "The gateway redirected to another address, which is not followed.",
      };
    case "gateway_timeout":
      return {
        status: 504,
        type: gatewayTrouble,
        code,
        message: `The gateway sent nothing for ${refusal.timeoutMs / 1000} s.`,
      };
    case "ledger_unavailable":
      return unavailable(
        code,
        refusal.running === true
          ? "The ledger cannot be written, so this stream cannot continue."
          : "The ledger cannot be written, so nothing was forwarded.",
      );
    case "balance_floor":
      return unavailable(code, "The gateway's balance is under FAREBOX_BALANCE_FLOOR, so nothing was forwarded.");
    case "overloaded":
      return unavailable(code, refusal.message);
    case "internal_error":
      return { status: 500, type: gatewayTrouble, code, message: "Farebox failed on this request; its log says how." };
    default:
      return assertNever(refusal);
  }
}

/** The type of a tool behind its place: "tools[3] (web_search)". */
const toolType = / \(\w+\)$/;

function quoted(field: string): string {
  return toolType.test(field) ? field : `'${field}'`;
}

/** A wrong admin token, or too many of them: 401 or 429. */
function adminRefused(message: string, retryAfterSeconds: number | null): ErrorParams {
  if (retryAfterSeconds === null) {
    return {
      status: 401,
      type: invalidRequest,
      code: "invalid_api_key",
      message,
      headers: [["www-authenticate", "Bearer"]],
    };
  }
  return {
    status: 429,
    type: "rate_limit_error",
    code: "rate_limit_exceeded",
    message,
    headers: [["retry-after", String(retryAfterSeconds)]],
  };
}

function unavailable(code: string, message: string): ErrorParams {
  return { status: 503, type: gatewayTrouble, code, message, headers: [["retry-after", "1"]] };
}

function notPriced(refusal: Extract<Refusal, { code: "model_not_priced" }>): string {
  return refusal.underBudget
    ? `The model '${refusal.model}' has no price, so a key under a hard budget cannot use it.`
    : `The model '${refusal.model}' has no price, and FAREBOX_UNPRICED is 'refuse'.`;
}

/** The figures of the window at the instant of the refusal. */
function figures({ window, needed }: Shortage, scopeName: string): Record<string, string | null> {
  return {
    scope: scopeName,
    period: window.budget.period,
    limit_usd: formatUsd(window.budget.limit),
    spent_usd: formatUsd(window.spent),
    held_usd: formatUsd(window.held),
    needed_usd: formatUsd(needed),
    resets_at: window.end === null ? null : isoTime(window.end),
  };
}

const periodWords: Readonly<Record<Period, string>> = {
  total: "in all",
  "1h": "an hour",
  "1d": "a day",
  "1w": "a week",
  "1mo": "a month",
};

/** Returns the name of a budget for those it limits: its owner, and its name for `farebox budgets`. */
function nameOfBudget({ window: { budget } }: Shortage, scopeName: string): string {
  return `The budget ${owner(budget.scope, scopeName)} (${scopeName}, ${formatUsd(budget.limit)} USD ${periodWords[budget.period]})`;
}

function owner(scope: Scope, scopeName: string): string {
  switch (scope.kind) {
    case "all":
      return "of all keys together";
    case "team":
      return `of team ${scope.team}`;
    case "key":
      return scope.session === undefined
        ? `of key ${scopeName.slice("key:".length)}`
        : `of this session of key ${scopeName.slice("key:".length, scopeName.indexOf(" "))}`;
    case "eachKey":
      return scope.team === null
        ? "that each key has for itself"
        : `that each key of team ${scope.team} has for itself`;
  }
}

/** Returns the unspent amount, at least 0. */
function unspent({ window }: Shortage): string {
  return formatUsd(larger(noMoney, subtract(window.budget.limit, window.spent)));
}

function budgetExceeded(shortage: Shortage, scopeName: string, running: boolean): ErrorParams {
  const { spent, held, end } = shortage.window;
  const left = running
    ? `cannot pay for more of this stream: ${formatUsd(spent)} USD are spent and ${formatUsd(held)} USD held`
    : `has ${unspent(shortage)} USD left, and this request can cost up to ${formatUsd(shortage.needed)} USD`;
  const message = `${nameOfBudget(shortage, scopeName)} ${left}. It ${end === null ? "never resets" : `resets at ${isoTime(end)}`}.`;
  return {
    status: 402,
    type: "insufficient_quota",
    code: "budget_exceeded",
    message,
    metadata: figures(shortage, scopeName),
    headers: [["x-should-retry", "false"]],
  };
}

function budgetHeld(shortage: Shortage, scopeName: string): ErrorParams {
  const { window, needed } = shortage;
  const message =
    `${nameOfBudget(shortage, scopeName)} has ${unspent(shortage)} USD left and ${formatUsd(window.held)} USD are held by ` +
    `running requests; this request can cost up to ${formatUsd(needed)} USD and fits once they have settled.`;
  return {
    status: 429,
    type: "rate_limit_error",
    code: "budget_held",
    message,
    metadata: figures(shortage, scopeName),
    headers: [["retry-after", "1"]],
  };
}

/** Adds the output that would fit now. */
function withAffordable(error: ErrorParams, { affordable }: { readonly affordable?: Affordable }): ErrorParams {
  if (affordable === undefined) return error;
  const { tokens, field } = affordable;
  const message =
    tokens === 0 ? error.message : `${error.message} To fit now, set ${field ?? "max_tokens"} to at most ${tokens}.`;
  return { ...error, message, metadata: { ...error.metadata, affordable_output_tokens: tokens } };
}

const otherSite =
  "A web page of another site may not call this proxy. FAREBOX_CORS_ORIGINS names the origins that may.";
const ownPageOnly =
  "Session cookies change something from the dashboard page only: send its Origin and the header x-farebox-dashboard: 1.";

const limitUnits = {
  rpm: "requests per minute",
  tpm: "tokens per minute",
  parallel: "requests at the same time",
} as const;

function limitMet(code: string, { scope, kind, limit, needed }: LimitMet, retryAfterSeconds: number): ErrorParams {
  const [owner = "", name = ""] = scope.split(":");
  const whose = `The limit of ${owner} ${name}, ${limit} ${limitUnits[kind]},`;
  const message =
    needed === null
      ? `${whose} is reached; try again in ${retryAfterSeconds} s.`
      : `${whose} is below the ${needed} tokens of this request's prompt alone.`;
  const never: ErrorParams["headers"] = needed === null ? [] : [["x-should-retry", "false"]];
  return {
    status: 429,
    type: "rate_limit_error",
    code,
    message,
    metadata: { scope, limit: kind, value: String(limit) },
    headers: [["retry-after", String(retryAfterSeconds)], ...never],
  };
}

function ceilingMet({ family, limit }: CeilingMet, retryAfterSeconds: number): ErrorParams {
  const of = family === "all" ? "" : ` of the family ${family}`;
  const message = `The gateway's account may run ${limit} task${limit === 1 ? "" : "s"}${of} at once; this limit is reached, so try again in ${retryAfterSeconds} s.`;
  return {
    status: 429,
    type: "rate_limit_error",
    code: "concurrency_limit",
    message,
    metadata: { scope: "account", family, limit: "tasks", value: String(limit) },
    headers: [["retry-after", String(retryAfterSeconds)]],
  };
}

function isoTime(at: number): string {
  return new Date(at).toISOString();
}
