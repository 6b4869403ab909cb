import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { updateKey } from "../../src/admin/keys.ts";
import { createTeam } from "../../src/admin/teams.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { answeringGateway, type AnsweringGateway } from "../support/answering-gateway.ts";
import { priceFolder } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { ask, bytesOf, type WireAnswer } from "../support/wire-client.ts";

/* Tests of the output caps that Farebox writes into requests, checked on the bytes that the gateway receives. */

const prices = `provider: example
defaults: { tokenizer: o200k_base, context_tokens: 100000, max_output_tokens: 1000, reasoning: false, max_output_field: { chat: max_tokens, completions: max_tokens, responses: max_output_tokens } }
models:
  small:
    group: official
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "1.00", output: "2.00" } }]
  thinker:
    group: official
    max_output_field: { chat: max_completion_tokens, responses: max_output_tokens }
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "1.00", output: "2.00" } }]
  unlimited:
    group: official
    max_output_field: {}
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "1.00", output: "2.00" } }]
`;

const answered = JSON.stringify({
  id: "a",
  object: "chat.completion",
  model: "small",
  choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 10, completion_tokens: 1, total_tokens: 11 },
});

let gateway: AnsweringGateway;
let proxy: RunningProxy;
let folder: string;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  folder = everything.use(priceFolder(prices)).path;
  gateway = everything.use(await answeringGateway(() => ({ body: answered })));
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_PRICING: folder } }));
});
afterAll(() => everything.disposeAsync());

let keys = 0;
const keyWith = (outputCap: number | null) => proxy.addKey(`key-${keys++}`, { outputCap });

interface Sent {
  readonly answer: WireAnswer;
  /** Body as the gateway received it. */
  readonly body: string;
}

async function send(
  key: string,
  body: string,
  { path = "/v1/chat/completions", headers = {} }: { path?: string; headers?: Record<string, string> } = {},
): Promise<Sent> {
  const before = gateway.asked.length;
  const answer = await ask({ url: proxy.url, key }, body, { path, headers });
  return { answer, body: gateway.asked.slice(before).at(-1)?.body.toString() ?? "" };
}

const messages = '"messages":[{"role":"user","content":"€ 😀"}]';
const capOf = ({ answer }: Sent) => answer.headers["x-farebox-output-cap"];

