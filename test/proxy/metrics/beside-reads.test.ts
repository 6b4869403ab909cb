import { expect, it } from "vitest";
import { startProxy } from "../../support/running-proxy.ts";
import { readPage, valueOf } from "../../support/metrics-page.ts";

/** Each takes about as long as a scrape, so that one which waited for all of them would be the last by far. */
const verifications = 300;

it("a scrape does not wait for the reports and verifications that were asked for before it", async () => {
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
