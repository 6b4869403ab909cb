import { expect, it } from "vitest";
import { startProxy } from "../support/running-proxy.ts";

it("forwards nothing while the balance is under its floor, and goes on when it is topped up", async () => {
  await using proxy = await startProxy({
    sandbox: { startingBalanceUsd: "0.50" },
    env: { FAREBOX_BALANCE_FLOOR: "1.00" },
    adjust: (settings) => ({ ...settings, balance: { ...settings.balance, ttlMs: 1 } }),
  });
  const refused = await proxy.chat({ max_tokens: 5 });
  expect([refused.status, refused.headers.get("x-farebox-error")]).toEqual([503, "balance_floor"]);
  proxy.sandbox.topUp("5.00");
  // The remembered record answers once more while it is fetched anew.
  await (await proxy.chat({ max_tokens: 5 })).text();
  await proxy.sandbox.waitFor((sandbox) => sandbox.accountCalls >= 2);
  await expect.poll(async () => (await proxy.chat({ max_tokens: 5 })).status).toBe(200);
});

it("forwards while the balance is not known", async () => {
  await using proxy = await startProxy({
    sandbox: { equivalentInUsd: "absent" },
    env: { FAREBOX_BALANCE_FLOOR: "1.00" },
  });
  expect((await proxy.chat({ max_tokens: 5 })).status).toBe(200);
});
