import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { answeringGateway, type Answering, type AnsweringGateway } from "../support/answering-gateway.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { scriptedGateway } from "../support/scripted-gateway.ts";
import { fetchAnswer, type Body, type WireAnswer, type WireOptions } from "../support/wire-client.ts";

const count = "/v1/messages/count_tokens";
const input = "/v1/responses/input_tokens";
const claude = { model: "claude-sonnet-4-5", messages: [{ role: "user", content: "hello" }] };
const counted: Answering = { headers: { "x-own": "1" }, body: '{ "input_tokens": 12 }' };

let answer: Answering;
let gateway: AnsweringGateway;
let proxy: RunningProxy;
const everything = new AsyncDisposableStack();
beforeAll(async () => {
  gateway = everything.use(await answeringGateway(() => answer));
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_BODY_LIMIT: "1mb" } }));
});
afterAll(() => everything.disposeAsync());
beforeEach(() => void (answer = counted));

const ask = (body: Body | undefined, { key = proxy.key, path = count, ...options }: WireOptions & { key?: string }) =>
  fetchAnswer({ url: proxy.url, key }, body, { path, ...options });
const errorIn = ({ body }: WireAnswer) =>
  (JSON.parse(body.toString()) as { error: { type: string; code: string; message: string } }).error;

describe("a request that only counts tokens", () => {
  it.each([count, input, "/messages/count_tokens", "/responses/input_tokens"])(
    "to %s is forwarded unchanged, without a charge and without its budget",
    async (path) => {
      const key = await proxy.addKey(`no-budget-${path.replaceAll(/\W/g, "")}`, { limits: { rpm: 1 } });
      await proxy.budget(`key:no-budget-${path.replaceAll(/\W/g, "")}`, "0.00");
      const body = `\r\n{ "model" :"claude-sonnet-4-5", "x":[1.0e0,"\\u00e9"], "messages":[] }\n`;
      for (const _twice of [1, 2]) {
        const got = await ask(body, { key, path: `${path}?beta=true` });
        expect([got.status, got.body.toString(), got.headers["x-own"]]).toEqual([200, '{ "input_tokens": 12 }', "1"]);
        expect(got.headers).not.toHaveProperty("x-ratelimit-limit-requests");
      }
      const received = gateway.received.at(-1);
      expect(received).toMatchObject({
        method: "POST",
        path: `${path.startsWith("/v1") ? path : `/v1${path}`}?beta=true`,
        body: Buffer.from(body),
      });
      expect(await proxy.charges()).toEqual([]);
    },
  );

  it("gets the gateway's own answer if the gateway does not have the path", async () => {
    answer = { status: 404, body: '{"type":"error","error":{"type":"not_found_error","message":"Not found"}}' };
    const got = await ask(claude, {});
    expect([got.status, got.body.toString(), got.headers["x-farebox-error"]]).toEqual([404, answer.body, undefined]);
  });

  it.each([
    [count, 400, "policy_blocked"],
    [input, 403, "invalid_request_error"],
  ])("to %s obeys the key's list of models with %i", async (path, status, type) => {
    const key = await proxy.addKey(`listed-${status}`, { models: ["claude-haiku*", "gpt-4o-mini"] });
    const before = gateway.received.length;
    const refused = await ask(claude, { key, path });
    expect([refused.status, errorIn(refused)]).toMatchObject([status, { type, code: "model_not_allowed" }]);
    for (const body of [
      '{"model":"gpt-4o-mini","model":"claude-sonnet-4-5"}',
      '{"Model":"claude-sonnet-4-5","model":"gpt-4o-mini"}',
      '{"model":"gpt-4o-mini","fallbacks":["claude-sonnet-4-5"]}',
      '{"model":"gpt-4o-mini"',
      "{}",
    ]) {
      const got = await ask(body, { key, path });
      expect([got.status, got.headers["x-farebox-error"]], body).toEqual(
        body.includes("fallbacks") ? [status, "model_not_allowed"] : [400, "invalid_request"],
      );
    }
    const inQuery = await ask({ model: "gpt-4o-mini" }, { key, path: `${path}?model=gpt-4o` });
    expect(inQuery.status).toBe(status);
    expect(gateway.received.length).toBe(before);
    expect((await ask({ model: "claude-haiku-4-5", messages: [] }, { key, path })).status).toBe(200);
  });

  it("needs a key, and a body within the limit", async () => {
    const wrong = await ask(claude, { key: "sk-fb-wrong" });
    expect([wrong.status, wrong.headers["x-should-retry"], errorIn(wrong).type]).toEqual([
      401,
      "false",
      "authentication_error",
    ]);
    const { error, request_id: id } = JSON.parse(wrong.body.toString()) as { error: object; request_id: string };
    expect(error).toMatchObject({ message: expect.stringMatching(/^This is not a Farebox key/) });
    expect([wrong.headers["request-id"], wrong.headers["x-farebox-request-id"]]).toEqual([id, id]);
    const large = await ask("x".repeat(2 ** 20 + 1), {});
    expect([large.status, errorIn(large).type]).toEqual([413, "request_too_large"]);
    const get = await ask(undefined, { method: "GET" });
    expect([get.status, get.headers["allow"], errorIn(get).type]).toEqual([405, "POST", "invalid_request_error"]);
  });
});

it("takes a slot of its key while it is in flight, and releases it", async () => {
  await using open = await scriptedGateway();
  await using slow = await startProxy({ gatewayUrl: open.url });
  const key = await slow.addKey("one-at-a-time", { limits: { parallel: 1 } });
  const running = fetchAnswer({ url: slow.url, key }, claude, { path: count });
  const received = await open.nextChat();
  const second = await fetchAnswer({ url: slow.url, key }, claude, { path: count });
  expect([second.status, second.headers["retry-after"], errorIn(second)]).toMatchObject([
    429,
    "1",
    { type: "rate_limit_error", code: "concurrency_limit" },
  ]);
  expect((await slow.chat({}, { key })).headers.get("x-farebox-error")).toBe("concurrency_limit");
  received.response.end('{"input_tokens":1}');
  expect((await running).status).toBe(200);
  const next = fetchAnswer({ url: slow.url, key }, claude, { path: count });
  (await open.nextChat()).request.socket.destroy();
  expect((await next).headers["x-farebox-error"]).toBe("gateway_unreachable");
  const last = fetchAnswer({ url: slow.url, key }, claude, { path: count });
  (await open.nextChat()).response.end("{}");
  expect((await last).status).toBe(200);
});