describe("an output cap", () => {
  it("is written into a request that states no maximum, and changes no other byte", async () => {
    const key = await keyWith(500);
    const request = `{"model":"small",${messages}}`;
    const first = await send(key, request);
    expect(first.answer.status).toBe(200);
    expect(first.body).toBe(`{"max_tokens":500,${request.slice(1)}`);
    expect(gateway.asked.at(-1)?.headers["content-length"]).toBe(String(bytesOf(first.body).length));
    expect(capOf(first)).toBe("500");
    const stated = await send(proxy.key, first.body);
    expect(capOf(stated)).toBeUndefined();
    const [one, other] = (await proxy.charges()).slice(-2);
    expect(one?.hold).toBe(other?.hold);
    expect(one?.basis).toEqual({ by: "output_cap", outputTokens: 500, outputCap: 500, fitted: null });
    expect(other?.basis).toEqual({ by: "max_tokens", outputTokens: 500, outputCap: null, fitted: null });
  });

  it.each([
    ["lowers a larger maximum", `"max_tokens":900`, `"max_tokens":500`, "500"],
    [
      "lowers every larger maximum",
      `"max_tokens":900,"max_completion_tokens":2000`,
      `"max_tokens":500,"max_completion_tokens":500`,
      "500",
    ],
    ["leaves a smaller maximum as it is", `"max_tokens":499`, `"max_tokens":499`, undefined],
    ["replaces null in place", `"max_tokens":null`, `"max_tokens":500`, "500"],
    ["replaces an invalid maximum", `"max_tokens":-1`, `"max_tokens":500`, "500"],
  ])("%s", async (_, given, expected, header) => {
    const key = await keyWith(500);
    const result = await send(key, `{"model":"small",${given},${messages}}`);
    expect(result.body).toBe(`{"model":"small",${expected},${messages}}`);
    expect(capOf(result)).toBe(header);
  });

  it("is written into the field that the model and the endpoint use", async () => {
    const key = await keyWith(500);
    expect((await send(key, `{"model":"thinker",${messages}}`)).body).toBe(
      `{"max_completion_tokens":500,"model":"thinker",${messages}}`,
    );
    const response = `{"model":"thinker","input":"hello"}`;
    expect((await send(key, response, { path: "/v1/responses" })).body).toBe(
      `{"max_output_tokens":500,${response.slice(1)}`,
    );
  });

  it("never raises the default of /v1/completions or a model's own maximum", async () => {
    const completion = `{"model":"small","prompt":"hello"}`;
    const high = await send(await keyWith(500), completion, { path: "/v1/completions" });
    expect(high.body).toBe(`{"max_tokens":16,${completion.slice(1)}`);
    const low = await send(await keyWith(9), completion, { path: "/v1/completions" });
    expect(low.body).toBe(`{"max_tokens":9,${completion.slice(1)}`);
    const most = await send(await keyWith(5000), `{"model":"small",${messages}}`);
    expect([most.body, capOf(most)]).toEqual([`{"max_tokens":1000,"model":"small",${messages}}`, "1000"]);
    const stated = await send(await keyWith(5000), `{"model":"small","max_tokens":2000,${messages}}`);
    expect(stated.body).toBe(`{"model":"small","max_tokens":2000,${messages}}`);
  });

  it("applies to text endpoints only", async () => {
    const body = `{"model":"small","input":"hello"}`;
    const result = await send(await keyWith(500), body, { path: "/v1/embeddings" });
    expect([result.body, capOf(result)]).toEqual([body, undefined]);
  });

  it("refuses models without a known maximum field, and ambiguous spellings of the field", async () => {
    const key = await keyWith(500);
    for (const model of ["unlimited", "unheard-of"]) {
      const { answer, body } = await send(key, `{"model":"${model}",${messages}}`);
      expect([answer.status, body]).toEqual([400, ""]);
      expect(JSON.parse(answer.body.toString()).error).toMatchObject({
        param: "model",
        message: expect.stringContaining(`limits the output of ${model} (max_output_field)`),
      });
    }
    expect((await send(proxy.key, `{"model":"unlimited",${messages}}`)).answer.status).toBe(200);
    for (const twice of [`"max_tokens":1,"max_tokens":2`, `"Max_Tokens":1`, `"max_token\\u017f":1`])
      expect((await send(key, `{"model":"small",${twice},${messages}}`)).answer.status).toBe(400);
  });

  it("is the smallest of the key's, its team's and FAREBOX_OUTPUT_CAP, and changes apply to the next request", async () => {
    await using capped = await startProxy({
      gatewayUrl: gateway.url,
      env: { FAREBOX_PRICING: folder, FAREBOX_OUTPUT_CAP: "700" },
    });
    const tools = { clock: systemClock(), by: "test" };
    await createTeam({ ...tools, teams: capped.serving.teams }, { name: "red", outputCap: 600 });
    const bob = await capped.addKey("bob", { team: "red" });
    const capFor = async (key: string) => {
      const answer = await ask({ url: capped.url, key }, `{"model":"small",${messages}}`);
      const me = await (
        await fetch(`${capped.url}/v1/farebox/me`, { headers: { authorization: `Bearer ${key}` } })
      ).json();
      return [answer.headers["x-farebox-output-cap"], (me as { output_cap: number }).output_cap];
    };
    expect(await capFor(capped.key)).toEqual(["700", 700]);
    expect(await capFor(bob)).toEqual(["600", 600]);
    await updateKey({ ...tools, keys: capped.serving.keys }, "bob", { outputCap: 50 });
    expect(await capFor(bob)).toEqual(["50", 50]);
    await updateKey({ ...tools, keys: capped.serving.keys }, "bob", { outputCap: null });
    expect(await capFor(bob)).toEqual(["600", 600]);
  });

  it("can be combined with FAREBOX_STREAM_USAGE=inject", async () => {
    await using injecting = await startProxy({
      gatewayUrl: gateway.url,
      env: { FAREBOX_PRICING: folder, FAREBOX_STREAM_USAGE: "inject", FAREBOX_OUTPUT_CAP: "700" },
    });
    await ask({ url: injecting.url, key: injecting.key }, `{"model":"small","stream":true,${messages}}`);
    expect(gateway.asked.at(-1)?.body.toString()).toBe(
      `{"stream_options":{"include_usage":true},"max_tokens":700,"model":"small","stream":true,${messages}}`,
    );
  });

  it("refuses paths without a route that name a model in the body or the path", async () => {
    await using open = await startProxy({
      gatewayUrl: gateway.url,
      env: { FAREBOX_PRICING: folder, FAREBOX_PASSTHROUGH: "all" },
    });
    const capped = await open.addKey("capped", { outputCap: 500 });
    const statusOf = async (key: string, path: string, body: string) =>
      (await ask({ url: open.url, key }, body, { path })).status;
    const named = `{"model":"small",${messages}}`;
    expect(await statusOf(capped, "/v1/messages", named)).toBe(400);
    expect(await statusOf(capped, "/v1beta/models/small:generateContent", "{}")).toBe(400);
    expect(await statusOf(capped, "/v1/files/x", "{}")).toBe(200);
    expect(await statusOf(open.key, "/v1/messages", named)).toBe(200);
  });

  it("is held for each choice", async () => {
    await send(await keyWith(100), `{"model":"small","n":3,${messages}}`);
    expect((await proxy.charges()).at(-1)?.basis).toMatchObject({
      by: "output_cap",
      outputTokens: 300,
      outputCap: 100,
    });
  });
});

