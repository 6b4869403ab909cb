import { describe, expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import { fetchFromSandbox, hello } from "../../support/sandbox-client.ts";

const account = { path: "/account/info", method: "GET" };

function info(sandbox: Sandbox, scenario?: string) {
  const headers = { "x-api-key": sandbox.apiKey };
  return fetchFromSandbox(sandbox, undefined, { ...account, headers, ...(scenario === undefined ? {} : { scenario }) });
}

describe("the sandbox's account", () => {
  it("has every field of the interface and a balance that falls as calls are billed", async () => {
    await using sandbox = await startSandbox({ startingBalanceUsd: "10.00", now: () => 1_760_000_000_000 });
    const before = JSON.parse((await info(sandbox)).body.toString());
    expect(before).toMatchObject({ code: 200, message: "success" });
    expect(before.data).toMatchObject({
      type: "ppu",
      api_key: sandbox.apiKey,
      equivalent_in_usd: 10,
      max_suno_concurrency: 3,
    });
    expect(before.data.notification_hook_url).toMatch(/^https:/);
    expect(Object.keys(before.data)).toHaveLength(37);
    expect(Object.keys(before.data.wallet)).toHaveLength(35);
    expect(before.data.credit_pack_info).toMatchObject({ total_credits: 100_000_000, available_credits: 100_000_000 });
    await fetchFromSandbox(sandbox, hello, { scenario: "prompt:1000+tokens:10" });
    const after = JSON.parse((await info(sandbox)).body.toString());
    expect(after.data.equivalent_in_usd).toBe(9.9987);
    expect(after.data.credit_pack_info).toMatchObject({ used_credits: 13_000, available_credits: 99_987_000 });
    expect(sandbox.accountRequests).toHaveLength(2);
  });

  it.each([
    ["root", undefined, 25],
    ["absent", undefined, undefined],
    ["data", 25, undefined],
  ] as const)("has equivalent_in_usd at the configured place: %s", async (equivalentInUsd, inData, atRoot) => {
    await using sandbox = await startSandbox({ equivalentInUsd });
    const record = JSON.parse((await info(sandbox)).body.toString());
    expect([record.data.equivalent_in_usd, record.equivalent_in_usd]).toEqual([inData, atRoot]);
  });

  it("changes by top-ups, expiry, frozen credits and other users, by scenario or method", async () => {
    await using sandbox = await startSandbox({ startingBalanceUsd: "10" });
    await info(sandbox, "top-up:5+expire:1+freeze:2+others:0.5");
    sandbox.unfreeze("0.5");
    sandbox.useByOthers("0.25");
    const { data } = JSON.parse((await info(sandbox)).body.toString());
    expect(data.credit_pack_info).toMatchObject({
      total_credits: 150_000_000,
      used_credits: 7_500_000,
      frozen_credits: 15_000_000,
      expired_credits: 10_000_000,
      available_credits: 117_500_000,
    });
    expect(data.wallet).toMatchObject({
      credit_remain: 117_500_000,
      credit_used: 7_500_000,
      credit_frozen: 15_000_000,
    });
    expect([data.equivalent_in_usd, sandbox.balanceUsd()]).toEqual([11.75, "11.75"]);
  });

  it("is refused without the key in x-api-key, and fails by scenario", async () => {
    await using sandbox = await startSandbox();
    const refused = await fetchFromSandbox(sandbox, undefined, account);
    expect(refused.status).toBe(401);
    expect(JSON.parse(refused.body.toString())).toMatchObject({ code: 401, message: expect.any(String) });
    const failed = await info(sandbox, "status:500");
    expect(failed.status).toBe(500);
    expect(JSON.parse(failed.body.toString())).toMatchObject({ code: 500 });
    expect((await info(sandbox, "html")).headers["content-type"]).toContain("text/html");
  });
});
