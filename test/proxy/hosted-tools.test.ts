import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { updateKey, type NewKey } from "../../src/admin/key-changes.ts";
import { createTeam } from "../../src/admin/team-changes.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { answeringGateway, type AnsweringGateway } from "../support/answering-gateway.ts";
import { priceFolder } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { fetchAnswer } from "../support/wire-client.ts";

/* Tests of the policy for hosted tools that nothing bounds, checked on the bytes that the gateway receives. */

const rates = `official: { input: "1.00", output: "2.00" }`;
const prices = `provider: example
defaults: { tokenizer: o200k_base, context_tokens: 100000, max_output_tokens: 1000, reasoning: false, max_output_field: { chat: max_tokens, completions: max_tokens, responses: max_output_tokens } }
models:
  small:
    group: official
    streams: live
    prices: [{ from: 2026-01-01, source: "made up", ${rates} }]
  searcher:
    group: official
    obeys_max_tool_calls: true
    prices: [{ from: 2026-01-01, source: "made up", ${rates}, fees: { web_search_call: { usd: "0.01", input_tokens: 500 } } }]
`;

const usage = { input_tokens: 10, output_tokens: 1, total_tokens: 11 };
const responded = (more: object = {}) =>
  JSON.stringify({ id: "r", object: "response", status: "completed", model: "small", output: [], usage, ...more });
const chatted = JSON.stringify({
  id: "a",
  object: "chat.completion",
  model: "small",
  choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 10, completion_tokens: 1, total_tokens: 11 },
});

const responses = "/v1/responses";
const chat = "/v1/chat/completions";

let gateway: AnsweringGateway;
let proxy: RunningProxy;
let folder: string;
let body = responded();
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  folder = everything.use(priceFolder(prices)).path;
  gateway = everything.use(await answeringGateway(({ path }) => ({ body: path === responses ? body : chatted })));
  const env = { FAREBOX_PRICING: folder, FAREBOX_STREAM_SLICE: "200" };
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url, env }));
});
afterAll(() => everything.disposeAsync());

const tools = { clock: systemClock(), by: "test" };
let keys = 0;

/** Creates a key under a hard budget. */
async function limitedKey(more: Omit<NewKey, "name">, { at = proxy, limit = "100" } = {}): Promise<string> {
  const name = `key-${keys++}`;
  const key = await at.addKey(name, more);
  await at.budget(`key:${name}`, limit);
  return key;
}

async function send(
  key: string,
  text: string,
  {
    path = responses,
    headers = {},
    at = proxy,
  }: { path?: string; headers?: Record<string, string>; at?: RunningProxy } = {},
) {
  const before = gateway.received.length;
  const answer = await fetchAnswer({ url: at.url, key }, text, { path, headers });
  const sent = gateway.received.slice(before).map((received) => received.body.toString());
  return {
    status: answer.status,
    sent,
    removed: answer.headers["x-farebox-removed-tools"],
    headers: answer.headers,
    error: answer.status < 300 ? undefined : JSON.parse(answer.body.toString()).error,
  };
}

const lastCharge = async () => (await proxy.charges()).at(-1);

const search = '{"type":"web_search"}';
const fn = '{"type":"function","name":"f","parameters":{}}';
const codex = `{"model":"small", "instructions":"é","input":"hi","tools":[${fn}, ${search}],"tool_choice":"auto","parallel_tool_calls":true}`;
const withoutSearch = `{"model":"small", "instructions":"é","input":"hi","tools":[${fn}],"tool_choice":"auto","parallel_tool_calls":true}`;
const messages = '"messages":[{"role":"user","content":"hi"}]';

