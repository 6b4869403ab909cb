import { expect, it } from "vitest";
import { priceFolder } from "../support/price-files.ts";
import { startProxy } from "../support/running-proxy.ts";

/** Price at which a billion tokens cost more than a ledger can store. */
const absurd = `
provider: test
models:
  gold-1:
    tokenizer: o200k_base
    context_tokens: 1000
    max_output_tokens: 100
    prices:
      - from: 2024-01-01
        source: a test
        official: { input: "10000", output: "10000" }
        gateway: { input: "10000", output: "10000" }
`;

it("a cost that the ledger cannot store is posted as the hold, and the proxy keeps working", async () => {
  using prices = priceFolder(absurd);
  const usage = JSON.stringify({ prompt_tokens: 900_000_000, completion_tokens: 900_000_000 });
  await using proxy = await startProxy({
    sandbox: { scenario: () => `usage:${usage}` },
    env: { FAREBOX_PRICING: prices.path },
  });
  const response = await proxy.chat({ model: "gold-1" });
  expect(response.status).toBe(200);
  await response.text();
  const charge = await proxy.onlyCharge();
  expect(charge).toMatchObject({ state: "posted", source: "assumed", cost: charge.hold, reason: "not_recordable" });
  expect(charge.hold).toBeGreaterThan(0n);
  expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  expect((await proxy.chat({})).status).toBe(200);
});