describe("a retry with the same idempotency key", () => {
  const request = `{"model":"small",${messages}}`;
  const headers = { "idempotency-key": "try" };
  const setCap = (name: string, outputCap: number | null) =>
    updateKey({ keys: proxy.serving.keys, clock: systemClock(), by: "test" }, name, { outputCap });

  it("repeats the written cap even after the cap has changed", async () => {
    const key = await proxy.addKey("retrying", { outputCap: 500 });
    const first = await send(key, request, { headers });
    await setCap("retrying", 800);
    const second = await send(key, request, { headers });
    expect(second.body).toBe(first.body);
    expect(capOf(second)).toBe("500");
    expect((await send(key, request, { headers: { "idempotency-key": "another" } })).body).toContain(
      '"max_tokens":800',
    );
    expect((await send(key, request)).body).toContain('"max_tokens":800');
  });

  it("is refused if the cap has become smaller", async () => {
    const key = await proxy.addKey("lowered", { outputCap: 500 });
    await send(key, request, { headers });
    await setCap("lowered", 400);
    const { answer, body } = await send(key, request, { headers });
    expect([answer.status, answer.headers["x-farebox-error"], body]).toEqual([409, "conflict", ""]);
  });

  it("is refused if a cap was set after a first try without one", async () => {
    const key = await proxy.addKey("free", {});
    const first = await send(key, request, { headers });
    expect(first.body).toBe(request);
    await setCap("free", 400);
    expect((await send(key, request, { headers })).answer.status).toBe(409);
    await setCap("free", null);
    expect((await send(key, request, { headers })).body).toBe(request);
  });

  it("does not use the cap written for another key", async () => {
    const one = await proxy.addKey("one", { outputCap: 500 });
    const other = await proxy.addKey("other", { outputCap: 300 });
    await send(one, request, { headers });
    expect((await send(other, request, { headers })).body).toContain('"max_tokens":300');
  });
});
