import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { skipWithout } from "../support/programs.ts";
import { startProxy } from "../support/running-proxy.ts";

describe.skipIf(skipWithout("promtool", "prometheus"))("the metrics page", () => {
  it("has nothing that promtool objects to", async () => {
    await using proxy = await startProxy();
    await proxy.budget("key:alice", "1.00", "1d");
    await (await proxy.chat({ max_tokens: 20 })).text();
    await (await proxy.chat({ max_tokens: 20, stream: true })).text();
    await (await proxy.chat({}, { key: "sk-fb-unknown" })).text();
    await (await fetch(`${proxy.url}/account/info`, { headers: { "x-api-key": proxy.key } })).text();
    await proxy.serving.sampler.sample();
    await proxy.charges();
    await proxy.serving.sampler.sample();
    expect(await proxy.metrics()).toMatch(/^farebox_reconciliation_difference_usd \S+$/m);
    const checked = spawnSync("promtool", ["check", "metrics"], { input: await proxy.metrics(), encoding: "utf8" });
    expect(`${checked.stdout}${checked.stderr}`).toBe("");
    expect(checked.status).toBe(0);
  });
});
