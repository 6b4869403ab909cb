// @module-tag races
import { join } from "node:path";
import { expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { until } from "../../support/until.ts";

it("keys, budgets, charges, report, balance and verify work next to a running serve", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const database = join(folder.path, "farebox.db");
  await using serve = await startServe({ database, gateway: sandbox });
  const env = {
    FAREBOX_DATABASE: database,
    FAREBOX_GATEWAY_URL: sandbox.url,
    FAREBOX_GATEWAY_API_KEY: sandbox.apiKey,
  };
  const farebox = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await runFarebox(args, { env });
    expect(code, stderr).toBe(0);
    return stdout;
  };
  const json = async (...args: string[]) => JSON.parse(await farebox(...args, "--json"));
  const chat = (key: string, more: object = {}) =>
    fetch(`${serve.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify({
        model: "gpt-4o",
        messages: [{ role: "user", content: "Hello." }],
        max_tokens: 20,
        ...more,
      }),
    });

  const key = await farebox("keys", "create", "alice", "--team", "research", "--models", "gpt-4o*");
  expect(key).toMatch(/^sk-fb-[a-z0-9]+-[\w-]{40,}\n$/);
  await farebox("budgets", "set", "team:research", "1", "--per", "total");
  await farebox("budgets", "set", "each-key", "0.5", "--per", "total", "--warn", "80%");

  const first = await chat(key.trim());
  expect(first.status).toBe(200);
  expect(Number(first.headers.get("x-farebox-budget-remaining-usd"))).toBeLessThan(0.5);
  await first.text();
  expect((await chat(key.trim(), { model: "claude-sonnet-4-6" })).status).toBe(403);
  const stream = await chat(key.trim(), { stream: true, model: "gpt-4o-mini" });
  await stream.text();
  // Commands read the ledger, where a stream's charge settles just after its last byte.
  const posted = async () => (await json("charges", "--state", "posted")).charges as Record<string, unknown>[];
  let rows = await posted();
  await until(async () => (rows = await posted()).length === 2, "both charges are posted");

  expect(rows.map(({ key, team, model, source, status }) => ({ key, team, model, source, status }))).toEqual([
    { key: "alice", team: "research", model: "gpt-4o-mini", source: "reported", status: 200 },
    { key: "alice", team: "research", model: "gpt-4o", source: "reported", status: 200 },
  ]);
  expect(rows[1]?.["request_id"]).toBe(first.headers.get("x-farebox-request-id"));
  expect(rows[1]?.["cost_usd"]).toBe(first.headers.get("x-farebox-cost-usd"));

  // Refusals are written asynchronously.
  await until(async () => (await json("report")).total.refused_requests === 1, "the refusal is recorded");
  const [{ budgets }, { total, rows: byModel }, csv, balance, verified] = await Promise.all([
    json("budgets", "list"),
    json("report", "--by", "key,model"),
    farebox("report", "--by", "model", "--format", "csv"),
    json("balance"),
    json("verify"),
  ]);
  expect(
    byModel.map((row: Record<string, unknown>) => [row["model"], row["requests"], row["refused_requests"]]),
  ).toEqual([
    ["gpt-4o", 1, 0],
    ["gpt-4o-mini", 1, 0],
    ["claude-sonnet-4-6", 0, 1],
  ]);
  expect(total).toMatchObject({ requests: 2, unpriced_requests: 0 });
  expect(budgets).toMatchObject([
    { scope: "team:research", period: "total", limit_usd: "1.00", spent_usd: total.cost_usd, held_usd: "0.00" },
    { scope: "each-key", key: "alice", period: "total", spent_usd: total.cost_usd },
  ]);
  expect(csv).toMatch(/^model,requests,.*\r\ngpt-4o,1,.*\r\ngpt-4o-mini,1,.*\r\nclaude-sonnet-4-6,0,.*\r\n$/);

  expect(balance).toMatchObject({ balance_usd: sandbox.balanceUsd(), stale: false });
  expect(verified).toEqual({ ok: true, charges: 2, differences: [], old_holds: [] });

  await farebox("keys", "revoke", "alice");
  await until(async () => {
    const { status } = await chat(key.trim());
    return status === 401;
  }, "the revocation is known");
  expect((await json("keys", "list")).keys).toMatchObject([{ name: "alice", state: "revoked" }]);
  expect(await runFarebox(["keys", "revoke", "stranger"], { env })).toMatchObject({ code: 2, stdout: "" });

  serve.signal("SIGKILL");
  await serve.ended;
  expect((await json("verify")).ok).toBe(true);
});
