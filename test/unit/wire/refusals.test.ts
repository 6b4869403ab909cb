import { describe, expect, it } from "vitest";
import { usd, type PicoUsd } from "../../../src/core/money.ts";
import type { Period, Scope, Shortage } from "../../../src/core/budget.ts";
import type { Refusal, RefusalCode } from "../../../src/core/refusals.ts";
import { refusalAnswer, refusalEvent, refusalStatus } from "../../../src/wire/refusals.ts";

const shortage: Shortage = {
  window: {
    budget: {
      id: "b",
      scope: { kind: "key", key: "k1" },
      period: "1d",
      mode: "hard",
      limit: usd("1.00"),
      warnPercent: null,
    },
    subject: "",
    start: Date.parse("2026-11-20T00:00:00Z"),
    end: Date.parse("2026-11-21T00:00:00Z"),
    spent: usd("0.75"),
    held: usd("0.20"),
  },
  needed: usd("0.30"),
  exhausted: true,
};
const metadata = {
  scope: "key:alice",
  period: "1d",
  limit_usd: "1.00",
  spent_usd: "0.75",
  held_usd: "0.20",
  needed_usd: "0.30",
  resets_at: "2026-11-21T00:00:00.000Z",
};

interface Expected {
  readonly refusal: Refusal;
  readonly status: number;
  readonly type?: string;
  /** Code where it differs from the refusal's own. */
  readonly code?: string;
  readonly param?: string;
  readonly headers?: Record<string, string>;
  readonly metadata?: object;
}

const trouble = "api_error";
const cases: { readonly [Code in RefusalCode]: Expected } = {
  invalid_json: { refusal: { code: "invalid_json", message: "x" }, status: 400 },
  invalid_request: { refusal: { code: "invalid_request", message: "x", param: "n" }, status: 400, param: "n" },
  model_not_priced: {
    refusal: { code: "model_not_priced", model: "m", underBudget: false },
    status: 400,
    param: "model",
  },
  cost_not_bounded: {
    refusal: { code: "cost_not_bounded", model: "m", fields: ["plugins", "tools"], why: null },
    status: 400,
    code: "invalid_request",
    param: "plugins",
  },
  invalid_api_key: { refusal: { code: "invalid_api_key", message: "x" }, status: 401 },
  budget_exceeded: {
    refusal: { code: "budget_exceeded", shortage, scopeName: "key:alice" },
    status: 402,
    type: "insufficient_quota",
    headers: { "x-should-retry": "false" },
    metadata,
  },
  budget_held: {
    refusal: { code: "budget_held", shortage, scopeName: "key:alice" },
    status: 429,
    type: "rate_limit_error",
    headers: { "retry-after": "1" },
    metadata,
  },
  model_not_allowed: { refusal: { code: "model_not_allowed", model: "m" }, status: 403, param: "model" },
  admin_refused: {
    refusal: { code: "admin_refused", message: "x", retryAfterSeconds: null },
    status: 401,
    code: "invalid_api_key",
    headers: { "www-authenticate": "Bearer" },
  },
  conflict: { refusal: { code: "conflict", message: "x" }, status: 409 },
  method_not_allowed: {
    refusal: { code: "method_not_allowed", allow: ["GET", "PUT"] },
    status: 405,
    headers: { allow: "GET, PUT" },
  },
  unsupported_media_type: { refusal: { code: "unsupported_media_type", contentType: "text/plain" }, status: 415 },
  read_only: { refusal: { code: "read_only" }, status: 403 },
  cross_site: { refusal: { code: "cross_site", origin: "https://evil.example" }, status: 403 },
  not_found: { refusal: { code: "not_found", message: "x" }, status: 404 },
  request_too_large: { refusal: { code: "request_too_large", limitBytes: 5 }, status: 413 },
  request_timeout: { refusal: { code: "request_timeout" }, status: 408 },
  websocket_unsupported: {
    refusal: { code: "websocket_unsupported" },
    status: 426,
    headers: { upgrade: "HTTP/1.1", connection: "upgrade, close" },
  },
  unsupported_encoding: { refusal: { code: "unsupported_encoding", encoding: "gzip" }, status: 415 },
  unknown_host: { refusal: { code: "unknown_host", host: 'a"b' }, status: 421 },
  rate_limit_exceeded: {
    refusal: {
      code: "rate_limit_exceeded",
      met: { scope: "key:alice", kind: "rpm", limit: 60, needed: null },
      retryAfterSeconds: 7,
    },
    status: 429,
    type: "rate_limit_error",
    headers: { "retry-after": "7" },
    metadata: { scope: "key:alice", limit: "rpm", value: "60" },
  },
  concurrency_limit: {
    refusal: {
      code: "concurrency_limit",
      met: { scope: "team:red", kind: "parallel", limit: 2, needed: null },
      retryAfterSeconds: 1,
    },
    status: 429,
    type: "rate_limit_error",
    headers: { "retry-after": "1" },
    metadata: { scope: "team:red", limit: "parallel", value: "2" },
  },
  gateway_unreachable: { refusal: { code: "gateway_unreachable", message: "x" }, status: 502, type: trouble },
  gateway_redirect: { refusal: { code: "gateway_redirect" }, status: 502, type: trouble },
  gateway_timeout: { refusal: { code: "gateway_timeout", timeoutMs: 600_000 }, status: 504, type: trouble },
  gateway_stream_broken: { refusal: { code: "gateway_stream_broken", message: "x" }, status: 502, type: trouble },
  ledger_unavailable: {
    refusal: { code: "ledger_unavailable" },
    status: 503,
    type: trouble,
    headers: { "retry-after": "1" },
  },
  balance_floor: { refusal: { code: "balance_floor" }, status: 503, type: trouble, headers: { "retry-after": "1" } },
  overloaded: {
    refusal: { code: "overloaded", message: "x" },
    status: 503,
    type: trouble,
    headers: { "retry-after": "1" },
  },
  internal_error: { refusal: { code: "internal_error" }, status: 500, type: trouble },
};

