import { formatUsd, larger, noMoney, subtract } from "../core/money.ts";
import { isoTime, isoTimeOrNull } from "../core/time.ts";
import { limitOf, type Period, type Shortage } from "../core/budget.ts";
import { isOfSession, keyOfScope, parseScope, type Condition, type Dimension, type Scope } from "../core/scope.ts";
import type { ExceededRateLimit } from "../core/rate-limits.ts";
import type { ExceededCeiling } from "../core/tasks.ts";
import type { Affordable, BudgetRefusal, Refusal } from "../core/refusals.ts";

/** Answer to a refused request. Its body has OpenAI's error format with all four fields, and `metadata` for figures. */
export interface RefusalAnswer {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
}

interface ErrorParams {
  readonly status: number;
  readonly message: string;
  /** Code of the error; the refusal's code by default. */
  readonly code?: string;
  readonly param?: string | null;
  readonly metadata?: Readonly<Record<string, string | number | null>>;
  readonly headers?: readonly (readonly [string, string])[];
}

/** Returns the whole answer to a refused request. */
export function refusalAnswer(refusal: Refusal): RefusalAnswer {
  const error = errorOf(refusal);
  return {
    status: error.status,
    headers: [["content-type", "application/json"], ["x-farebox-error", error.code], ...(error.headers ?? [])],
    body: JSON.stringify(errorObject(error)),
  };
}

/**
 * Returns the event that ends a broken stream. Without the event, clients would mistake the stream for a complete
 * answer.
 */
export function refusalEvent(refusal: Refusal): string {
  return `data: ${JSON.stringify(errorObject(errorOf(refusal)))}\n\n`;
}

/**
 * Returns the error event for a stream with typed events. The event also contains the error object of `refusalEvent`.
 */
