// @module-tag races
import { describe, expect, it } from "vitest";
import { errorOf } from "../../support/answers.ts";
import { runFarebox } from "../../support/farebox-process.ts";
import { startPausedRelay } from "../../support/paused-relay.ts";
import { startProxy } from "../../support/running-proxy.ts";
import { windowsOnDisk } from "../../support/window-watch.ts";
import { until } from "../../support/until.ts";

describe("a running proxy applies a command that", () => {
  it("changes a budget's limit from the very next request", async () => {
    await using proxy = await startProxy();
    await proxy.budget("key:alice", "1.00");
    await (await proxy.chat({ max_tokens: 10 })).text();
    const lowered = await runFarebox([
      "budgets",
      "set",
      "key:alice",
      "0.00001",
      "--per",
      "total",
      "--database",
      proxy.database,
    ]);
    expect(lowered).toMatchObject({ code: 0 });
    const refused = await proxy.chat({ max_tokens: 10 });
    expect(refused.status).toBe(402);
    expect((await errorOf(refused)).metadata).toMatchObject({ limit_usd: "0.00001", period: "total" });
    const raised = await runFarebox([
      "budgets",
      "set",
      "key:alice",
      "2",
      "--per",
      "total",
      "--database",
      proxy.database,
    ]);
    expect(raised.code).toBe(0);
    expect((await proxy.chat({ max_tokens: 10 })).status).toBe(200);
    const removed = await runFarebox([
      "budgets",
      "remove",
      "key:alice",
      "--per",
      "total",
      "--database",
      proxy.database,
    ]);
    expect(removed.code).toBe(0);
    const free = await proxy.chat({ max_tokens: 10 });
    expect(free.headers.get("x-farebox-budget-remaining-usd")).toBeNull();
  });

  it("adds a budget, also to a request in flight: first its hold, then its cost", async () => {
    await using relay = await startPausedRelay();
    await using proxy = await startProxy({ gatewayUrl: relay.url });
    const running = proxy.chat({ max_tokens: 100 });
    await relay.waitFor(1);
    await runFarebox(["budgets", "set", "all", "1", "--per", "total", "--database", proxy.database]);
    const [charge] = (await proxy.serving.ledger.charges({ limit: 1 })).charges;
    expect(windowsOnDisk(proxy.database)).toMatchObject([{ scope: "all", spent: 0n, held: charge?.hold }]);
    relay.open(proxy.sandbox.url);
    await (await running).text();
    await proxy.serving.settled();
    expect(windowsOnDisk(proxy.database)).toMatchObject([{ scope: "all", spent: proxy.sandbox.billed.cost, held: 0n }]);
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it("suspends, labels or resumes a key", async () => {
    await using proxy = await startProxy();
    const bob = await proxy.addKey("bob");
    const change = async (...argv: string[]) =>
      expect(await runFarebox(["keys", ...argv, "--database", proxy.database])).toMatchObject({ code: 0 });
    const status = async () => {
      const response = await proxy.chat({ max_tokens: 5 }, { key: bob });
      await response.arrayBuffer();
      return response.status;
    };
    await change("suspend", "bob");
    await until(async () => (await status()) === 401, "the suspension is known");
    await change("update", "bob", "--label", "env=prod", "--user", "ci");
    await change("resume", "bob");
    await until(async () => (await status()) === 200, "the key is resumed");
    expect((await proxy.charges()).at(-1)).toMatchObject({ labels: { env: "prod" }, user: "ci" });
  });

  it("revokes a key", async () => {
    await using proxy = await startProxy();
    const bob = await proxy.addKey("bob");
    expect((await proxy.chat({ max_tokens: 5 }, { key: bob })).status).toBe(200);
    const revoked = await runFarebox(["keys", "revoke", "bob", "--database", proxy.database]);
    expect(revoked).toMatchObject({ code: 0, stdout: "revoked bob\n" });
    await until(async () => {
      const response = await proxy.chat({ max_tokens: 5 }, { key: bob });
      const body = await response.text();
      if (response.status !== 401) return false;
      expect(JSON.parse(body).error).toMatchObject({
        code: "invalid_api_key",
        message: "This API key has been revoked.",
      });
      return true;
    }, "the revocation is known");
    expect((await proxy.chat({ max_tokens: 5 })).status).toBe(200);
  });
});
