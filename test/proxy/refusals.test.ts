import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { revokeKey } from "../../src/admin/key-changes.ts";
import { refusalListSchema, type RefusalJson } from "../../src/reporting/shapes/charges.ts";
import { callAdmin } from "../support/admin-client.ts";
import { chatWith } from "../support/new-charges.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { patientClock } from "../support/patient-clock.ts";

const adminToken = "the-token-of-the-admin-api-in-tests";
const env = { FAREBOX_ADMIN_TOKEN: adminToken };

/** Returns the refusals in the ledger, newest first. */
async function recorded(
  proxy: RunningProxy,
  query = "",
  token = adminToken,
  path = "/admin/v1",
): Promise<RefusalJson[]> {
  await proxy.serving.settled();
  await proxy.serving.recorder.flush();
  const answer = await fetch(`${proxy.url}${path}/refusals?${query}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  const json = await answer.json();
  expect(answer.status, JSON.stringify(json)).toBe(200);
  return [...refusalListSchema.parse(json).refusals];
}

/** Describes refusals with their counts, summed over minutes. */
function counted(rows: readonly RefusalJson[]): string[] {
  const counts = new Map<string, number>();
  for (const { key, team, route, model, code, scope, period, count } of rows) {
    const name = [key, team, route, model, code, scope, period].join(" ");
    counts.set(name, (counts.get(name) ?? 0) + count);
  }
  return [...counts].map(([name, count]) => `${count} ${name}`).toSorted();
}

describe("refusals", () => {
  it("are recorded with key, team, route, model, code, scope, period and needed amount", async () => {
    await using proxy = await startProxy({ env });
    const bob = await proxy.addKey("bob", { team: "red", limits: { rpm: 1 } });
    await proxy.budget("key:alice", "0.000001", "1d");
    const needed: string[] = [];
    for (const max_tokens of [100, 4000, 200]) {
      const answer = await proxy.chat({ max_tokens });
      expect(answer.status).toBe(402);
      needed.push(((await answer.json()) as { error: { metadata: { needed_usd: string } } }).error.metadata.needed_usd);
    }
    expect((await proxy.chat({ max_tokens: 1 }, { key: bob })).status).toBe(200);
    expect((await proxy.chat({ max_tokens: 1 }, { key: bob })).status).toBe(429);
    const rows = await recorded(proxy);
    expect(counted(rows)).toEqual([
      "1 bob red /v1/chat/completions  rate_limit_exceeded key:bob ",
      "3 alice  /v1/chat/completions gpt-4o budget_exceeded key:alice 1d",
    ]);
    expect(rows.map(({ needed_usd }) => needed_usd)).toContain(needed[1]);
    const page = await proxy.metrics();
    expect(page).toContain('farebox_key_refusals_total{key="alice",code="budget_exceeded"} 3');
    expect(page).toContain('farebox_key_refusals_total{key="bob",code="rate_limit_exceeded"} 1');
  });

  it("are filtered by the admin API, and a key sees only its own", async () => {
    await using proxy = await startProxy({ env });
    const bob = await proxy.addKey("bob", { team: "red", models: ["gpt-4o-mini"] });
    await proxy.budget("key:alice", "0.000001");
    await proxy.chat({ max_tokens: 10 });
    await proxy.chat({}, { key: bob });
    const of = async (query: string) => (await recorded(proxy, query)).map(({ key, code }) => `${key} ${code}`);
    expect(await of("key=bob")).toEqual(["bob model_not_allowed"]);
    expect(await of("team=red")).toEqual(["bob model_not_allowed"]);
    expect(await of("code=budget_exceeded")).toEqual(["alice budget_exceeded"]);
    expect(await of("model=gpt-4o")).toHaveLength(2);
    expect(await of("model=gpt-4o-mini")).toEqual([]);
    expect(await of("q=ALI")).toEqual(["alice budget_exceeded"]);
    expect(await of("q=not_allowed&sort=count")).toEqual(["bob model_not_allowed"]);
    expect(await of("sort=needed&order=desc")).toEqual(["alice budget_exceeded", "bob model_not_allowed"]);
    expect(await of("sort=needed&order=asc")).toEqual(["bob model_not_allowed", "alice budget_exceeded"]);
    expect(await of("until=1h")).toEqual([]);
    expect(await of("since=1h&limit=1")).toHaveLength(1);
    const own = counted(await recorded(proxy, "", bob, "/v1/farebox"));
    expect(own).toEqual(["1 bob red /v1/chat/completions gpt-4o model_not_allowed  "]);
    expect(await recorded(proxy, "q=gpt&sort=count", bob, "/v1/farebox")).toHaveLength(1);
    expect(await recorded(proxy, "q=alice", bob, "/v1/farebox")).toEqual([]);
    const listRefusals = (query: string) => callAdmin(proxy.url, "GET", `/refusals?${query}`, { token: adminToken });
    const { next } = (await listRefusals("sort=count&limit=1")).json as { next: string };
    for (const [query, message] of [
      ["sort=key", "'sort' must be one of time, count, needed."],
      ["order=up", "'order' must be asc or desc."],
      [`q=${"x".repeat(101)}`, "'q' must be a text of at most 100 characters."],
      [`sort=needed&cursor=${next}`, "Cursor must be the cursor of an earlier list of refusals in the same order."],
      [`cursor=${next}`, "Cursor must be the cursor of an earlier list of refusals in the same order."],
    ] as const) {
      const { status, json } = await listRefusals(query);
      expect([query, status, json]).toMatchObject([query, 400, { error: { message } }]);
    }
    for (const query of ["key=alice", "code=nothing", "cursor=x", `sort=time&cursor=${next}`, "sort=key", "limit=0"]) {
      const answer = await fetch(`${proxy.url}/v1/farebox/refusals?${query}`, {
        headers: { authorization: `Bearer ${bob}` },
      });
      expect([query, answer.status]).toEqual([query, 400]);
    }
  });

  it("contain no text from clients, and invented names share one row", async () => {
    await using proxy = await startProxy({ env: { ...env, FAREBOX_UNPRICED: "refuse", FAREBOX_PASSTHROUGH: "all" } });
    const narrow = await proxy.addKey("narrow", { models: ["gpt-4o-mini"] });
    for (let n = 0; n < 30; n++) {
      await proxy.chat({ model: `sk-secret-${n}` });
      await proxy.chat({ model: `sk-secret-${n}` }, { key: narrow });
      const init = { method: "POST", headers: { authorization: `Bearer ${narrow}`, "content-type": "text/secret" } };
      await fetch(`${proxy.url}/v1/secret-path-${n}?model=sk-secret`, { ...init, body: "secret" });
      await fetch(`${proxy.url}/v1/models/sk-secret-${n}`, { headers: { authorization: `Bearer ${narrow}` } });
    }
    const rows = await recorded(proxy);
    expect(counted(rows)).toEqual([
      "30 alice  /v1/chat/completions other model_not_priced  ",
      "30 narrow  /*path  invalid_request  ",
      "30 narrow  /v1/chat/completions other model_not_priced  ",
      "30 narrow  /v1/models/:id  not_found  ",
    ]);
    expect(rows.length).toBeLessThanOrEqual(8);
    expect(JSON.stringify(rows)).not.toContain("secret");
  });

  it("of a revoked key are recorded under the key, and those of unknown keys in one row without a key", async () => {
    await using proxy = await startProxy({ env });
    const bob = await proxy.addKey("bob", { team: "red" });
    const { keys } = proxy.serving;
    await revokeKey({ keys, clock: { now: Date.now } as never, by: "test" }, "bob");
    expect((await proxy.chat({}, { key: bob })).status).toBe(401);
    for (const key of [`${bob}x`, "sk-fb-nothing", "sk-fb-aaaaaaaaaaaa-0123456789012345678901234567890123456789"])
      expect((await proxy.chat({}, { key })).status).toBe(401);
    // Paths that do not concern the gateway are not recorded.
    for (const path of ["/v1/farebox/me", "/admin/v1/keys", "/nowhere"]) await fetch(`${proxy.url}${path}`);
    expect(counted(await recorded(proxy))).toEqual([
      "1 bob red /v1/chat/completions  invalid_api_key  ",
      "3   /v1/chat/completions  invalid_api_key  ",
    ]);
  });

  it("have the code and the scope of their cause", async () => {
    await using proxy = await startProxy({
      env: { ...env, FAREBOX_BODY_LIMIT: "2000" },
    });
    const blue = await proxy.addKey("blue", { team: "blue" });
    const tokens = await proxy.addKey("tokens", { limits: { tpm: 20 } });
    const models = await proxy.addKey("models", { models: ["gpt-4o-mini"] });
    await proxy.budget("team:blue", "0.000001", "1w");
    await proxy.budget("key:alice", "5", "1d");
    const post = (path: string, body: string, key = proxy.key, headers: Record<string, string> = {}) =>
      fetch(`${proxy.url}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${key}`, ...headers },
        body,
      });
    const chats = "/v1/chat/completions";
    const text = (more: object = {}) =>
      JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "hello" }], max_tokens: 9, ...more });
    const long = "very long text ".repeat(60);
    const form = new FormData();
    form.set("file", new Blob(["sound"]), "a.wav");
    form.set("model", "whisper-1");
    form.set("temperature", "hot");
    form.append("model", "gpt-4o-transcribe");
    const requests: readonly (readonly [row: string, answer: () => Promise<Response>])[] = [
      ["alice  /v1/chat/completions  invalid_json  ", () => post(chats, "{")],
      ["alice  /v1/chat/completions  request_too_large  ", () => post(chats, text({ user: "x".repeat(3000) }))],
      [
        "alice  /v1/chat/completions  unsupported_encoding  ",
        () => post(chats, text(), proxy.key, { "content-encoding": "compress" }),
      ],
      [
        "alice  /v1/chat/completions  invalid_request  ",
        () => post(chats, text(), proxy.key, { "x-farebox-tag": "=" }),
      ],
      ["alice  /v1/chat/completions gpt-4o cost_not_bounded  ", () => post(chats, text({ web_search_options: {} }))],
      [
        "alice  /v1/chat/completions gpt-4o-2024-11-20 budget_exceeded key:alice 1d",
        () => post(chats, text({ model: "gpt-4o-2024-11-20", n: 128, max_tokens: 16_000 })),
      ],
      ["alice  /v1/chat/completions other model_not_priced  ", () => post(chats, text({ model: "invented" }))],
      [
        "alice  /v1/audio/transcriptions  invalid_request  ",
        () =>
          fetch(`${proxy.url}/v1/audio/transcriptions`, {
            method: "POST",
            headers: { authorization: `Bearer ${proxy.key}` },
            body: form,
          }),
      ],
      [
        "blue blue /v1/chat/completions gpt-4o budget_exceeded team:blue 1w",
        () => post(chats, text({ stream: true }), blue),
      ],
      [
        "blue blue /v1/embeddings text-embedding-3-small budget_exceeded team:blue 1w",
        () => post("/v1/embeddings", JSON.stringify({ model: "text-embedding-3-small", input: long }), blue),
      ],
      [
        "blue blue /v1/responses gpt-4o budget_exceeded team:blue 1w",
        () => post("/v1/responses", JSON.stringify({ model: "gpt-4o", input: "x" }), blue),
      ],
      [
        "tokens  /v1/chat/completions gpt-4o rate_limit_exceeded key:tokens ",
        () => post(chats, text({ messages: [{ role: "user", content: long }] }), tokens),
      ],
      ["models  /v1/chat/completions gpt-4o model_not_allowed  ", () => post(chats, text(), models)],
      [
        "models  /v1/models/:id  not_found  ",
        () => fetch(`${proxy.url}/v1/models/gpt-4o`, { headers: { authorization: `Bearer ${models}` } }),
      ],
    ];
    for (const [row, send] of requests) {
      const answer = await send();
      await answer.text();
      expect([row, answer.headers.get("x-farebox-error")]).toEqual([row, expect.any(String)]);
    }
    expect(counted(await recorded(proxy))).toEqual(requests.map(([row]) => `1 ${row}`).toSorted());
    const rows = await recorded(proxy);
    for (const { code, needed_usd: needed } of rows)
      expect([code, needed]).toEqual([code, code === "budget_exceeded" ? expect.stringMatching(/^\d+\.\d+$/) : null]);
  });

  it("are counted under the requested model name everywhere, like charges", async () => {
    await using proxy = await startProxy({ env });
    const model = "gpt-4o-2024-11-20";
    expect((await proxy.chat({ model, max_tokens: 5 })).status).toBe(200);
    await proxy.budget("key:alice", "0.000001");
    expect((await proxy.chat({ model, max_tokens: 5 })).status).toBe(402);
    await recorded(proxy);
    const get = async (path: string) =>
      (await fetch(`${proxy.url}/admin/v1${path}`, { headers: { authorization: `Bearer ${adminToken}` } })).json();
    expect(await get("/usage?by=model")).toMatchObject({ rows: [{ model, requests: 1, refused_requests: 1 }] });
    expect(await get(`/overview?model=${model}`)).toMatchObject({ refused_today: 1, today: { requests: 1 } });
    expect(await get(`/models/${model}`)).toMatchObject({ priced: true, usage: { requests: 1, refused_today: 1 } });
    // A model name has a page even if all its requests were refused.
    const other = "gpt-4o-2024-08-06";
    expect((await proxy.chat({ model: other })).status).toBe(402);
    await recorded(proxy);
    expect(await get(`/models/${other}`)).toMatchObject({ priced: true, usage: { requests: 0, refused_today: 1 } });
  });

  it("include a stream that its budget ends, once, and no gateway failures", async () => {
    await using proxy = await startProxy({ env: { ...env, FAREBOX_STREAM_SLICE: "64" }, clock: patientClock() });
    const bob = await proxy.addKey("bob");
    await proxy.budget("key:alice", "0.002");
    const answer = await proxy.chat(chatWith("endless:1", { stream: true }));
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain("budget_exceeded");
    await proxy.sandbox[Symbol.asyncDispose]();
    expect((await proxy.chat({ max_tokens: 1 }, { key: bob })).status).toBe(502);
    const rows = await recorded(proxy);
    expect(counted(rows)).toEqual(["1 alice  /v1/chat/completions gpt-4o budget_exceeded key:alice total"]);
  });

  it("in memory are written when the proxy ends", async () => {
    await using proxy = await startProxy({ env });
    await proxy.budget("key:alice", "0.000001");
    await proxy.chat({ max_tokens: 10 });
    await proxy.serving[Symbol.asyncDispose]();
    const ledger = new Database(proxy.database, { readonly: true });
    expect(ledger.prepare("select code, count from refusals").all()).toEqual([{ code: "budget_exceeded", count: 1 }]);
    ledger.close();
  });
});
