import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { skipWithout } from "../../support/programs.ts";
import { proxyWithEverything } from "../../support/proxy-with-everything.ts";

describe.skipIf(skipWithout("promtool"))("the metrics page", () => {
  it.each([
    ["0", 0],
    ["1", 3],
  ])("passes promtool with FAREBOX_METRICS_OTEL=%s", async (otel, genAi) => {
    await using proxy = await proxyWithEverything({ FAREBOX_METRICS_OTEL: otel });
    const page = await proxy.metrics();
    expect(page).toMatch(/^farebox_reconciliation_difference_usd \S+$/m);
    expect(page.match(/^# TYPE gen_ai_/gm) ?? []).toHaveLength(genAi);
    const checked = spawnSync("promtool", ["check", "metrics"], { input: page, encoding: "utf8" });
    expect(`${checked.stdout}${checked.stderr}`).toBe("");
    expect(checked.status).toBe(0);
  });
});
