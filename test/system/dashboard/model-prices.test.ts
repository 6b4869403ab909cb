import { afterAll, beforeAll, expect, it } from "vitest";
import { signIn, visit, withoutChromium } from "../../support/browser.ts";
import { endDay, startDay } from "../../support/daytime.ts";
import { priceFolder } from "../../support/price-files.ts";
import { startProxy } from "../../support/running-proxy.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";
const prices = `gateway: { minimum: { tokens: 20, usd: "0.005" } }
models:
  gpt-4o: { change: { aliases: [team-large] } }
  gemini-2.5-pro: { change: { from: 2026-01-01, source: "our contract", tier_mode: marginal } }
`;

beforeAll(startDay);
afterAll(endDay);

it.skipIf(withoutChromium)(
  "the dashboard shows a model's price under each of its names, and no cost without a price",
  async () => {
    using pricing = priceFolder(prices);
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token, FAREBOX_PRICING: pricing.path } });
    const key = await proxy.addKey("bob");
    for (const model of ["team-large", "openai/gpt-4o", "no-such-model"]) {
      const answer = await proxy.chat({ model, messages: [{ role: "user", content: "hi" }] }, { key });
      expect(answer.status).toBe(200);
      await answer.text();
    }
    await proxy.serving.settled();
    await using visitor = await visit(proxy.url);
    const { page, faults } = visitor;
    await page.goto(`${proxy.url}/dashboard/models`);
    await signIn(page, token);
    const cellsOf = async (model: string) =>
      (
        await page
          .getByRole("row")
          .filter({ has: page.getByRole("link", { name: model, exact: true }) })
          .innerText()
      )
        .split(/[\n\t]+/)
        .map((text) => text.trim());
    expect(await cellsOf("team-large")).toEqual(
      expect.arrayContaining(["openai · large-general", "$10.00$5.00", "$0.005"]),
    );
    expect(await cellsOf("openai/gpt-4o")).toEqual(expect.arrayContaining(["$10.00$5.00", "$0.005"]));
    const unpriced = await cellsOf("no-such-model");
    expect(unpriced).toEqual(expect.arrayContaining(["no price", "–"]));
    expect(unpriced).not.toContain("$0.00");
    await page.goto(`${proxy.url}/dashboard/models/gemini-2.5-pro`);
    const inForce = page.locator(".history > .in-force");
    await inForce.waitFor();
    const text = await inForce.innerText();
    expect(text).toContain("From 0 prompt tokens\n");
    expect(text).toContain("From 200,001 prompt tokens, for the tokens from there on and the whole output\n");
    expect(text).toContain("At least 20 tokens a request. At least $0.005 a request. Source: our contract; otherwise ");
    expect(faults).toEqual([]);
  },
);
