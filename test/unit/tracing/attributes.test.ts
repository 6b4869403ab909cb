import { describe, expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { noTokens } from "../../../src/core/usage.ts";
import type { ChargePosted } from "../../../src/ports/events.ts";
import { errorOf, firstAttributes, lastAttributes, spanName } from "../../../src/tracing/attributes.ts";

const posted: ChargePosted = {
  id: "c1",
  key: { id: "k1", name: "alice", team: "research" },
  route: "/v1/chat/completions",
  model: "gpt-5",
  group: "general",
  source: "counted",
  cost: usd("0.001500000001"),
  listCost: usd("0.002"),
  overage: usd("0"),
  tokens: { ...noTokens, input: 10, cached_input: 100, cache_write: 3, cache_write_1h: 4, output: 20, reasoning: 50 },
  doubts: [],
};

describe("the name of a span", () => {
  it("has the operation and the catalogue's id of the model, never an unknown name from a client", () => {
    expect(spanName("POST", "/v1/responses", { model: "gpt-5-2025", modelId: "gpt-5" })).toBe("chat gpt-5");
    expect(spanName("POST", "/v1/embeddings", { model: "made up", modelId: undefined })).toBe("embeddings other");
    expect(spanName("POST", "/v1/completions", {})).toBe("text_completion");
    expect(spanName("POST", "/api/v1/task", { model: "kling" })).toBe("POST /api/v1/task");
  });
});

describe("attributes", () => {
  it("state each class of tokens, and include it in the sum of input or output", () => {
    const facts = {
      key: "alice",
      team: "research",
      model: "gpt-5-2025",
      modelId: "gpt-5",
      servedModel: "gpt-5-2025-08",
    };
    expect(lastAttributes(200, facts, posted)).toEqual({
      "gen_ai.request.model": "gpt-5-2025",
      "gen_ai.response.model": "gpt-5-2025-08",
      "gen_ai.usage.input_tokens": 117,
      "gen_ai.usage.output_tokens": 70,
      "gen_ai.usage.cache_read.input_tokens": 100,
      "gen_ai.usage.cache_write.input_tokens": 7,
      "gen_ai.usage.reasoning.output_tokens": 50,
      "http.response.status_code": 200,
      "farebox.cost_usd": 0.001500000001,
      "farebox.source": "counted",
      "farebox.key": "alice",
      "farebox.team": "research",
    });
  });

  it("have no cost for a model without a price, and no tokens if none are known", () => {
    const unpriced = lastAttributes(200, {}, { ...posted, cost: null, tokens: noTokens, source: "assumed" });
    expect(unpriced).toEqual({ "farebox.source": "assumed", "http.response.status_code": 200 });
  });

  it.each([
    ["/v1/images/generations", "image"],
    ["/v1/audio/speech", "speech"],
    ["/v1/audio/transcriptions", "text"],
  ])("of %s state the kind of output: %s", (route, output) => {
    const attributes = firstAttributes("r1", "POST", route, new URL("https://gateway.example"));
    expect(attributes).toMatchObject({
      "gen_ai.operation.name": "generate_content",
      "gen_ai.output.type": output,
      "server.address": "gateway.example",
      "server.port": 443,
    });
  });

  it("state no operation for a path without one", () => {
    const attributes = firstAttributes("r1", "GET", "/*path", new URL("http://127.0.0.1:8080"));
    expect(attributes).toEqual({
      "http.request.method": "GET",
      "http.route": "/*path",
      "server.address": "127.0.0.1",
      "server.port": 8080,
      "farebox.request_id": "r1",
    });
  });
});

it.each([
  [200, {}, null],
  [399, {}, null],
  [400, {}, "400"],
  [502, { refusal: "gateway_unreachable" }, "gateway_unreachable"],
  [200, { refusal: "budget_exceeded" }, "budget_exceeded"],
  [null, {}, "client_left"],
  [null, { refusal: "internal_error" }, "internal_error"],
] as const)("the error of status %s with %o is %s", (status, facts, error) => {
  expect(errorOf(status, facts)).toBe(error);
});
