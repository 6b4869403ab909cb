import { describe, expect, it } from "vitest";
import { usd, type PicoUsd } from "../../../src/core/money.ts";
import type { Period, Shortage } from "../../../src/core/budget.ts";
import { readScope, type Scope, eachKeyScope, everyRequest, keyScope, teamScope } from "../../../src/core/scope.ts";
import type { Refusal, RefusalCode } from "../../../src/core/refusals.ts";
import { refusalAnswer, refusalEvent } from "../../../src/wire/refusals.ts";

const shortage: Shortage = {
  window: {
    budget: {
      id: "b",
      scope: keyScope("k1"),
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
    raises: [],
  },
  needed: usd("0.30"),
  exhausted: true,
};
const metadata = {
  scope: "key:alice",
  subject: null,
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
  /** Code in the answer, if it differs from the code of the refusal. */
  readonly code?: string;
  readonly param?: string;
  readonly headers?: Record<string, string>;
  readonly metadata?: object;
}

const apiError = "api_error";
const cases: { readonly [Code in RefusalCode]: Expected } = {
  invalid_json: { refusal: { code: "invalid_json", message: "x" }, status: 400 },
  invalid_request: { refusal: { code: "invalid_request", message: "x", param: "n" }, status: 400, param: "n" },
  model_not_priced: {
    refusal: { code: "model_not_priced", model: "m", hardBudget: false },
    status: 400,
    param: "model",
  },
  cost_not_bounded: {
    refusal: { code: "cost_not_bounded", model: "m", fields: ["plugins", "tools"], why: null },
    status: 400,
    code: "invalid_request",
    param: "plugins",
  },
  invalid_api_key: {
    refusal: { code: "invalid_api_key", message: "x" },
    status: 401,
    headers: { "x-should-retry": "false" },
  },
  budget_exceeded: {
    refusal: { code: "budget_exceeded", shortage, scopeName: "key:alice", subjectName: null, showsAmounts: true },
    status: 402,
    type: "insufficient_quota",
    headers: { "x-should-retry": "false" },
    metadata,
  },
  budget_held: {
    refusal: { code: "budget_held", shortage, scopeName: "key:alice", subjectName: null, showsAmounts: true },
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
    headers: { "www-authenticate": "Bearer", "x-should-retry": "false" },
  },
  conflict: { refusal: { code: "conflict", message: "x" }, status: 409, headers: { "x-should-retry": "false" } },
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
  unsupported_encoding: { refusal: { code: "unsupported_encoding", encoding: "compress" }, status: 415 },
  unknown_host: { refusal: { code: "unknown_host", host: 'a"b' }, status: 421 },
  rate_limit_exceeded: {
    refusal: {
      code: "rate_limit_exceeded",
      exceeded: { scope: "key:alice", kind: "rpm", limit: 60, needed: null },
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
      exceeded: { scope: "team:red", kind: "parallel", limit: 2, needed: null },
      retryAfterSeconds: 1,
    },
    status: 429,
    type: "rate_limit_error",
    headers: { "retry-after": "1" },
    metadata: { scope: "team:red", limit: "parallel", value: "2" },
  },
  too_many_subjects: {
    refusal: { code: "too_many_subjects" },
    status: 429,
    type: "rate_limit_error",
    headers: { "x-should-retry": "false" },
  },
  gateway_unreachable: { refusal: { code: "gateway_unreachable", message: "x" }, status: 502, type: apiError },
  gateway_redirect: { refusal: { code: "gateway_redirect" }, status: 502, type: apiError },
  gateway_key_refused: {
    refusal: { code: "gateway_key_refused" },
    status: 502,
    type: apiError,
    headers: { "x-should-retry": "false" },
  },
  gateway_timeout: { refusal: { code: "gateway_timeout", timeoutMs: 600_000 }, status: 504, type: apiError },
  gateway_stream_broken: { refusal: { code: "gateway_stream_broken", message: "x" }, status: 502, type: apiError },
  ledger_unavailable: {
    refusal: { code: "ledger_unavailable" },
    status: 503,
    type: apiError,
    headers: { "retry-after": "1" },
  },
  balance_floor: { refusal: { code: "balance_floor" }, status: 503, type: apiError, headers: { "retry-after": "1" } },
  overloaded: {
    refusal: { code: "overloaded", message: "x" },
    status: 503,
    type: apiError,
    headers: { "retry-after": "1" },
  },
  internal_error: { refusal: { code: "internal_error" }, status: 500, type: apiError },
};

describe("a refusal", () => {
  it.each(Object.values(cases))(
    "of $refusal.code has the status $status, OpenAI's format and its headers",
    ({ refusal, status, type, code, param, headers, metadata }) => {
      const answer = refusalAnswer(refusal);
      const stated = code ?? refusal.code;
      expect(answer.status).toBe(status);
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

  it.each([
    [61, undefined],
    [62, "false"],
  ])("that ends after %i s states whether a client may wait for it", (retryAfterSeconds, shouldRetry) => {
    const exceeded = { scope: "key:alice", kind: "rpm", limit: 60, needed: null } as const;
    for (const refusal of [
      { code: "rate_limit_exceeded", exceeded, retryAfterSeconds },
      { code: "concurrency_limit", exceeded: { family: "all", limit: 2 }, retryAfterSeconds },
      { code: "admin_refused", message: "x", retryAfterSeconds },
    ] as const) {
      const { status, headers } = refusalAnswer(refusal);
      const { "retry-after": wait, "x-should-retry": retry } = Object.fromEntries(headers);
      expect([status, wait, retry]).toEqual([429, String(retryAfterSeconds), shouldRetry]);
    }
  });

  it("a refused model is followed by a similar one", () => {
    const messageOf = (refusal: Refusal) =>
      (JSON.parse(refusalAnswer(refusal).body) as { error: { message: string } }).error.message;
    const refused = { model: "gpt-4oo", near: "gpt-4o" };
    expect(messageOf({ code: "model_not_priced", hardBudget: true, ...refused })).toBe(
      "The model 'gpt-4oo' has no price, so a key under a hard budget cannot use it. Did you mean 'gpt-4o'?",
    );
    expect(messageOf({ code: "model_not_priced", hardBudget: false, ...refused })).toBe(
      "The model 'gpt-4oo' has no price, and FAREBOX_UNPRICED=refuse does not allow such models. Did you mean 'gpt-4o'?",
    );
    expect(messageOf({ code: "model_not_allowed", ...refused })).toBe(
      "This key may not use the model gpt-4oo. Did you mean 'gpt-4o'?",
    );
  });

  it("of an overspent budget states 0.00 USD left, not a negative amount", () => {
    const overspent = { ...shortage, window: { ...shortage.window, spent: usd("1.50"), end: null } };
    const { error } = JSON.parse(
      refusalAnswer({
        code: "budget_exceeded",
        shortage: overspent,
        scopeName: "all",
        subjectName: null,
        showsAmounts: true,
      }).body,
    ) as { error: { message: string; metadata: object } };
    expect(error.message).toContain("has 0.00 USD left");
    expect(error.metadata).toMatchObject({ scope: "all", spent_usd: "1.50", resets_at: null });
  });

  const read = (text: string): Scope => {
    const result = readScope(text);
    if (!result.ok) throw new Error(result.fault);
    return result.scope;
  };
  it.each([
    ["key:alice model:gpt-5*", "of key alice for models gpt-5*"],
    ["key:alice model:gpt-5 tag:feature=search", "of key alice for model gpt-5 and the tag feature=search"],
    ["team:research each-user", "that each user of team research has for itself"],
    ["team:research each-model", "of team research for each model"],
    ["team:research label:env=prod", "of keys with label env=prod of team research"],
    ["user:u%2042", "of all keys together for user u 42"],
    ["each-key each-tag:session", "that each key has for each value of the tag session"],
    ["each-key each-user", "that each user of each key has for itself"],
    ["key:alice each-user model:gpt-5*", "that each user of key alice has for models gpt-5*"],
    ["key:alice tag:session=run_01j9zk3v9q", "of this session of key alice"],
  ])("names the owner of the budget %s: %s", (text, owner) => {
    const { window } = shortage;
    const changed = { ...shortage, window: { ...window, budget: { ...window.budget, scope: read(text) } } };
    const names = { scopeName: text, subjectName: "user=u1" };
    const answer = refusalAnswer({ code: "budget_exceeded", shortage: changed, ...names, showsAmounts: false });
    const { error } = JSON.parse(answer.body) as { error: { message: string; metadata: object } };
    expect(error.message).toContain(`The daily budget ${owner} (${text}) cannot pay for this request`);
    expect(error.metadata).toMatchObject({ scope: text, subject: "user=u1" });
  });

  const named: [Scope, string, Period, string][] = [
    [everyRequest, "all", "1h", "The budget of all keys together (all, 1.00 USD an hour)"],
    [teamScope("red"), "team:red", "1d", "The budget of team red (team:red, 1.00 USD a day)"],
    [keyScope("k1"), "key:alice", "1w", "The budget of key alice (key:alice, 1.00 USD a week)"],
    [eachKeyScope(), "each-key", "1mo", "The budget that each key has for itself (each-key, 1.00 USD a month)"],
    [
      eachKeyScope("red"),
      "each-key:red",
      "total",
      "The budget that each key of team red has for itself (each-key:red, 1.00 USD in total)",
    ],
  ];
  it.each(named)(
    "of a budget of %j states its owner, the amount left and the reset",
    (scope, scopeName, period, text) => {
      const { window } = shortage;
      const changed: Shortage = {
        ...shortage,
        window: { ...window, budget: { ...window.budget, scope, period }, end: period === "total" ? null : window.end },
      };
      const messageOf = (code: "budget_exceeded" | "budget_held") =>
        (
          JSON.parse(
            refusalAnswer({ code, shortage: changed, scopeName, subjectName: null, showsAmounts: true }).body,
          ) as {
            error: { message: string };
          }
        ).error.message;
      const reset = period === "total" ? "It never resets." : "It resets at 2026-11-21T00:00:00.000Z.";
      expect(messageOf("budget_exceeded")).toBe(
        `${text} has 0.25 USD left, and this request can cost up to 0.30 USD. ${reset}`,
      );
      expect(messageOf("budget_held")).toBe(
        `${text} has 0.25 USD left and 0.20 USD are held by running requests; this request can cost up to 0.30 USD and fits once they have settled.`,
      );
    },
  );

  it("of a budget with hidden amounts states none of them", () => {
    const { window } = shortage;
    const shared = {
      ...shortage,
      window: { ...window, budget: { ...window.budget, scope: teamScope("red") } },
    };
    const hidden = { shortage: shared, scopeName: "team:red", subjectName: null, showsAmounts: false } as const;
    const { limit_usd: _, spent_usd: __, held_usd: ___, ...shown } = { ...metadata, scope: "team:red" };
    const errorOf = (text: string) => (JSON.parse(text) as { error: { message: string; metadata: object } }).error;
    const resets = "It resets at 2026-11-21T00:00:00.000Z.";
    expect(errorOf(refusalAnswer({ code: "budget_exceeded", ...hidden }).body)).toMatchObject({
      message: `The daily budget of team red (team:red) cannot pay for this request, which can cost up to 0.30 USD. ${resets}`,
    });
    expect(errorOf(refusalAnswer({ code: "budget_held", ...hidden }).body)).toMatchObject({
      message:
        "The daily budget of team red (team:red) has too little left while other requests run; this request can cost up to 0.30 USD and fits once they have settled.",
    });
    const running = { code: "budget_exceeded", ...hidden, running: true } as const;
    expect(errorOf(refusalEvent(running).slice("data: ".length))).toMatchObject({
      message: `The daily budget of team red (team:red) cannot pay for more of this stream. ${resets}`,
    });
    for (const code of ["budget_exceeded", "budget_held"] as const)
      expect(errorOf(refusalAnswer({ code, ...hidden }).body).metadata).toEqual(shown);
  });

  it("during a stream states that it cannot continue, with the same code, amounts and format", () => {
    const running = {
      code: "budget_exceeded",
      shortage,
      scopeName: "key:alice",
      subjectName: null,
      showsAmounts: true,
      running: true,
    } as const;
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

  it("states amounts to the last digit", () => {
    const tiny = { ...shortage, needed: 1n as PicoUsd };
    expect(
      refusalAnswer({ code: "budget_held", shortage: tiny, scopeName: "all", subjectName: null, showsAmounts: true })
        .body,
    ).toContain('"needed_usd":"0.000000000001"');
  });
});
