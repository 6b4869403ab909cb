import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { answeringGateway, type Answering, type AnsweringGateway } from "../support/answering-gateway.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { fetchAnswer, type WireAnswer, type WireOptions } from "../support/wire-client.ts";

const claude = { model: "claude-sonnet-4-5", messages: [{ role: "user", content: "hello" }] };

let answer: Answering;
let gateway: AnsweringGateway;
let proxy: RunningProxy;
const everything = new AsyncDisposableStack();
beforeAll(async () => {
  gateway = everything.use(await answeringGateway(() => answer));
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url }));
});
afterAll(() => everything.disposeAsync());
beforeEach(() => void (answer = { body: '{"input_tokens":12}' }));

const ask = (body: object | undefined, options: WireOptions = {}) =>
  fetchAnswer(proxy, body, { path: "/v1/messages/count_tokens", ...options });
const errorIn = ({ body }: WireAnswer) => (JSON.parse(body.toString()) as { error: object }).error;

describe("the credential of the gateway", () => {
  const own = () => proxy.settings.gateway.apiKey?.reveal() ?? "";
  it.each<[string, (key: string) => Record<string, string>, (mine: string) => Record<string, string | undefined>]>([
    [
      "as a bearer token",
      (key) => ({ authorization: `Bearer ${key}` }),
      (mine) => ({ authorization: `Bearer ${mine}`, "x-api-key": undefined }),
    ],
    [
      "in x-api-key",
      (key) => ({ authorization: "", "x-api-key": key }),
      (mine) => ({ authorization: undefined, "x-api-key": mine }),
    ],
    [
      "in both headers",
      (key) => ({ authorization: `Bearer ${key}`, "x-api-key": key }),
      (mine) => ({ authorization: `Bearer ${mine}`, "x-api-key": mine }),
    ],
    [
      "in a header that gateways do not read",
      (key) => ({ authorization: "", "api-key": key }),
      (mine) => ({ authorization: `Bearer ${mine}`, "x-api-key": undefined, "api-key": undefined }),
    ],
  ])("replaces a key that the client sent %s", async (_how, sent, expected) => {
    expect((await ask(claude, { headers: sent(proxy.key) })).status).toBe(200);
    const headers = gateway.received.at(-1)?.headers ?? {};
    const { authorization, "x-api-key": apiKey, "api-key": other } = headers;
    expect({ authorization, "x-api-key": apiKey, "api-key": other }).toEqual({
      "api-key": undefined,
      ...expected(own()),
    });
    expect(JSON.stringify(headers)).not.toContain(proxy.key);
  });

  it("is a bearer token at OpenAI's endpoints, however the client sent its key", async () => {
    await ask(claude, { path: "/v1/responses/input_tokens", headers: { authorization: "", "x-api-key": proxy.key } });
    expect(gateway.received.at(-1)?.headers).toMatchObject({ authorization: `Bearer ${own()}` });
    expect(gateway.received.at(-1)?.headers).not.toHaveProperty("x-api-key");
  });

  it("replaces no two different keys", async () => {
    const other = await proxy.addKey("another");
    const refused = await ask(claude, { headers: { "x-api-key": other } });
    expect([refused.status, refused.headers["x-should-retry"]]).toEqual([401, "false"]);
    expect(errorIn(refused)).toMatchObject({ type: "authentication_error", code: "invalid_api_key" });
  });

  it("counts as refused with a 401 only if the gateway reads its header for sure", async () => {
    answer = { status: 401, body: '{"error":{"message":"Sign in first."}}' };
    const bearer = await ask(claude);
    expect([bearer.status, errorIn(bearer)]).toMatchObject([502, { type: "api_error", code: "gateway_key_refused" }]);
    const alone = await ask(claude, { headers: { authorization: "", "x-api-key": proxy.key } });
    expect([alone.status, alone.body.toString()]).toEqual([401, answer.body]);
    answer = {
      status: 401,
      body: '{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}',
    };
    const stated = await ask(claude, { headers: { authorization: "", "x-api-key": proxy.key } });
    expect([stated.status, errorIn(stated)]).toMatchObject([502, { code: "gateway_key_refused" }]);
  });
});

it("passes the headers by which Anthropic's clients name a session, an agent and features", async () => {
  const named = {
    "anthropic-version": "2026-10-21",
    "anthropic-beta": "claude-code-20250219,anything-new-2027-01-01",
    "anthropic-dangerous-direct-browser-access": "true",
    "x-app": "cli",
    "x-claude-code-session-id": "0b1c",
    "x-claude-code-agent-id": "a1",
    "x-claude-code-parent-agent-id": "a0",
    "x-stainless-retry-count": "0",
  };
  await ask(claude, { headers: { ...named, "x-claude": "no", "x-app-secret": "no" } });
  const headers = gateway.received.at(-1)?.headers;
  expect(headers).toMatchObject(named);
  expect(headers).not.toHaveProperty("x-claude");
  expect(headers).not.toHaveProperty("x-app-secret");
});
