import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { canonicalPrice, type PriceVersion } from "../../../src/core/price.ts";
import { settlementFor } from "../../../src/core/settlement.ts";
import { contentId } from "../../../src/wire/content-id.ts";
import { endDay, startDay } from "../../support/daytime.ts";
import { signIn, visit, withoutChromium } from "../../support/browser.ts";
import { endAt, holdOf, price, tokens } from "../../support/ledger-fixtures.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";
const pin = (version: PriceVersion) => ({
  id: contentId(canonicalPrice(version)),
  canonical: canonicalPrice(version),
  version,
});

/** Folder for screenshots, which are reviewed by hand. */
const pictures = process.env["FAREBOX_PICTURES"];

/** Posts a charge in doubt, of another model and a service tier without a rate, with two searches, and a plain one. */
async function postDoubted({ serving: { ledger } }: RunningProxy): Promise<void> {
  const at = Date.now() - 5000;
  const fees = { web_search_call: { charged: usd("0.01"), list: usd("0.02"), inputTokens: 0 } };
  const served = pin({
    ...price,
    model: "model-b",
    tiers: [{ ...price.tiers[0], charged: price.tiers[0].list }],
    fees,
  });
  for (const id of ["doubted", "plain"]) {
    await ledger.hold(holdOf(id, usd("1"), { at }));
    const doubted = {
      doubts: ["served_model", "service_tier"],
      billing: { serviceTier: "priority", calls: { web_search_call: 2 } },
    } as const;
    const reserved = { hold: usd("1"), price, servedPrice: id === "doubted" ? served : null };
    const settlement = settlementFor(reserved, {
      kind: "reported",
      tokens: tokens(12_000, 800),
      clamped: false,
      ...(id === "doubted" && doubted),
    });
    if (settlement.kind === "post") await ledger.post(id, settlement, endAt(at + 900));
  }
}

beforeAll(startDay);
afterAll(endDay);

describe.skipIf(withoutChromium)("the dashboard", () => {
  let proxy: RunningProxy;
  beforeAll(async () => {
    proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await postDoubted(proxy);
  });
  afterAll(() => proxy?.[Symbol.asyncDispose]());

  it.each(["light", "dark"] as const)(
    "marks a charge in doubt, shows why the bill may differ, and sums the amounts in doubt (%s)",
    async (colorScheme) => {
      await using visitor = await visit(proxy.url, { colorScheme });
      const { page } = visitor;
      const picture = async (name: string) =>
        void (pictures !== undefined && (await page.screenshot({ path: `${pictures}/${name}-${colorScheme}.png` })));
      await page.goto(`${proxy.url}/dashboard`);
      await signIn(page, token);
      const headline = page.locator(".headline").filter({ hasText: "In doubt" });
      await headline.waitFor();
      // 12,000 tokens at USD 2 and 800 at USD 8 per 1M, and two searches.
      expect(await headline.locator("data").getAttribute("value")).toBe("0.0504");
      await picture("overview");
      await page.goto(`${proxy.url}/dashboard/requests`);
      await page.getByRole("row").nth(2).waitFor();
      expect(await page.getByText("in doubt").count()).toBe(1);
      await picture("requests");
      await page.getByRole("row").filter({ hasText: "in doubt" }).click();
      const drawer = page.getByRole("dialog", { name: "Request" });
      await drawer
        .getByText(
          "The bill may differ: a model other than the requested one answered; the service tier, speed or region that answered has no known rate.",
        )
        .waitFor();
      await drawer.getByRole("rowheader", { name: "Web search call" }).waitFor();
      const facts = await drawer.locator(".details").textContent();
      for (const fact of [
        "Doubtsserved modelservice tier",
        "Service tierpriority",
        "Tool calls2 × web search call",
        "Served price",
      ])
        expect(facts).toContain(fact);
      await picture("request");
      await page.goto(`${proxy.url}/dashboard/requests?request=plain`);
      await drawer
        .locator(".known-line")
        .filter({ hasText: /these tokens\.$/ })
        .waitFor();
      expect(await drawer.getByText("in doubt").count()).toBe(0);
      expect(visitor.faults).toEqual([]);
    },
  );
});
