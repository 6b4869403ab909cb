import { describe, expect, it } from "vitest";
import { callAdmin } from "../support/admin-client.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";

const token = "an-editor-for-budgets-on-users-0123456789";
const env = { FAREBOX_ADMIN_TOKEN: token };

async function setBudget(proxy: RunningProxy, scope: string, limit: string) {
  const body = { scope, period: "total", mode: "hard", limit_usd: limit };
  return await callAdmin(proxy.url, "PUT", "/budgets", { token, body });
}

/** Sends a small request and returns its status after it has settled. */
async function statusOf(proxy: RunningProxy, more: object, key = proxy.key, headers: Record<string, string> = {}) {
  const response = await proxy.chat({ max_tokens: 5, ...more }, { key, headers });
  await response.arrayBuffer();
  await proxy.serving.settled();
  return response.status;
}

describe.each(["plain", "hash"])("a budget on users, with FAREBOX_USERS=%s", (users) => {
  it("refuses only the user that exhausted it, wherever the request names the user", async () => {
    await using proxy = await startProxy({ env: { ...env, FAREBOX_USERS: users } });
    expect((await setBudget(proxy, "key:alice user:u_1", "0")).status).toBe(200);
    expect(await statusOf(proxy, { user: "u_1" })).toBe(402);
    expect(await statusOf(proxy, { safety_identifier: "u_1", user: "u_2" })).toBe(402);
    expect(await statusOf(proxy, { user: "u_2" }, proxy.key, { "x-farebox-user": "u_1" })).toBe(402);
    expect(await statusOf(proxy, { user: "u_2" })).toBe(200);
    expect(await statusOf(proxy, {})).toBe(200);
    const other = await proxy.addKey("bob");
    expect(await statusOf(proxy, { user: "u_1" }, other)).toBe(200);
    const pinned = await proxy.addKey("carol", { user: "u_1" });
    expect((await setBudget(proxy, "key:carol user:u_1", "0")).status).toBe(200);
    expect(await statusOf(proxy, { user: "u_2" }, pinned)).toBe(402);
  });

  it("has one window per user and one for requests without a user", async () => {
    await using proxy = await startProxy({ env: { ...env, FAREBOX_USERS: users } });
    expect((await setBudget(proxy, "key:alice each-user", "0.0005")).status).toBe(200);
    const untilRefused = async (more: object) => {
      for (let count = 0; count < 50; count++) if ((await statusOf(proxy, more)) === 402) return count;
      return Infinity;
    };
    const [first, second, none] = [
      await untilRefused({ user: "u_1" }),
      await untilRefused({ user: "u_2" }),
      await untilRefused({}),
    ];
    expect(first).toBeGreaterThan(0);
    expect([second, none]).toEqual([first, first]);
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it("is found and removed by the user's name", async () => {
    await using proxy = await startProxy({ env: { ...env, FAREBOX_USERS: users } });
    await setBudget(proxy, "key:alice user:u%201", "5");
    const found = await callAdmin(proxy.url, "GET", "/budgets?scope=key:alice%20user:u%25201", { token });
    const { budgets } = found.json as { budgets: { scope: string }[] };
    expect(budgets.map(({ scope }) => scope)).toEqual([
      expect.stringMatching(users === "plain" ? /^key:alice user:u%201$/ : /^key:alice user:hash_[0-9a-f]{32}$/),
    ]);
    const again = await setBudget(proxy, budgets[0]?.scope ?? "", "6");
    expect(again.json).toMatchObject({ limit_usd: "6.00", scope: budgets[0]?.scope });
    const removed = await callAdmin(proxy.url, "DELETE", "/budgets?scope=key:alice%20user:u%25201&period=total", {
      token,
    });
    expect(removed.status).toBe(200);
  });
});

describe("setting a budget on users with FAREBOX_USERS=off", () => {
  it.each(["key:alice user:u_1", "key:alice each-user"])("is refused for %s", async (scope) => {
    await using proxy = await startProxy({ env: { ...env, FAREBOX_USERS: "off" } });
    const reply = await setBudget(proxy, scope, "5");
    expect(reply.status).toBe(409);
    expect(reply.json).toMatchObject({
      error: {
        message: expect.stringMatching(
          /^A budget on users has no effect, because FAREBOX_USERS is off; set it to plain or hash/,
        ),
      },
    });
  });
});

describe("a budget on a model", () => {
  it("applies to its aliases and to requests that name it among other models", async () => {
    await using proxy = await startProxy({ env });
    expect((await setBudget(proxy, "key:alice model:gpt-4o", "0")).status).toBe(200);
    for (const more of [
      { model: "gpt-4o" },
      { model: "gpt-4o-2024-08-06" },
      { model: "gpt-4o-mini", models: ["gpt-4o"] },
    ])
      expect([more, await statusOf(proxy, more)]).toEqual([more, 402]);
    expect(await statusOf(proxy, { model: "gpt-4o-mini" })).toBe(200);
  });
});

describe("a budget on a label", () => {
  it("applies to a key from the first request after the key gets the label", async () => {
    await using proxy = await startProxy({ env });
    expect((await setBudget(proxy, "label:env=prod", "0")).status).toBe(200);
    const key = await proxy.addKey("bob", { labels: { env: "test" } });
    expect(await statusOf(proxy, {}, key)).toBe(200);
    const body = { labels: { env: "prod" } };
    expect((await callAdmin(proxy.url, "PATCH", "/keys/bob", { token, body })).status).toBe(200);
    expect(await statusOf(proxy, {}, key)).toBe(402);
  });
});
