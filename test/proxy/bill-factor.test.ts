import { expect, it } from "vitest";
import { callAdmin } from "../support/admin-client.ts";
import { chatWith } from "../support/new-charges.ts";
import { priceFolder } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";

const token = "a-token-of-the-test-1234567890";

interface Compared {
  readonly ok: boolean;
  readonly factor: { readonly value: string; readonly from: string; readonly to: string };
  readonly explained_by: readonly { readonly group: string; readonly fraction: string; readonly instead_of: string }[];
}

/** Compares the ledger with the account around ten requests of 1,000 prompt tokens and 100 output tokens. */
async function compared(proxy: RunningProxy): Promise<Compared> {
  await proxy.serving.sampler.sample();
  for (let index = 0; index < 10; index++) await (await proxy.chat(chatWith("prompt:1000+tokens:100"))).text();
  await proxy.charges();
  await proxy.serving.sampler.sample();
  const answer = await callAdmin(proxy.url, "GET", "/reconciliation", { token });
  expect(answer.status, answer.text).toBe(200);
  return answer.json as never as Compared;
}

it("reconciliation finds a factor of 1 and names no group if the gateway bills what the ledger charges", async () => {
  await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
  const { ok, factor, explained_by } = await compared(proxy);
  expect([ok, explained_by]).toEqual([true, []]);
  expect(Number(factor.from)).toBeLessThanOrEqual(1);
  expect(Number(factor.to)).toBeGreaterThanOrEqual(1);
  expect(Number(factor.to) - Number(factor.from)).toBeLessThan(0.001);
});

it("reconciliation names a group charged at twice its fraction, with the fraction that the gateway bills", async () => {
  using prices = priceFolder('groups: { large-general: { fraction: "1" } }\n');
  await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token, FAREBOX_PRICING: prices.path } });
  const { ok, factor, explained_by } = await compared(proxy);
  expect(ok).toBe(false);
  expect(Number(factor.value)).toBeCloseTo(0.5, 3);
  expect(explained_by).toMatchObject([{ group: "large-general", fraction: "0.50", instead_of: "1.00" }]);
});
