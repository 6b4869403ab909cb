import { join } from "node:path";
import { expect, it } from "vitest";
import { formatUsd } from "../../../src/core/money.ts";
import type { SandboxOptions } from "../../../src/sandbox/options.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { chatWith } from "../../support/new-charges.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { until } from "../../support/until.ts";
import { readFile } from "../crash/ledger-snapshot.ts";

it("reconcile asks for more samples, then reports agreement, then a difference", async () => {
  await using folder = await temporaryFolder();
  const database = join(folder.path, "farebox.db");
  const billingErrors: NonNullable<SandboxOptions["billingErrors"]>[number][] = [];
  await using sandbox = await startSandbox({ billingErrors });
  await using serve = await startServe({ database, gateway: sandbox, env: { FAREBOX_AUTH: "open" } });
  const env = {
    FAREBOX_DATABASE: database,
    FAREBOX_GATEWAY_URL: sandbox.url,
    FAREBOX_GATEWAY_API_KEY: sandbox.apiKey,
  };
  const reconcile = (...args: string[]) => runFarebox(["reconcile", ...args], { env });
  const chat = async () => {
    const answer = await fetch(`${serve.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(chatWith("prompt:1000+tokens:100")),
    });
    await answer.text();
  };
  const settled = (count: number) =>
    until(() => readFile(database).rows.filter(({ state }) => state === "posted").length === count, "all are posted");
  const first = await reconcile();
  expect(first).toMatchObject({ code: 2, stdout: "" });
  expect(first.stderr).toMatch(/fewer than two samples .* run reconcile again after some requests/);

  for (let index = 0; index < 5; index++) await chat();
  await settled(5);
  const good = await reconcile("--json");
  expect(good.stderr).toBe("");
  expect(good.code).toBe(0);
  expect(JSON.parse(good.stdout)).toMatchObject({
    ok: true,
    // A slow proxy has also taken samples.
    samples: expect.toSatisfy((count: number) => count >= 2),
    measure: "used_credits",
    requests: 5,
    ledger_usd: formatUsd(sandbox.billed.cost),
    left_out: [],
    balance: { from_usd: "25" },
  });

  billingErrors.push("wrong-fraction");
  for (let index = 0; index < 20; index++) await chat();
  await settled(25);
  const bad = await reconcile();
  expect(bad.code).toBe(1);
  expect(bad.stdout).toMatch(/^difference\tUSD \+0\.00035\d* \(\+0\.8\d?%\)$/m);
  expect(bad.stdout).toMatch(
    /the gateway billed USD 0\.00035\d* more than the ledger says, beyond the uncertainty; possible causes: a price increase/,
  );

  // A span without samples, an invalid span, and a run that takes no sample.
  expect((await reconcile("--until", "2026-01-01", "--since", "2025-01-01")).code).toBe(2);
  expect((await reconcile("--since", "someday")).stderr).toContain("--since must be a span");
  expect((await reconcile("--no-sample")).code).toBe(1);
});