export function typedRefusalEvent(refusal: Refusal): string {
  const error = errorOf(refusal);
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
 * Returns the events that end a stream of the Responses API. Codex shows a `response.failed` with `invalid_prompt`, and
 * does not retry. The official SDKs raise the error event, which has Farebox's code.
 */
export function failedResponseEvents(refusal: Refusal): string {
  const { message } = errorOf(refusal);
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

function errorObject({ status, message, code, param, metadata }: WholeError): object {
  return { error: { message, type: typeOf(status), param: param ?? null, code, ...(metadata && { metadata }) } };
}

/** Returns the error type that OpenAI uses with a status. */
function typeOf(status: number): string {
  if (status >= 500) return "api_error";
  return status === 402 ? "insufficient_quota" : status === 429 ? "rate_limit_error" : "invalid_request_error";
}

export type WholeError = ErrorParams & { readonly code: string };

/** Returns status, message, headers and details of the answer to a refusal. */
export function errorOf(refusal: Refusal): WholeError {
  const answer = answers[refusal.code] as (refusal: Refusal) => ErrorParams;
  return { code: refusal.code, ...answer(refusal) };
}

/** Status, message and details of the answer to each kind of refusal, by its code. */
const answers: { readonly [Code in Refusal["code"]]: (refusal: Refusal & { readonly code: Code }) => ErrorParams } = {
  invalid_json: (refusal) => ({ status: 400, message: refusal.message }),
  invalid_request: (refusal) => ({ status: 400, message: refusal.message, param: refusal.param }),
  model_not_priced: (refusal) => ({ status: 400, message: notPriced(refusal), param: "model" }),
  cost_not_bounded: (refusal) => {
    const message = `${refusal.fields.map(quoted).join(", ")} can cost more than Farebox can bound for ${refusal.model}, so a key under a hard budget cannot use it${refusal.why === null ? "" : `: ${refusal.why}`}.`;
    return { status: 400, code: "invalid_request", message, param: refusal.fields[0]?.replace(toolType, "") ?? null };
  },
  invalid_api_key: (refusal) => ({ status: 401, message: refusal.message, headers: [noRetry] }),
  budget_exceeded: (refusal) => withAffordable(budgetExceeded(refusal), refusal),
  budget_held: (refusal) => withAffordable(budgetHeld(refusal), refusal),
  model_not_allowed: (refusal) => ({
    status: 403,
    message: `This key may not use the model ${refusal.model}.${didYouMean(refusal)}`,
    param: "model",
  }),
  read_only: () => ({ status: 403, message: "A viewer's token may not change anything; use an editor's token." }),
  admin_refused: (refusal) => adminRefused(refusal.message, refusal.retryAfterSeconds),
  conflict: (refusal) => ({ status: 409, message: refusal.message, headers: [noRetry] }),
  method_not_allowed: (refusal) => {
    const allow = refusal.allow.join(", ");
    return { status: 405, message: `This path accepts ${allow}.`, headers: [["allow", allow]] };
  },
  unsupported_media_type: (refusal) => ({
    status: 415,
    message: `The body must be JSON with content-type application/json; it was '${refusal.contentType}'.`,
  }),
  cross_site: (refusal) => ({ status: 403, message: refusal.session ? ownPageOnly : otherSite }),
  not_found: (refusal) => ({ status: 404, message: refusal.message }),
  request_too_large: (refusal) => ({
    status: 413,
    message: `The request body is larger ${refusal.isDecoded === true ? "when it is decoded " : ""}than the ${refusal.limitBytes} bytes that ${refusal.setting === null ? "are allowed here" : "FAREBOX_BODY_LIMIT allows"}.`,
  }),
  request_timeout: () => ({ status: 408, message: "The request did not arrive in time." }),
  unsupported_encoding: (refusal) => ({
    status: 415,
    message: `The request body may have one of the encodings gzip, deflate, br and zstd; content-encoding was '${refusal.encoding}'.`,
  }),
  // After this status, clients that try a WebSocket first, such as Codex, immediately continue over HTTP.
  websocket_unsupported: () => ({
    status: 426,
    message: "Farebox does not support WebSocket; send the request over HTTP, with 'stream': true for events.",
    headers: [
      ["upgrade", "HTTP/1.1"],
      ["connection", "upgrade, close"],
    ],
  }),
  unknown_host: (refusal) => ({
    status: 421,
    message: `This proxy listens on loopback only and does not answer for the host '${refusal.host}'; use 127.0.0.1 or localhost.`,
  }),
  concurrency_limit: (refusal) => {
    if ("family" in refusal.exceeded) return ceilingError(refusal.exceeded, refusal.retryAfterSeconds);
    return limitError(refusal.exceeded, refusal.retryAfterSeconds);
  },
  rate_limit_exceeded: (refusal) => limitError(refusal.exceeded, refusal.retryAfterSeconds),
  too_many_subjects: () => ({ status: 429, message: tooManySubjects, headers: [noRetry] }),
  gateway_unreachable: (refusal) => ({ status: 502, message: refusal.message }),
  gateway_stream_broken: (refusal) => ({ status: 502, message: refusal.message }),
  gateway_redirect: () => ({
    status: 502,
    message: "The gateway redirected to another address; Farebox did not follow the redirect.",
  }),
  gateway_key_refused: () => ({
    status: 502,
    message: "The gateway refuses the key of this proxy; its operator must check FAREBOX_GATEWAY_API_KEY.",
    headers: [noRetry],
  }),
  gateway_timeout: (refusal) => ({
    status: 504,
    message: `The gateway sent nothing for ${refusal.timeoutMs / 1000} s.`,
  }),
  ledger_unavailable: (refusal) => unavailable(ledgerMessage(refusal)),
  balance_floor: () => unavailable("The gateway's balance is under FAREBOX_BALANCE_FLOOR, so nothing was forwarded."),
  overloaded: (refusal) => unavailable(refusal.message),
  internal_error: () => ({ status: 500, message: "Farebox failed on this request; its log shows the reason." }),
};

/** Header that keeps SDKs and agents from sending a request again, because the answer would be the same. */
export const noRetry = ["x-should-retry", "false"] as const;

/**
 * Longest wait after which a client may send a request again, in seconds: a minute, and the second by which the windows
 * of limits round up.
 */
const retryAfterMax = 61;

/** Returns the headers of a refusal that ends after a while. `helps`: false if no wait makes the request succeed. */
function retryAfter(seconds: number, helps = true): readonly (readonly [string, string])[] {
  const stated = ["retry-after", String(seconds)] as const;
  return helps && seconds <= retryAfterMax ? [stated] : [stated, noRetry];
}

/** Matches the type of a tool after its position: "tools[3] (web_search)". */
const toolType = / \(\w+\)$/;

function quoted(field: string): string {
  return toolType.test(field) ? field : `'${field}'`;
}

/** Returns the error for a wrong admin token: 401, or 429 after too many attempts. */
function adminRefused(message: string, retryAfterSeconds: number | null): ErrorParams {
  if (retryAfterSeconds === null) {
    return { status: 401, code: "invalid_api_key", message, headers: [["www-authenticate", "Bearer"], noRetry] };
  }
  return { status: 429, code: "rate_limit_exceeded", message, headers: retryAfter(retryAfterSeconds) };
}

function ledgerMessage({ running, forwarded }: Extract<Refusal, { code: "ledger_unavailable" }>): string {
  if (running === true) return "The ledger cannot be written, so this stream cannot continue.";
  if (forwarded === true)
    return "The ledger cannot record the gateway's answer, so it is withheld; the gateway may bill the request.";
  return "The ledger cannot be read or written, so the request was not carried out.";
}

function unavailable(message: string): ErrorParams {
  return { status: 503, message, headers: [["retry-after", "1"]] };
}

function notPriced(refusal: Extract<Refusal, { code: "model_not_priced" }>): string {
  const suggestion = didYouMean(refusal);
  return refusal.hardBudget
    ? `The model '${refusal.model}' has no price, so a key under a hard budget cannot use it.${suggestion || " Check its name; 'farebox prices list' shows the models that have a price."}`
    : `The model '${refusal.model}' has no price, and FAREBOX_UNPRICED=refuse does not allow such models.${suggestion}`;
}

function didYouMean({ near }: { readonly near?: string }): string {
  return near === undefined ? "" : ` Did you mean '${near}'?`;
}

/** Returns the window's figures at the time of the refusal. Omits the amounts that the client may not see. */
function figures({ shortage, scopeName, subjectName, showsAmounts }: BudgetRefusal): Record<string, string | null> {
  const { window, needed } = shortage;
  return {
    scope: scopeName,
    subject: subjectName,
    period: window.budget.period,
    ...(showsAmounts && {
      limit_usd: formatUsd(limitOf(window)),
      spent_usd: formatUsd(window.spent),
      held_usd: formatUsd(window.held),
    }),
    needed_usd: formatUsd(needed),
    resets_at: isoTimeOrNull(window.end),
  };
}

const periodWords: Readonly<Record<Period, string>> = {
  total: "in total",
  "1h": "an hour",
  "1d": "a day",
  "1w": "a week",
  "1mo": "a month",
};

const periodAdjectives: Readonly<Record<Period, string>> = {
  total: "total",
  "1h": "hourly",
  "1d": "daily",
  "1w": "weekly",
  "1mo": "monthly",
};

/**
 * Returns a budget's description for its users: its owner, its name in `farebox budgets`, and its limit if the users
 * may see it.
 */
function budgetPhrase({ shortage, scopeName, showsAmounts }: BudgetRefusal): string {
  const { period } = shortage.window.budget;
  const whose = limitedPhrase(parseScope(scopeName) ?? shortage.window.budget.scope);
  return showsAmounts
    ? `The budget ${whose} (${scopeName}, ${formatUsd(limitOf(shortage.window))} USD ${periodWords[period]})`
    : `The ${periodAdjectives[period]} budget ${whose} (${scopeName})`;
}

/**
 * Returns a phrase that states whom a budget limits: "of key alice for models gpt-5*", "that each user of team research
 * has for itself".
 */
function limitedPhrase(scope: Scope): string {
  if (isOfSession(scope)) return `of this session of key ${keyOfScope(scope)}`;
  const { conditions } = scope;
  const conditionsOn = (dimension: Dimension) => conditions.filter((each) => each.dimension === dimension);
  const stated = (dimension: Dimension) => conditionsOn(dimension).find(({ value }) => value !== null)?.value;
  const labels = conditionsOn("label").map(({ name, value }) => `${name}=${value}`);
  const named = [
    ...(stated("key") === undefined ? [] : [`key ${stated("key")}`]),
    ...(labels.length === 0 ? [] : [`keys with label ${labels.join(" and ")}`]),
    ...(stated("team") === undefined ? [] : [`team ${stated("team")}`]),
  ].join(" of ");
  const requests = [...conditionsOn("model"), ...conditionsOn("user"), ...conditionsOn("tag")].flatMap(requestsOf);
  const members = [...conditionsOn("user"), ...conditionsOn("key")].flatMap(({ dimension, value }) =>
    value === null ? [`each ${dimension}`] : [],
  );
  const whose = [...members, ...(named === "" ? [] : [named])].join(" of ");
  const forRequests = requests.length === 0 ? "" : ` for ${requests.join(" and ")}`;
  if (members.length > 0) return `that ${whose} has${forRequests === "" ? " for itself" : forRequests}`;
  return `of ${whose === "" ? "all keys together" : whose}${forRequests}`;
}

/**
 * Returns a phrase for the requests that a condition selects, in a list. The list is empty for a condition on each
 * user, because `limitedPhrase` names it elsewhere in the phrase.
 */
function requestsOf({ dimension, name, value }: Condition): readonly string[] {
  if (dimension === "tag") return [value === null ? `each value of the tag ${name}` : `the tag ${name}=${value}`];
  if (dimension === "user") return value === null ? [] : [`user ${value}`];
  if (value === null) return ["each model"];
  return [`${value.includes("*") ? "models" : "model"} ${value}`];
}

/** Returns the unspent amount of a window in USD, at least 0. */
function unspent({ window }: Shortage): string {
  return formatUsd(larger(noMoney, subtract(limitOf(window), window.spent)));
}

function budgetExceeded(refusal: Extract<Refusal, { code: "budget_exceeded" }>): ErrorParams {
  const { shortage, showsAmounts, running = false, beforeBody = false } = refusal;
  const { spent, held, end } = shortage.window;
  const needed = `${formatUsd(shortage.needed)} USD`;
  const stateOfStream = showsAmounts
    ? `cannot pay for more of this stream: ${formatUsd(spent)} USD are spent and ${formatUsd(held)} USD held`
    : "cannot pay for more of this stream";
  const stateOfRequest = showsAmounts
    ? `has ${unspent(shortage)} USD left, and this request can cost up to ${needed}`
    : `cannot pay for this request, which can cost up to ${needed}`;
  const state = beforeBody ? "has nothing left" : running ? stateOfStream : stateOfRequest;
  const message = `${budgetPhrase(refusal)} ${state}. It ${end === null ? "never resets" : `resets at ${isoTime(end)}`}.`;
  const metadata = beforeBody ? { ...figures(refusal), needed_usd: null } : figures(refusal);
  return { status: 402, message, metadata, headers: [noRetry] };
}

function budgetHeld(refusal: BudgetRefusal): ErrorParams {
  const { shortage, showsAmounts } = refusal;
  const { window, needed } = shortage;
  const state = showsAmounts
    ? `has ${unspent(shortage)} USD left and ${formatUsd(window.held)} USD are held by running requests`
    : "has too little left while other requests run";
  const message =
    `${budgetPhrase(refusal)} ${state}; ` +
    `this request can cost up to ${formatUsd(needed)} USD and fits once they have settled.`;
  return { status: 429, message, metadata: figures(refusal), headers: [["retry-after", "1"]] };
}

/** Adds to an error the largest output that the budget can pay for now, in tokens. */
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
  "Session cookies may make changes only from the dashboard page: send its Origin and the header x-farebox-dashboard: 1.";

const tooManySubjects =
  "This key has named too many new users, tag values or models today (FAREBOX_SUBJECTS_MAX). Values that it named before still work.";

const limitUnits = {
  rpm: "requests per minute",
  free_rpm: "free requests per minute",
  tpm: "tokens per minute",
  parallel: "requests at the same time",
} as const;

function limitError({ scope, kind, limit, needed }: ExceededRateLimit, retryAfterSeconds: number): ErrorParams {
  const [owner = "", name = ""] = scope.split(":");
  const limitPhrase = `The limit of ${owner} ${name}, ${limit} ${limitUnits[kind]},`;
  const message =
    needed === null
      ? `${limitPhrase} is reached; try again in ${retryAfterSeconds} s.`
      : `${limitPhrase} is below the ${needed} tokens of this request's prompt alone.`;
  return {
    status: 429,
    message,
    metadata: { scope, limit: kind, value: String(limit) },
    headers: retryAfter(retryAfterSeconds, needed === null),
  };
}

function ceilingError({ family, limit }: ExceededCeiling, retryAfterSeconds: number): ErrorParams {
  const ofFamily = family === "all" ? "" : ` of the family ${family}`;
  const message = `The gateway's account may run ${limit} task${limit === 1 ? "" : "s"}${ofFamily} at once; this limit is reached, so try again in ${retryAfterSeconds} s.`;
  return {
    status: 429,
    message,
    metadata: { scope: "account", family, limit: "tasks", value: String(limit) },
    headers: retryAfter(retryAfterSeconds),
  };
}
