import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { answeringGateway, type AnsweringGateway } from "../../support/answering-gateway.ts";
import { priceFolder } from "../../support/price-files.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

const bodies: Readonly<Record<string, object>> = {
  "/v1/chat/completions": { model: "gpt-4o", messages: [{ role: "user", content: "hello" }], max_tokens: 700 },
  "/v1/completions": { model: "gpt-4o", prompt: "hello" },
  "/v1/responses": { model: "gpt-4o", input: "hello", max_output_tokens: 700 },
  "/v1/embeddings": { model: "text-embedding-3-small", input: "hello" },
  "/v1/images/generations": { model: "gpt-image-1", prompt: "a quiet harbour" },
  "/v1/audio/speech": { model: "tts-1", input: "hello", voice: "alloy" },
};
const routes = Object.keys(bodies);
const chat = "/v1/chat/completions";

let gatewayBody: string | Buffer = "";
let headers: Record<string, string> = {};
let gateway: AnsweringGateway;
let proxy: RunningProxy;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  gateway = everything.use(await answeringGateway(() => ({ body: gatewayBody, headers })));
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url }));
});
afterAll(() => everything.disposeAsync());

/** Sends a request that the gateway answers with status 200 and a body. Returns its charge. */
async function chargeOf(route: string, body: string | Buffer, at = proxy, more: Record<string, string> = {}) {
  [gatewayBody, headers] = [body, more];
  const before = (await at.charges()).length;
  const answer = await fetch(at.url + route, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${at.key}` },
    body: JSON.stringify(bodies[route]),
  });
  const received = await answer.text();
  if (typeof body === "string") expect([answer.status, received]).toEqual([200, body]);
  const [charge, ...others] = (await at.charges()).slice(before);
  if (charge === undefined || others.length > 0) throw new Error(`expected one charge of ${route}`);
  return charge;
}

const errors: readonly (readonly [string, string])[] = [
  ['{"error":{"message":"no","type":"invalid_request_error","code":"model_not_found"}}', "gateway_error"],
  ['{"error":"no"}', "gateway_error"],
  ['{"detail":"no"}', "gateway_error"],
  ['{"object":"error","message":"no","type":"BadRequestError","code":400}', "gateway_400"],
  ['{"success":false}', "gateway_error"],
  ['{"code":402,"data":null}', "gateway_402"],
  ['{"choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}', "upstream_no_credit"],
  ['{"choices":null,"status_msg":"no"}', "gateway_error"],
  ['{"status":"439","msg":"no","body":null,"trace_id":"7f3a"}', "gateway_439"],
  ['{"errors":[{"message":"no"}]}', "gateway_error"],
  ['{"type":"error","error":{"type":"api_error","message":"no"}}', "gateway_error"],
  ['[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]', "gateway_400"],
  ['{"error":{"code":"no"},"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}', "gateway_error"],
];

describe.each(routes)("an error with status 200 in place of an answer of %s", (route) => {
  it.each(errors)("costs nothing: %s", async (body, reason) => {
    expect(await chargeOf(route, body)).toMatchObject({ state: "voided", cost: null, reason, route });
  });

  it.each([
    ['{"error":{"code":504,"message":"no"}}', "gateway_504"],
    ['{"code":524,"data":null}', "gateway_524"],
    ['{"error":{"message":"Request timed out.","code":500}}', "network"],
    ['{"success":false,"message":"context deadline exceeded"}', "time_limit"],
  ])("costs its hold after a timeout: %s", async (body, reason) => {
    const charge = await chargeOf(route, body);
    expect(charge).toMatchObject({ state: "posted", source: "assumed", reason, cost: charge.hold });
  });

  it.each([
    "{}",
    '{"code":200,"data":null,"message":"success"}',
    '{"success":true,"data":{}}',
    '{"error":null,"status":"success"}',
  ])("costs its hold if the answer states success: %s", async (body) => {
    const charge = await chargeOf(route, body);
    expect(charge).toMatchObject({ state: "posted", source: "assumed", cost: charge.hold });
  });

  it("is charged if the answer also states a usage above 0", async () => {
    const usage = {
      prompt_tokens: 1000,
      completion_tokens: 0,
      total_tokens: 1000,
      input_tokens: 1000,
      output_tokens: 0,
    };
    const charge = await chargeOf(route, JSON.stringify({ error: { message: "no", code: 400 }, usage }));
    expect(charge).toMatchObject({ state: "posted" });
    expect(charge.cost).toBeGreaterThan(0n);
  });
});

describe("an error in an answer of a chat", () => {
  it("costs nothing if it is in a choice without output, or compressed, or after a byte order mark", async () => {
    const choice = '{"choices":[{"error":{"code":502,"message":"no"},"message":{"role":"assistant","content":""}}]}';
    expect(await chargeOf(chat, choice)).toMatchObject({ state: "voided", reason: "gateway_502" });
    const failed =
      '{"id":"r","object":"response","status":"failed","error":{"code":"server_error"},"output":[],"usage":null,"instructions":null}';
    expect(await chargeOf("/v1/responses", failed)).toMatchObject({ state: "voided", reason: "gateway_error" });
    const gzip = { "content-encoding": "gzip" };
    expect(await chargeOf(chat, gzipSync('{"error":"no"}'), proxy, gzip)).toMatchObject({ state: "voided" });
    expect(await chargeOf(chat, Buffer.from('\ufeff{"error":"no"}'))).toMatchObject({ state: "voided" });
  });

  it.each([
    '{"error":{"code":500,"message":"no"},"choices":[{"message":{"content":"Hello"}}]}',
    '{"error":{"code":500,"message":"no"},"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":""}}]}}]}',
    '{"error":{"code":500,"message":"no"},"choices":[{"message":{"reasoning_details":[{"data":"c2VhbGVk"}]}}]}',
    '{"error":{"code":500,"message":"no"},"candidates":[{"content":{"parts":[{"text":"Hello"}]}}]}',
    '{"error":{"code":500,"message":"no"},"text":"Hello"}',
    `{"error":{"code":500,"message":"no"},"unknown":"${"Hello ".repeat(50)}"}`,
    '{"error":{"code":500,"message":"no"},"message":{"role":"assistant","content":"Hello"}}',
    '{"error":{"code":500,"message":"no"},"data":"Hello"}',
  ])("is charged if there is output: %s", async (body) => {
    expect(await chargeOf(chat, body)).toMatchObject({ state: "posted" });
  });

  it("is charged if the price file says that errors are billed, unless it states a status below 500", async () => {
    using prices = priceFolder(billedPrices);
    await using billed = await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_PRICING: prices.path } });
    for (const [body, reason] of [
      ['{"error":"no"}', "gateway_error"],
      ['{"code":500,"data":null}', "gateway_500"],
    ] as const) {
      const charge = await chargeOf(chat, body, billed);
      expect(charge).toMatchObject({ state: "posted", source: "assumed", reason, cost: charge.hold });
    }
    expect(await chargeOf(chat, '{"code":402,"data":null}', billed)).toMatchObject({ state: "voided" });
  });

  it("leaves a small budget as it was", async () => {
    await using small = await startProxy({ gatewayUrl: gateway.url });
    await small.budget("key:alice", "0.01");
    for (let count = 0; count < 5; count++)
      expect(await chargeOf(chat, '{"error":"no"}', small)).toMatchObject({ state: "voided" });
  });
});

const billedPrices = `provider: example
models:
  gpt-4o:
    tokenizer: o200k_base
    context_tokens: 10000
    max_output_tokens: 1000
    reasoning: false
    bills_server_errors: true
    prices:
      - { from: 2026-01-01, source: "made up for a test", official: { input: "2.5", output: "10" }, gateway: { input: "2.5", output: "10" } }
`;
