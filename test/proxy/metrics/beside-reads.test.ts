import { expect, it } from "vitest";
import { startProxy } from "../../support/running-proxy.ts";
import { readPage, valueOf } from "../../support/metrics-page.ts";

const verifications = 300;

it("a scrape does not wait for verifications that started before it", async () => {
  await using proxy = await startProxy({ threads: true });
  await (await proxy.chat({ max_tokens: 20 })).text();
  await proxy.charges();
  await proxy.metrics();
  /** Returns the number of verifications that ended before a scrape that began after them. */
  const endedBefore = async (): Promise<number> => {
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
    return before;
  };
  // A scrape that waits for them would always end last. On a busy machine, another one may, too.
  while ((await endedBefore()) === verifications);
});
