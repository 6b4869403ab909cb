import { describe, expect, it } from "vitest";
import { beginSession } from "../../../src/admin/run-sessions.ts";
import { resumeKey, revokeKey, suspendKey, updateKey } from "../../../src/admin/key-changes.ts";
import { runBudgetKeptMs, runSessionsMax } from "../../../src/core/keys.ts";
import { runSessionSchema, type RunSessionJson } from "../../../src/reporting/shapes/figures.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

interface Begun {
  readonly id: string;
  readonly api_key: string;
  readonly key: string;
  readonly expires_at: string;
}

interface ErrorBody {
  readonly error: { readonly message: string; readonly code: string; readonly param: string | null };
}

const path = "/v1/farebox/sessions";

function call(proxy: RunningProxy, method: string, target: string, key: string | null, body?: unknown) {
  return fetch(proxy.url + target, {
    method,
    headers: {
      ...(key !== null && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
    },
    ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
}

async function begin(proxy: RunningProxy, body: object = {}, key = proxy.key): Promise<Begun> {
  const answer = await call(proxy, "POST", path, key, body);
  expect(answer.status).toBe(201);
  return (await answer.json()) as Begun;
}

async function sums(proxy: RunningProxy, { id }: Begun, key: string, method = "GET"): Promise<RunSessionJson> {
  const answer = await call(proxy, method, `${path}/${id}`, key);
  expect(answer.status).toBe(200);
  const json = await answer.json();
  expect(runSessionSchema.safeParse(json).error?.issues).toBe(undefined);
  return json as RunSessionJson;
}

async function refusal(answer: Response | Promise<Response>): Promise<readonly [number, string]> {
  const refused = await answer;
  return [refused.status, ((await refused.json()) as ErrorBody).error.message];
}

const small = { max_tokens: 5 };

describe("a session", () => {
  it("acts as its key, tags its requests, and reports their cost at the end", async () => {
    await using proxy = await startProxy();
    const session = await begin(proxy, { tags: { feature: "search" }, budget_usd: "1" });
    expect(session).toEqual({
      id: expect.stringMatching(/^run_[a-z2-7]{20}$/),
      api_key: expect.stringContaining(`sk-fb-${session.id}-`),
      key: "alice",
      expires_at: expect.any(String),
    });
    const credential = session.api_key;
    expect((await proxy.chat(small, { key: credential })).status).toBe(200);
    expect((await proxy.chat(small, { key: credential, headers: { "x-farebox-tag": "step=two" } })).status).toBe(200);
    expect((await proxy.chat({ ...small, model: "gpt-4o-mini" }, { key: credential })).status).toBe(200);
    expect((await proxy.chat(small)).status).toBe(200);
    const charges = await proxy.charges();
    const pinned = { feature: "search", session: session.id };
    expect(charges.map(({ tags }) => tags)).toEqual([pinned, { ...pinned, step: "two" }, pinned, {}]);
    expect(new Set(charges.map(({ key }) => key)).size).toBe(1);
    const ended = await sums(proxy, session, credential, "DELETE");
    const cost = charges.slice(0, 3).reduce((sum, charge) => sum + (charge.cost ?? 0n), 0n);
    expect(ended).toMatchObject({
      id: session.id,
      key: "alice",
      state: "ended",
      tags: { feature: "search" },
      requests: 3,
      pending: { requests: 0, held_usd: "0.00" },
      estimated: { requests: 0, cost_usd: "0.00" },
      cut: { requests: 0, cost_usd: "0.00" },
      agents: [{ agent: null, depth: 0, requests: 3, total_usd: expect.any(String) }],
      budget: { limit_usd: "1.00" },
    });
    expect(BigInt(Math.round(Number(ended.cost_usd) * 1e12))).toBe(cost);
    expect(ended.models.map(({ requests }) => requests).reduce((a, b) => a + b)).toBe(3);
    expect(ended.models).toHaveLength(2);
    expect(await sums(proxy, session, credential, "DELETE")).toEqual(ended);
    expect(await sums(proxy, session, proxy.key)).toEqual(ended);
    expect(await refusal(proxy.chat(small, { key: credential }))).toEqual([401, "This session has ended."]);
  });

  it("has its own hard budget in addition to those of its key", async () => {
    await using proxy = await startProxy();
    const { api_key: key, id } = await begin(proxy, { budget_usd: "0" });
    const [status, message] = await refusal(proxy.chat(small, { key }));
    expect([status, message]).toEqual([402, expect.stringContaining("of this session of key alice")]);
    expect(message).toContain(`key:alice tag:session=${id}`);
    expect((await proxy.chat(small)).status).toBe(200);
    const me = await call(proxy, "GET", "/v1/farebox/me", key);
    expect(await me.json()).toMatchObject({
      key: { name: "alice" },
      budgets: [{ scope: `key:alice tag:session=${id}`, limit_usd: "0.00" }],
    });
    expect(await (await call(proxy, "GET", "/v1/farebox/me", proxy.key)).json()).toMatchObject({ budgets: [] });
    await proxy.budget("key:alice", "0", "1mo");
    const roomy = await begin(proxy, { budget_usd: "5" });
    expect((await proxy.chat(small, { key: roomy.api_key })).status).toBe(402);
    expect(await proxy.metrics()).not.toContain("run_");
  });

  it("stays within its budget under 100 parallel requests", async () => {
    await using proxy = await startProxy();
    const { api_key: key, id } = await begin(proxy, { budget_usd: "0.005" });
    const answers = await Promise.all(Array.from({ length: 100 }, () => proxy.chat({ max_tokens: 100 }, { key })));
    const statuses = Map.groupBy(answers, ({ status }) => status);
    await Promise.all(answers.map((answer) => answer.arrayBuffer()));
    expect(statuses.get(200)?.length).toBeGreaterThan(0);
    expect(statuses.get(200)?.length).toBeLessThan(100);
    const charges = await proxy.charges();
    const spent = charges.reduce((sum, { cost }) => sum + (cost ?? 0n), 0n);
    expect(spent).toBeLessThanOrEqual(5_000_000_000n);
    expect(charges.filter(({ tags }) => tags["session"] === id)).toHaveLength(statuses.get(200)?.length ?? 0);
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it("checks its key with every request", async () => {
    await using proxy = await startProxy();
    const { keys } = proxy.serving;
    const tools = { keys, clock: { now: Date.now } as never, by: "test" };
    const bob = await proxy.addKey("bob");
    const { api_key: key } = await begin(proxy, {}, bob);
    const chat = () => proxy.chat(small, { key });
    expect((await chat()).status).toBe(200);
    await updateKey(tools, "bob", { models: ["gpt-4o-mini"] });
    expect((await chat()).status).toBe(403);
    await updateKey(tools, "bob", { models: null, limits: { rpm: 1 } });
    expect((await chat()).status).toBe(200);
    expect((await chat()).status).toBe(429);
    await updateKey(tools, "bob", { limits: { rpm: null } });
    expect((await chat()).status).toBe(200);
    await suspendKey(tools, "bob");
    expect(await refusal(chat())).toEqual([401, "This API key is suspended; an administrator can resume it."]);
    await resumeKey(tools, "bob");
    await revokeKey(tools, "bob");
    expect(await refusal(chat())).toEqual([401, "This API key has been revoked."]);
  });

  it("expires, and stays closed after cleanup even if the clock is set back", async () => {
    const noon = Date.parse("2026-11-20T12:00:00Z");
    const clock = manualClock(noon);
    await using proxy = await startProxy({ clock });
    const { api_key: key, expires_at: expires } = await begin(proxy, { expires_in_seconds: 60 });
    expect(expires).toBe("2026-11-20T12:01:00.000Z");
    const me = () => call(proxy, "GET", "/v1/farebox/me", key);
    expect((await me()).status).toBe(200);
    clock.set(noon + 60_000);
    expect(await refusal(me())).toEqual([401, "This session has expired."]);
    await proxy.serving.sessions.tidy(noon + 60_000 + runBudgetKeptMs);
    clock.set(noon);
    expect((await refusal(me()))[0]).toBe(401);
  });

  it("cannot be used with a credential that this ledger did not sign", async () => {
    await using proxy = await startProxy();
    await using other = await startProxy();
    const session = await begin(proxy);
    const elsewhere = await begin(other);
    const { api_key: key } = session;
    const altered = [
      key.replace(/^(sk-fb-run_)./, (_, start: string) => `${start}${key[10] === "a" ? "b" : "a"}`),
      key.slice(0, -1) + (key.endsWith("A") ? "B" : "A"),
      elsewhere.api_key,
    ];
    for (const each of altered) expect((await refusal(proxy.chat(small, { key: each })))[0]).toBe(401);
    expect(await proxy.charges()).toEqual([]);
  });

  it("cannot begin another session or access the admin API or the dashboard", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: "admin-token-of-the-tests-0123456789" } });
    const { api_key: key } = await begin(proxy);
    // The session has been used before, so it is cached.
    expect((await call(proxy, "GET", "/v1/farebox/me", key)).status).toBe(200);
    expect(await refusal(call(proxy, "POST", path, key, {}))).toEqual([
      401,
      "A session cannot begin another session; send the key itself.",
    ]);
    expect((await call(proxy, "GET", "/admin/v1/keys", key)).status).toBe(401);
    const signIn = await fetch(`${proxy.url}/dashboard/session`, {
      method: "POST",
      headers: { "content-type": "application/json", origin: proxy.url, "x-farebox-dashboard": "1" },
      body: JSON.stringify({ token: key }),
    });
    expect(signIn.status).toBe(401);
  });

  it("is visible only to its key and to itself", async () => {
    await using proxy = await startProxy();
    const bob = await proxy.addKey("bob");
    const one = await begin(proxy);
    const two = await begin(proxy);
    for (const key of [bob, two.api_key])
      for (const method of ["GET", "DELETE"])
        expect((await refusal(call(proxy, method, `${path}/${one.id}`, key)))[0]).toBe(404);
    expect((await call(proxy, "GET", `${path}/${one.id}`, null)).status).toBe(401);
    expect((await call(proxy, "GET", `${path}/run_none`, proxy.key)).status).toBe(404);
    expect(await sums(proxy, one, proxy.key)).toMatchObject({ state: "open", budget: null, requests: 0, models: [] });
  });

  it("is refused with the name of an invalid field", async () => {
    await using proxy = await startProxy();
    for (const [body, param] of [
      [{ budget_usd: "-1" }, "budget_usd"],
      [{ budget_usd: 2 }, "budget_usd"],
      [{ expires_in_seconds: 43_201 }, "expires_in_seconds"],
      [{ expires_in_seconds: 0 }, "expires_in_seconds"],
      [{ tags: { session: "mine" } }, "tags"],
      [{ tags: { Name: "x" } }, "tags"],
      [{ tags: { a: "x,y" } }, "tags"],
      [{ tags: { a: " x" } }, "tags"],
      [{ tags: Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`t${n}`, "x"])) }, "tags"],
      [{ budget: "1" }, "budget"],
      ["[]", null],
      ["{", null],
    ] as const) {
      const answer = await call(proxy, "POST", path, proxy.key, body);
      expect(answer.status).toBe(400);
      expect(((await answer.json()) as ErrorBody).error.param).toBe(param);
    }
    expect((await call(proxy, "POST", path, "sk-fb-none-aaaaaaaaaaaaaaaaaaaaaaaa", {})).status).toBe(401);
    expect((await call(proxy, "POST", path, proxy.key)).status).toBe(201);
  });

  it("is refused if the key has the maximum of open sessions", async () => {
    await using proxy = await startProxy();
    const key = (await proxy.serving.keys.find("alice")) as never;
    const wish = { budget_usd: null, tags: {}, expires_in_seconds: 60 };
    const tools = { sessions: proxy.serving.sessions, clock: { now: Date.now } as never };
    for (let n = 0; n < runSessionsMax; n++)
      expect(await beginSession(tools, key, wish, { by: "test" })).toMatchObject({ ok: true });
    const [status, message] = await refusal(call(proxy, "POST", path, proxy.key, {}));
    expect([status, message]).toEqual([
      409,
      expect.stringContaining("alice has too many sessions: at most 100 may be open"),
    ]);
  });
});

describe("the tag of a session", () => {
  it("is reserved for its credential and cannot be changed", async () => {
    await using proxy = await startProxy();
    const { id, api_key: key } = await begin(proxy, { tags: { team: "x" } });
    const tagged = (tags: string, init: { key?: string } = {}) =>
      proxy.chat(small, { ...init, headers: { "x-farebox-tag": tags } });
    expect(await refusal(tagged(`session=${id}`))).toEqual([
      400,
      `only requests with the credential of session ${id} may have the tag session=${id}`,
    ]);
    for (const tags of ["session=other", "session=run_other", "team=y"])
      expect((await refusal(tagged(tags, { key })))[0]).toBe(400);
    const seven = Array.from({ length: 7 }, (_, n) => `t${n}=x`).join(",");
    expect((await refusal(tagged(seven, { key })))[0]).toBe(400);
    expect(await proxy.charges()).toEqual([]);
    expect((await tagged("session=mine, team=y")).status).toBe(200);
    expect((await tagged(`session=${id}, team=x`, { key })).status).toBe(200);
    expect((await tagged(seven.slice(0, -5), { key })).status).toBe(200);
    expect((await proxy.charges()).map(({ tags }) => tags["session"])).toEqual(["mine", id, id]);
  });
});