describe("a refusal", () => {
  it.each(Object.values(cases))(
    "of $refusal.code leaves with $status, OpenAI's shape and its headers",
    ({ refusal, status, type, code, param, headers, metadata }) => {
      const answer = refusalAnswer(refusal);
      const stated = code ?? refusal.code;
      expect(answer.status).toBe(status);
      expect(refusalStatus(refusal)).toBe(status);
      expect(Object.fromEntries(answer.headers)).toEqual({
        "content-type": "application/json",
        "x-farebox-error": stated,
        ...headers,
      });
      expect(JSON.parse(answer.body)).toEqual({
        error: {
          message: expect.stringMatching(/./),
          type: type ?? "invalid_request_error",
          param: param ?? null,
          code: stated,
          ...(metadata && { metadata }),
        },
      });
      expect(refusalEvent(refusal)).toBe(`data: ${answer.body}\n\n`);
    },
  );

  it("of a budget that is overspent has nothing left, not less", () => {
    const overspent = { ...shortage, window: { ...shortage.window, spent: usd("1.50"), end: null } };
    const { error } = JSON.parse(
      refusalAnswer({ code: "budget_exceeded", shortage: overspent, scopeName: "all" }).body,
    ) as { error: { message: string; metadata: object } };
    expect(error.message).toContain("has 0.00 USD left");
    expect(error.metadata).toMatchObject({ scope: "all", spent_usd: "1.50", resets_at: null });
  });

  const named: [Scope, string, Period, string][] = [
    [{ kind: "all" }, "all", "1h", "The budget of all keys together (all, 1.00 USD an hour)"],
    [{ kind: "team", team: "red" }, "team:red", "1d", "The budget of team red (team:red, 1.00 USD a day)"],
    [{ kind: "key", key: "k1" }, "key:alice", "1w", "The budget of key alice (key:alice, 1.00 USD a week)"],
    [
      { kind: "eachKey", team: null },
      "each-key",
      "1mo",
      "The budget that each key has for itself (each-key, 1.00 USD a month)",
    ],
    [
      { kind: "eachKey", team: "red" },
      "each-key:red",
      "total",
      "The budget that each key of team red has for itself (each-key:red, 1.00 USD in all)",
    ],
  ];
  it.each(named)(
    "of a budget of %j says whose it is, what is left and when it resets",
    (scope, scopeName, period, text) => {
      const { window } = shortage;
      const its: Shortage = {
        ...shortage,
        window: { ...window, budget: { ...window.budget, scope, period }, end: period === "total" ? null : window.end },
      };
      const messageOf = (code: "budget_exceeded" | "budget_held") =>
        (JSON.parse(refusalAnswer({ code, shortage: its, scopeName }).body) as { error: { message: string } }).error
          .message;
      const reset = period === "total" ? "It never resets." : "It resets at 2026-11-21T00:00:00.000Z.";
      expect(messageOf("budget_exceeded")).toBe(
        `${text} has 0.25 USD left, and this request can cost up to 0.30 USD. ${reset}`,
      );
      expect(messageOf("budget_held")).toBe(
        `${text} has 0.25 USD left and 0.20 USD are held by running requests; this request can cost up to 0.30 USD and fits once they have settled.`,
      );
    },
  );

  it("in the middle of a stream says that it cannot continue, with the same code, figures and shape", () => {
    const running = { code: "budget_exceeded", shortage, scopeName: "key:alice", running: true } as const;
    expect(JSON.parse(refusalEvent(running).slice("data: ".length))).toEqual({
      error: {
        message:
          "The budget of key alice (key:alice, 1.00 USD a day) cannot pay for more of this stream: 0.75 USD are spent and 0.20 USD held. It resets at 2026-11-21T00:00:00.000Z.",
        type: "insufficient_quota",
        param: null,
        code: "budget_exceeded",
        metadata,
      },
    });
    expect(refusalEvent({ code: "ledger_unavailable", running: true })).toContain("this stream cannot continue");
  });

  it("states money to its last digit", () => {
    const tiny = { ...shortage, needed: 1n as PicoUsd };
    expect(refusalAnswer({ code: "budget_held", shortage: tiny, scopeName: "all" }).body).toContain(
      '"needed_usd":"0.000000000001"',
    );
  });
});
