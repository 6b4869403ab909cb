import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callAdmin } from "../../support/admin-client.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { until } from "../../support/until.ts";

type Answer = ReturnType<typeof JSON.parse>;

const token = "from-the-settings-0123456789";
let proxy: RunningProxy;
const fetchList = async (path: string) => {
  const { status, json } = await callAdmin(proxy.url, "GET", path, { token });
  return { status, json: json as Answer };
};
const get = async (path: string) => {
  const { status, json } = await fetchList(path);
  expect([path, status, json]).toEqual([path, 200, expect.anything()]);
  return json;
};
const messageOf = async (path: string) => {
  const { status, json } = await fetchList(path);
  return `${status} ${json.error?.message}`;
};

beforeAll(async () => {
  proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
  await proxy.addKey("bob", { team: "red" });
  await proxy.addKey("carol", { team: "red" });
  await proxy.budget("key:bob", "0", "1d");
  await proxy.budget("each-key", "1", "1d");
  await (await proxy.chat({})).arrayBuffer();
  await proxy.charges();
  const refused = await fetch(`${proxy.url}/v1/chat/completions`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      authorization: `Bearer ${await proxy.addKey("dora", { team: "blue" })}`,
    },
    body: JSON.stringify({ model: "no-such-model", messages: [] }),
  });
  expect(refused.status).toBeGreaterThan(399);
});
afterAll(() => proxy[Symbol.asyncDispose]());

describe("lists of the admin API", () => {
  it("state each key's usage and fullest budget", async () => {
    const { keys, next } = await get("/keys?sort=spent");
    expect(next).toBeNull();
    expect(keys[0]).toMatchObject({
      name: "alice",
      usage: { spent_usd: expect.stringMatching(/^0\.0*[1-9]/), requests: 1, last_used_at: expect.any(String) },
      fullest: { scope: "each-key", key: "alice", period: "1d", refusing: false },
    });
    expect((await get("/keys?q=BO")).keys).toMatchObject([
      { name: "bob", fullest: { scope: "key:bob", key: null, limit_usd: "0.00", used_percent: 100, refusing: true } },
    ]);
    expect(await get("/keys/bob")).toMatchObject({
      usage: { spent_usd: "0.00", requests: 0, last_used_at: null, refused_today: 0 },
      budgets: [
        { scope: "key:bob", used_percent: 100, refusing: true },
        { scope: "each-key", used_percent: 0, refusing: false },
      ],
    });
  });

  it("count refused requests once they are recorded", async () => {
    await until(async () => (await get("/keys/dora")).usage.refused_today === 1);
    expect((await get("/teams/blue")).usage).toMatchObject({ requests: 0, refused_today: 1 });
  });

  it("include teams, models, ranked budgets and budget history", async () => {
    expect((await get("/teams?q=red")).teams).toMatchObject([{ name: "red", keys: ["bob", "carol"], live_keys: 2 }]);
    expect(await get("/teams/red")).toMatchObject({ keys: ["bob", "carol"], budgets: [] });
    const { models } = await get("/models?sort=requests&limit=1");
    expect(models).toMatchObject([{ priced: true, usage: { requests: 1 } }]);
    const [{ model }] = models;
    expect(await get(`/models/${model}`)).toEqual({ ...models[0], budgets: [] });
    expect((await get("/budgets/ranked")).budgets).toMatchObject([
      { scope: "key:bob", windows: 1, refusing: 1, used_percent: 100, fullest: [{ scope: "key:bob" }] },
      { scope: "each-key", windows: 4, refusing: 0, fullest: [{ key: "alice" }] },
    ]);
    expect((await get("/budgets?refusing=true")).budgets).toMatchObject([{ scope: "key:bob", key: null }]);
    expect((await get("/budgets?q=carol")).budgets).toMatchObject([{ scope: "each-key", key: "carol" }]);
    const history = await get("/budgets/history?scope=each-key&period=1d&key=alice");
    expect(history.windows).toHaveLength(24);
    expect(history.windows[0]).toMatchObject({ requests: 1, ends_at: expect.any(String) });
    expect(await get("/budgets/history?scope=each-key&period=1d&subject=key%3Dalice")).toEqual(history);
    expect((await get("/budgets/history?scope=key:alice&period=total")).windows).toMatchObject([
      { requests: 1, ends_at: null },
    ]);
  });

  it("refuse invalid parameters and unknown names, and say why", async () => {
    expect(await messageOf(`/keys?q=${"a".repeat(101)}`)).toContain("400 ");
    expect(await messageOf(`/keys?q=${"a".repeat(101)}`)).toContain("'q' must be a text of at most 100 characters");
    expect(await messageOf("/keys?q=%00")).toContain("'q' must be a text of at most 100 characters");
    expect(await messageOf("/keys?sort=cost")).toContain(
      "'sort' must be one of created, name, spent, share, last_used",
    );
    expect(await messageOf("/teams?order=down")).toContain("'order' must be asc or desc");
    expect(await messageOf("/budgets?refusing=yes")).toContain("'refusing' must be true");
    expect(await messageOf("/budgets?scope=bob")).toContain("did you mean key:bob or team:bob?");
    expect(await messageOf("/budgets?scope=key:bo")).toContain("404 ");
    expect(await messageOf("/budgets/history?scope=each-key&subject=user%3Du")).toContain(
      'must be key=VALUE, not "user=u"',
    );
    expect(await messageOf("/budgets/history?scope=team:red&key=bob")).toContain("Key is only for the scopes each-key");
    expect(await messageOf("/models/none")).toContain("404 ");
    for (const path of ["/models/lab/none", "/prices/lab/none", "/prices/lab/none/history"])
      expect(await messageOf(path)).toContain('names the model "lab/none"');
    expect(await messageOf("/keys/lab/none")).toContain("There is no such path");
    expect(await messageOf("/teams/rde")).toContain('404 There is no team "rde"; did you mean "red"?');
    const { next } = await get("/keys?sort=name&limit=1");
    for (const path of ["/keys?sort=spent", "/keys?sort=name&order=desc", "/budgets"])
      expect(await messageOf(`${path}${path.includes("?") ? "&" : "?"}cursor=${next}`)).toContain("in the same order");
  });
});
