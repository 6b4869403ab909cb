import { expect, it } from "vitest";
import { startProxy } from "../../support/running-proxy.ts";
import { readPage, valueOf } from "../../support/metrics-page.ts";

/** Each verification takes about as long as a scrape, so a scrape that waits for all of them would end last. */
const verifications = 300;

it("a scrape does not wait for verifications that started before it", async () => {
  await using proxy = await startProxy({ threads: true });
  await (await proxy.chat({ max_tokens: 20 })).text();
  await proxy.charges();
  await proxy.metrics();
  let verified = 0;
  const running = Array.from({ length: verifications }, async () => {
    const { differences } = await proxy.serving.ledger.verify();
    expect(differences).toEqual([]);
    verified += 1;
  });
  const page = readPage(await proxy.metrics());
  const before = verified;
  expect(Number(valueOf(page, "farebox_spend_usd", { period: "month" }))).toBeGreaterThan(0);
  await Promise.all(running);
  expect(before).toBeLessThan(verifications);
});
