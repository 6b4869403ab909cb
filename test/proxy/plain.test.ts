import { expect, it } from "vitest";
import { formatUsd } from "../../src/core/money.ts";
import { startProxy } from "../support/running-proxy.ts";

it("a plain request reaches the gateway with its unknown fields and is charged what the gateway billed", async () => {
  await using proxy = await startProxy();
  await proxy.budget("key:alice", "1.00");
  const response = await proxy.chat({ max_tokens: 50, unknown_field: { kept: [1, 2] } });
  const body = await response.text();
  expect(response.status).toBe(200);
  const seen = proxy.sandbox.requests.at(-1);
  expect(seen?.body.toString()).toContain('"unknown_field":{"kept":[1,2]}');
  const charge = await proxy.onlyCharge();
  const billed = proxy.sandbox.ledger[0];
  expect(charge).toMatchObject({ state: "posted", source: "reported", status: 200, cost: billed?.cost });
  expect(response.headers.get("x-farebox-cost-usd")).toBe(formatUsd(charge.cost ?? (0n as never)));
  expect(JSON.parse(body).usage.prompt_tokens).toBe(charge.tokens.input);
});

it("a key can use its models under all their names, and no other model", async () => {
  await using proxy = await startProxy();
  const key = await proxy.addKey("bob", { models: ["gpt-4o", "claude-*"] });
  const statusOf = async (model: string) => {
    const response = await proxy.chat({ model, max_tokens: 5 }, { key });
    await response.text();
    return response.status;
  };
  expect(await statusOf("gpt-4o")).toBe(200);
  expect(await statusOf("gpt-4o-2024-11-20")).toBe(200);
  expect(await statusOf("claude-sonnet-4-6")).toBe(200);
  expect(await statusOf("gpt-4o-mini")).toBe(403);
});

it("a member name that is invalid JSON is left to the gateway to refuse, even if Farebox changes the request", async () => {
  await using proxy = await startProxy({ env: { FAREBOX_STREAM_USAGE: "inject" } });
  const name = `${"n".repeat(2000)}\\x`;
  const body = `{"model":"gpt-4o","stream":true,"max_tokens":5,"messages":[{"role":"user","content":"hi"}],"${name}":1}`;
  const response = await fetch(`${proxy.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${proxy.key}`, "content-type": "application/json" },
    body,
  });
  expect(response.status).toBe(400);
  expect(response.headers.get("x-farebox-error")).toBeNull();
  expect(await proxy.onlyCharge()).toMatchObject({ state: "voided", reason: "gateway_400" });
});
