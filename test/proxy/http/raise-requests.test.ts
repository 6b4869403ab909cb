import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { addAdmin, callAdmin } from "../../support/admin-client.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { until } from "../../support/until.ts";

describe("a key that a budget refuses", () => {
  let proxy: RunningProxy;
  let bob: string;
  let editor: string;
  beforeAll(async () => {
    proxy = await startProxy();
    bob = await proxy.addKey("bob");
    editor = await addAdmin(proxy.database, "edward", "editor");
    await proxy.budget("key:alice", "0.00000001", "1d");
  });
  afterAll(() => proxy[Symbol.asyncDispose]());

  const callAsKey = async (key: string, path: string, body?: object) => {
    const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const answer = await fetch(`${proxy.url}/v1/farebox/${path}`, { headers, ...init });
    return { status: answer.status, json: (await answer.json()) as { error?: { message: string }; id?: string } };
  };
  const chat = async () => {
    const answer = await proxy.chat({ max_tokens: 20 });
    await answer.arrayBuffer();
    return answer.status;
  };
  const admin = (method: string, path: string, body?: object) =>
    callAdmin(proxy.url, method, path, { token: editor, body });

  it("can request a raise, which alerts admins and grants what they approve", async () => {
    const raise = { amount_usd: "5", why: "  an evaluation " };
    expect(await callAsKey(proxy.key, "raises", { ...raise, why: "x".repeat(257) })).toMatchObject({ status: 400 });
    expect(await callAsKey(proxy.key, "raises", { ...raise, amount_usd: "-1" })).toMatchObject({ status: 400 });
    expect(await callAsKey(bob, "raises", raise)).toMatchObject({
      status: 409,
      json: { error: { message: "No matching budget refuses the requests of this key now." } },
    });
    expect(await chat()).toBe(402);
    // Refusals are written every two seconds; the request for a raise writes this one at once.
    expect(await callAsKey(proxy.key, "raises", raise)).toMatchObject({ status: 201 });
    expect(await callAsKey(proxy.key, "raises", raise)).toMatchObject({
      status: 409,
      json: { error: { message: "This key already has an open raise request for this budget." } },
    });
    const { raises } = (await admin("GET", "/raises?open=true")).json as { raises: [{ id: string }] };
    expect(raises).toMatchObject([
      {
        key: "alice",
        scope: "key:alice",
        period: "1d",
        amount_usd: "5.00",
        why: "an evaluation",
        spenders: 1,
        spender_names: ["alice"],
      },
    ]);
    const alerts = async () => (await admin("GET", "/alerts")).json as { alerts: { type: string; text: string }[] };
    await until(async () => (await alerts()).alerts.some(({ type }) => type === "raise_requested"));
    const alert = (await alerts()).alerts.find(({ type }) => type === "raise_requested");
    expect(alert?.text).toContain(`the key alice asks for 5.00 USD more in the budget key:alice per 1d`);

    const [{ id }] = raises;
    for (const [path, body] of [
      [`/raises/${id}/approve`, { amount_usd: "0" }],
      ["/budgets/raises", { scope: "key:alice", amount_usd: "five", why: "x" }],
    ] as const)
      expect((await admin("POST", path, body)).json).toMatchObject({
        error: { param: "amount_usd", message: expect.stringMatching(/^Amount_usd must be/i) },
      });
    expect(await admin("POST", `/raises/${id}/approve`, { amount_usd: "1" })).toMatchObject({ status: 200 });
    expect(await chat()).toBe(200);
    expect((await callAsKey(proxy.key, "me")).json).toMatchObject({
      budgets: [{ scope: "key:alice", raised_usd: "1.00" }],
      raise_requests: [{ id, state: "approved", amount_usd: "5.00", approved_usd: "1.00" }],
    });
    expect((await callAsKey(bob, "me")).json).toMatchObject({ raise_requests: [] });
    expect((await admin("POST", `/raises/${id}/deny`)).json).toMatchObject({
      error: { message: `The raise request ${id} was already approved or denied.` },
    });
    expect((await admin("GET", "/raises?open=true")).json).toEqual({ raises: [] });
  });

  it("must name the budget if several refuse it, and the approver sees the other spenders", async () => {
    await proxy.budget("all", "0.00000001", "1mo");
    await proxy.budget("each-key", "0", "1h");
    const raise = { amount_usd: "2", why: "a demo" };
    expect(await callAsKey(bob, "raises", raise)).toMatchObject({ status: 400 });
    expect(await callAsKey(bob, "raises", { ...raise, scope: "all", period: "1mo" })).toMatchObject({
      status: 201,
      json: { state: "open", scope: "all", subject: null },
    });
    expect(await callAsKey(bob, "raises", { ...raise, scope: "each-key" })).toMatchObject({
      status: 201,
      json: { subject: "key=bob" },
    });
    const { raises } = (await admin("GET", "/raises")).json as { raises: object[] };
    expect(raises).toMatchObject([
      { scope: "each-key", key: "bob", spenders: 1, spender_names: ["bob"] },
      { scope: "all", key: "bob", spenders: 2, spender_names: ["alice", "bob"] },
      { state: "approved" },
    ]);
  });
});
