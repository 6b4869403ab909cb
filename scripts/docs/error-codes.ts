import { everyRequest } from "../../src/core/scope.ts";
import type { Shortage } from "../../src/core/budget.ts";
import { usd } from "../../src/core/money.ts";
import type { ExceededRateLimit } from "../../src/core/rate-limits.ts";
import type { Refusal, RefusalCode } from "../../src/core/refusals.ts";
import { refusalAnswer } from "../../src/wire/refusals.ts";
import { code, table } from "./markdown.ts";

const shortage: Shortage = {
  window: {
    budget: { id: "", scope: everyRequest, period: "1d", mode: "hard", limit: usd("1.00"), warnPercent: null },
    subject: "",
    start: 0,
    end: null,
    spent: usd("1.00"),
    held: usd("0.00"),
    raises: [],
  },
  needed: usd("0.30"),
  exhausted: true,
};
const exceeded: ExceededRateLimit = { scope: "key:alice", kind: "rpm", limit: 60, needed: null };
const message = "";

interface Explained<Code extends RefusalCode> {
  /** Example of a refusal with this code, from which the table gets status and headers. */
  readonly refusal: Extract<Refusal, { code: Code }>;
  readonly meaning: string;
  readonly advice: string;
}

const explained: { readonly [Code in RefusalCode]: Explained<Code> } = {
  invalid_json: {
    refusal: { code: "invalid_json", message },
    meaning: "The body is not JSON, or two readers could understand it differently.",
    advice: "Send one JSON object, each member once.",
  },
  invalid_request: {
    refusal: { code: "invalid_request", message, param: null },
    meaning: "Something in the request is missing, malformed or refused; `param` names it.",
    advice: "Change what the message names.",
  },
  model_not_priced: {
    refusal: { code: "model_not_priced", model: "", hardBudget: true },
    meaning: "The model has no price, and the key is under a hard budget or `FAREBOX_UNPRICED` is `refuse`.",
    advice:
      "Use the model that the message suggests or one of `farebox prices list`, or [add a price](prices.md#prices-of-your-own).",
  },
  cost_not_bounded: {
    refusal: { code: "cost_not_bounded", model: "", fields: [""], why: null },
    meaning:
      "Under a hard budget, the request has a field or tool whose cost Farebox cannot bound. The metric counts it as `cost_not_bounded`.",
    advice:
      "Leave out what the message names ([fields that change the price](endpoints.md#fields-that-change-the-price)).",
  },
  invalid_api_key: {
    refusal: { code: "invalid_api_key", message },
    meaning: "The key is missing, unknown, suspended, revoked or expired, or the request has two different keys.",
    advice: "`farebox keys list` shows a key's state; `farebox keys create` creates a key.",
  },
  budget_exceeded: {
    refusal: { code: "budget_exceeded", shortage, scopeName: "all", subjectName: null, showsAmounts: true },
    meaning:
      "A hard budget cannot pay for the highest possible cost of the request. In a stream: the budget cannot pay for more output.",
    advice:
      "Set the maximum output to `metadata.affordable_output_tokens`, wait for `metadata.resets_at`, or [raise the budget](budgets.md).",
  },
  budget_held: {
    refusal: { code: "budget_held", shortage, scopeName: "all", subjectName: null, showsAmounts: true },
    meaning: "The budget can pay for the request once requests in flight have settled.",
    advice: "Retry after `retry-after`.",
  },
  model_not_allowed: {
    refusal: { code: "model_not_allowed", model: "" },
    meaning: "The request names a model that the key or its team may not use.",
    advice: "`farebox keys update NAME --models …`, or request another model.",
  },
  read_only: {
    refusal: { code: "read_only" },
    meaning: "The admin token is a viewer's.",
    advice: "Use an editor's token ([tokens](admin-api.md#tokens)).",
  },
  admin_refused: {
    refusal: { code: "admin_refused", message, retryAfterSeconds: null },
    meaning:
      "Admin API: no valid token. After many failures from one address it is 429 `rate_limit_exceeded`. The metric counts it as `admin_refused`.",
    advice: "Check `farebox admins list`; an internal key gives no access here.",
  },
  conflict: {
    refusal: { code: "conflict", message },
    meaning:
      "The object exists already or is in use, or the request contradicts an earlier one with the same idempotency key.",
    advice: "Follow the message.",
  },
  method_not_allowed: {
    refusal: { code: "method_not_allowed", allow: ["GET"] },
    meaning: "The path does not have this method.",
    advice: "Use a method in the header `allow`.",
  },
  unsupported_media_type: {
    refusal: { code: "unsupported_media_type", contentType: "" },
    meaning: "The body is not declared as JSON.",
    advice: "Send `content-type: application/json`.",
  },
  cross_site: {
    refusal: { code: "cross_site", origin: null },
    meaning: "The request comes from a web page of another origin.",
    advice: "Add the origin to `FAREBOX_CORS_ORIGINS`.",
  },
  not_found: {
    refusal: { code: "not_found", message },
    meaning: "The path, task or charge does not exist, or belongs to another key.",
    advice:
      "Follow the message: it names the cause or the nearest path ([endpoints](endpoints.md)). `FAREBOX_PASSTHROUGH=all` also forwards other paths.",
  },
  request_too_large: {
    refusal: { code: "request_too_large", limitBytes: 1 },
    meaning: "The body is larger than `FAREBOX_BODY_LIMIT`, before or after it is decoded.",
    advice: "Send less, or raise the setting ([larger files](endpoints.md#uploads)).",
  },
  request_timeout: {
    refusal: { code: "request_timeout" },
    meaning: "Less than 1 kB, or less than a twentieth of the body, arrived within a minute.",
    advice: "Check the network and any proxy in front of Farebox.",
  },
  unsupported_encoding: {
    refusal: { code: "unsupported_encoding", encoding: "gzip" },
    meaning: "The body has an encoding other than `zstd`, `gzip`, `deflate` and `br`, or several.",
    advice: "Send it with one of these encodings, or without `content-encoding`.",
  },
  websocket_unsupported: {
    refusal: { code: "websocket_unsupported" },
    meaning: "The client requested a WebSocket.",
    advice: "Use HTTP with `stream: true`; Codex does so automatically.",
  },
  unknown_host: {
    refusal: { code: "unknown_host", host: "" },
    meaning: "Farebox listens on loopback, but the header `Host` has another name.",
    advice:
      "Use `127.0.0.1` or `localhost`; behind a [reverse proxy](deploy.md#behind-a-reverse-proxy) set the header `Host`.",
  },
  rate_limit_exceeded: {
    refusal: { code: "rate_limit_exceeded", exceeded, retryAfterSeconds: 1 },
    meaning: "A limit of requests or tokens per minute is reached; `metadata` names the limit.",
    advice: "Retry after `retry-after`. With `x-should-retry: false` the prompt alone is above the limit.",
  },
  concurrency_limit: {
    refusal: { code: "concurrency_limit", exceeded: { ...exceeded, kind: "parallel" }, retryAfterSeconds: 1 },
    meaning: "Too many parallel requests of the key or team, or tasks of the account.",
    advice: "Retry after one of them has ended.",
  },
  too_many_subjects: {
    refusal: { code: "too_many_subjects" },
    meaning:
      "The key has named more new users, tag values or models today than `FAREBOX_SUBJECTS_MAX`, under a budget for each of them.",
    advice: "Use names that the key has used before, or raise the setting.",
  },
  gateway_unreachable: {
    refusal: { code: "gateway_unreachable", message },
    meaning:
      "No connection to the gateway (costs nothing); or a plain answer that broke off, or a [reused connection](guarantees.md#how-an-amount-is-known) that the gateway closed before it answered (both charged at their hold, `assumed`).",
    advice: "`farebox doctor` names the cause: name, port or certificate.",
  },
  gateway_key_refused: {
    refusal: { code: "gateway_key_refused" },
    meaning:
      "The gateway refuses the key of this proxy ([which answers mean this](gateways.md#the-gateways-key)). The client's own key is right.",
    advice: "The operator must check `FAREBOX_GATEWAY_API_KEY` (`farebox doctor`).",
  },
  gateway_redirect: {
    refusal: { code: "gateway_redirect" },
    meaning: "The gateway redirected to another origin, which is not followed.",
    advice: "Set `FAREBOX_GATEWAY_URL` to the address that the gateway answers on.",
  },
  gateway_timeout: {
    refusal: { code: "gateway_timeout", timeoutMs: 1000 },
    meaning: "The gateway was silent for `FAREBOX_GATEWAY_TIMEOUT`. Charged at its hold, `assumed`.",
    advice: "Raise the setting for slow models.",
  },
  gateway_stream_broken: {
    refusal: { code: "gateway_stream_broken", message },
    meaning: "In a stream: the gateway cut it before its end. The delivered part is charged (`partial`).",
    advice: "Send the request again. If it happens often, ask the gateway's operator.",
  },
  ledger_unavailable: {
    refusal: { code: "ledger_unavailable" },
    meaning:
      "The ledger cannot be read or written, so nothing is forwarded; or it cannot record an answer of the gateway, which is withheld.",
    advice: "Follow [the ledger's disk](troubleshooting.md#the-ledgers-disk). Farebox continues without a restart.",
  },
  balance_floor: {
    refusal: { code: "balance_floor" },
    meaning: "The gateway's balance is under `FAREBOX_BALANCE_FLOOR`.",
    advice: "Top up the account, or lower the floor.",
  },
  overloaded: {
    refusal: { code: "overloaded", message },
    meaning:
      "Bodies in memory reached `FAREBOX_BODY_MEMORY` for 5 s, or the key used more than a quarter of it while other keys waited, or Farebox is shutting down.",
    advice: "Retry; raise the setting if it happens under normal load.",
  },
  internal_error: {
    refusal: { code: "internal_error" },
    meaning: "A bug.",
    advice: "Report the log line with this `x-farebox-request-id`.",
  },
};

/** Returns a table of all refusals, by status. Status, code and type come from real refusals. */
export function errorCodesTable(): string {
  const rows = Object.values(explained).map(({ refusal, meaning, advice }) => {
    const { status, headers, body } = refusalAnswer(refusal);
    const { error } = JSON.parse(body) as { error: { code: string; type: string } };
    const never = headers.some(([name, value]) => name === "x-should-retry" && value === "false");
    return {
      status,
      cells: [
        code(error.code),
        String(status),
        code(error.type),
        meaning,
        never ? `${advice} Not retried by SDKs.` : advice,
      ],
    };
  });
  return table(
    ["`x-farebox-error`", "status", "`error.type`", "meaning", "what to do"],
    rows.toSorted((a, b) => a.status - b.status).map(({ cells }) => cells),
  );
}