describe("hosted tools that nothing bounds", () => {
  it("are refused under a hard budget by default, and pass without one", async () => {
    const refused = await send(await limitedKey({}), codex);
    expect(refused).toMatchObject({ status: 400, sent: [], error: { param: "tools[1]" } });
    expect(refused.error.message).toContain("tools[1] (web_search) can cost more than Farebox can bound for small");
    const passed = await send(await proxy.addKey("unlimited", { hostedTools: "remove" }), codex);
    expect([passed.status, passed.sent, passed.removed]).toEqual([200, [codex], undefined]);
  });

  it("are taken out of the request, which is held and charged as if it never had them", async () => {
    const key = await limitedKey({ hostedTools: "remove" });
    const without = await send(key, codex);
    expect([without.status, without.sent, without.removed]).toEqual([200, [withoutSearch], "web_search"]);
    const removed = await lastCharge();
    expect(gateway.received.at(-1)?.headers["content-length"]).toBe(String(Buffer.byteLength(withoutSearch)));
    expect((await send(key, withoutSearch)).removed).toBeUndefined();
    const bare = await lastCharge();
    expect([removed?.hold, removed?.cost, removed?.doubts, removed?.basis]).toEqual([
      bare?.hold,
      bare?.cost,
      [],
      bare?.basis,
    ]);
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it.each<[what: string, path: string, given: string, expected: string, removed: string]>([
    [
      "the only tool of a chat",
      chat,
      `{"model":"small",${messages},"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":"auto","parallel_tool_calls":false}`,
      `{"model":"small",${messages}}`,
      "web_search_20250305",
    ],
    [
      "a chat's fields that run tools",
      chat,
      `{"web_search_options":{},"plugins":[{"id":"web"}],"mcp_servers":[],"model":"small",${messages}}`,
      `{"model":"small",${messages}}`,
      "mcp_servers, plugins, web_search_options",
    ],
    [
      "several tools of one type",
      responses,
      `{"model":"small","input":"hi","tools":[{"type":"mcp","server_label":"a"},{"type":"mcp","server_label":"b"},{"type":"shell","environment":{"type":"container_auto"}}]}`,
      `{"model":"small","input":"hi"}`,
      "mcp, shell",
    ],
    [
      "a tool of an item",
      responses,
      `{"model":"small","input":[{"type":"additional_tools","tools":[${fn},${search}]},{"role":"user","content":"hi"}]}`,
      `{"model":"small","input":[{"type":"additional_tools","tools":[${fn}]},{"role":"user","content":"hi"}]}`,
      "web_search",
    ],
    [
      "tools of Messages, and the servers that they name",
      "/v1/messages",
      `{"mcp_servers":[{"type":"url","url":"https://mcp.example","name":"m"}],"model":"small","max_tokens":50,${messages},"tools":[{"type":"mcp_toolset","mcp_server_name":"m"},{"name":"f","input_schema":{"type":"object"}},{"type":"code_execution_20250825","name":"code_execution"}]}`,
      `{"model":"small","max_tokens":50,${messages},"tools":[{"name":"f","input_schema":{"type":"object"}}]}`,
      "code_execution_20250825, mcp_servers, mcp_toolset",
    ],
  ])("%s", async (_, path, given, expected, removed) => {
    const result = await send(await limitedKey({ hostedTools: "remove" }), given, { path });
    expect([result.status, result.sent]).toEqual([200, [expected]]);
    expect(result.removed?.toString().split(", ").sort().join(", ")).toBe(removed);
  });

  it("are told from those that a fee and max_tool_calls bound, which stay", async () => {
    const key = await limitedKey({ hostedTools: "remove" });
    const bounded = `{"model":"searcher","input":"hi","tools":[${search}]}`;
    const priced = await send(key, bounded);
    expect([priced.sent, priced.removed]).toEqual([[`{"max_tool_calls":4,${bounded.slice(1)}`], undefined]);
    const both = await send(key, `{"model":"searcher","input":"hi","tools":[{"type":"mcp"},${search}]}`);
    expect([both.sent, both.removed, both.headers["x-farebox-tool-calls"]]).toEqual([
      [`{"max_tool_calls":4,${bounded.slice(1)}`],
      "mcp",
      "4",
    ]);
    const malformed = await send(key, `{"model":"searcher","input":"hi","tools":[${search}],"max_tool_calls":-1}`);
    expect(malformed).toMatchObject({ status: 400, sent: [], error: { param: "max_tool_calls" } });
  });

  it("are removed before an output cap and a fitted maximum are written", async () => {
    const capped = await send(await limitedKey({ hostedTools: "remove", outputCap: 50 }), codex);
    expect(capped.sent).toEqual([`{"max_output_tokens":50,${withoutSearch.slice(1)}`]);
    const given = `{"web_search_options":{},"model":"small",${messages},"stream":false}`;
    const fitted = await send(await limitedKey({ hostedTools: "remove" }, { limit: "0.0012" }), given, { path: chat });
    expect(fitted.status).toBe(200);
    expect([fitted.headers["x-farebox-fitted"], fitted.removed]).toEqual([expect.any(String), "web_search_options"]);
    expect(fitted.sent).toEqual([
      `{"max_tokens":${String(fitted.headers["x-farebox-fitted"])},"model":"small",${messages},"stream":false}`,
    ]);
  });

  it.each<[what: string, more: string, param: string]>([
    ["another field that nothing bounds", '"provider":{}', "provider"],
    ["a choice that names the tool", '"tool_choice":{"type":"web_search"}', "tool_choice"],
    ["a choice that requires a tool", '"tool_choice":"required"', "tool_choice"],
  ])("are refused together with %s", async (_, more, param) => {
    for (const hostedTools of ["remove", "allow"] as const) {
      if (hostedTools === "allow" && param === "tool_choice") continue;
      const given = `{"model":"small","input":"hi","tools":[${search}],${more}}`;
      const refused = await send(await limitedKey({ hostedTools }), given);
      expect([refused.status, refused.sent, refused.headers["x-ratelimit-limit-tokens"]]).toEqual([400, [], undefined]);
      expect(hostedTools === "remove" ? refused.error.param : refused.error.message).toContain(param);
    }
  });

  it("count only once against tokens a minute", async () => {
    const limits = { rpm: null, tpm: 100_000, parallel: null };
    const key = await limitedKey({ hostedTools: "remove", limits });
    const other = await limitedKey({ limits });
    const left = async (of: string, text: string) => (await send(of, text)).headers["x-ratelimit-remaining-tokens"];
    expect(await left(key, codex)).toBe(await left(other, withoutSearch));
  });

  it("follow the policy of the key, then of its team, then of the settings", async () => {
    await using allowing = await startProxy({
      gatewayUrl: gateway.url,
      env: { FAREBOX_PRICING: folder, FAREBOX_HOSTED_TOOLS: "allow" },
    });
    await createTeam({ ...tools, teams: allowing.serving.teams }, { name: "red", hostedTools: "remove" });
    const at = allowing;
    const name = `key-${keys}`;
    const key = await limitedKey({ team: "red", hostedTools: "refuse" }, { at });
    const seen = async () => {
      const { status, sent } = await send(key, codex, { at });
      return [status, ...sent];
    };
    expect(await seen()).toEqual([400]);
    await updateKey({ ...tools, keys: at.serving.keys }, name, { hostedTools: null });
    expect(await seen()).toEqual([200, withoutSearch]);
    await updateKey({ ...tools, keys: at.serving.keys }, name, { team: null });
    expect(await seen()).toEqual([200, codex]);
  });

  it("pass with the policy allow, with the doubt hosted_tool; their cost may exceed the hold", async () => {
    const key = await limitedKey({ hostedTools: "allow" }, { limit: "1" });
    body = responded({
      output: [{ type: "web_search_call" }],
      usage: { input_tokens: 50_000, output_tokens: 500, total_tokens: 50_500 },
    });
    const { status, sent, removed } = await send(key, codex);
    body = responded();
    expect([status, sent, removed]).toEqual([200, [codex], undefined]);
    const charge = await lastCharge();
    expect(charge).toMatchObject({ source: "reported", doubts: ["hosted_tool"], cost: 51_000_000_000n });
    expect(Number(charge?.cost)).toBeGreaterThan(Number(charge?.hold));
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it("hold the whole output of a stream with the policy allow, because it may show only a part", async () => {
    const key = await limitedKey({ hostedTools: "allow" }, { limit: "0.0015" });
    const stream = `{"model":"small","stream":true,${messages}`;
    const whole = await send(key, `${stream},"mcp_servers":[]}`, { path: chat });
    expect([whole.status, whole.error.code]).toEqual([402, "budget_exceeded"]);
    expect((await send(key, `${stream}}`, { path: chat })).status).toBe(200);
  });

  it("stay refused on endpoints that answer with anything but text", async () => {
    for (const hostedTools of ["remove", "allow"] as const) {
      const given = '{"model":"small","input":"hi","plugins":[{}]}';
      const refused = await send(await limitedKey({ hostedTools }), given, { path: "/v1/embeddings" });
      expect(refused).toMatchObject({ status: 400, sent: [], error: { param: "plugins" } });
    }
  });
});

describe("a retry with the same idempotency key", () => {
  it("loses the same tools, whatever the policy is by then", async () => {
    const name = `key-${keys}`;
    const key = await limitedKey({ hostedTools: "remove", outputCap: 70 });
    const headers = { "idempotency-key": "once" };
    const expected = `{"max_output_tokens":70,${withoutSearch.slice(1)}`;
    expect((await send(key, codex, { headers })).sent).toEqual([expected]);
    const keep = { ...tools, keys: proxy.serving.keys };
    await updateKey(keep, name, { hostedTools: "allow" });
    const again = await send(key, codex, { headers });
    expect([again.sent, again.removed]).toEqual([[expected], "web_search"]);
    expect((await send(key, codex)).sent).toEqual([`{"max_output_tokens":70,${codex.slice(1)}`]);
    const other = await send(key, `{"model":"small","input":"hi","tools":[${fn}]}`, { headers });
    expect([other.status, other.sent]).toEqual([409, []]);
  });

  it("is refused if only now a hard budget applies", async () => {
    const name = `key-${keys++}`;
    const key = await proxy.addKey(name, { hostedTools: "remove" });
    const headers = { "idempotency-key": "later" };
    expect((await send(key, codex, { headers })).sent).toEqual([codex]);
    await proxy.budget(`key:${name}`, "100");
    const again = await send(key, codex, { headers });
    expect([again.status, again.sent]).toEqual([409, []]);
    expect(again.error.message).toContain("was sent with different limits");
  });
});
