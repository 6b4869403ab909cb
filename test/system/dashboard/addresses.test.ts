import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { noRateLimits } from "../../../src/core/rate-limits.ts";
import { endDay, startDay } from "../../support/daytime.ts";
import { visitAs, withoutChromium, type Visitor } from "../../support/browser.ts";
import { key } from "../../support/ledger-fixtures.ts";
import { oneModelFile, priceFolder } from "../../support/price-files.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";
const model = "openai/gpt-4o/history";

beforeAll(startDay);
afterAll(endDay);

describe.skipIf(withoutChromium)("a name with URL characters on the dashboard", () => {
  const owned = new AsyncDisposableStack();
  let proxy: RunningProxy;
  let visitor: Visitor;
  beforeAll(async () => {
    const prices = oneModelFile(model, [{ from: "2026-01-01", input: "1.25", output: "3" }]);
    const folder = owned.use(priceFolder(prices)).path;
    proxy = owned.use(await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token, FAREBOX_PRICING: folder } }));
    const { keys, teams } = proxy.serving;
    const at = Date.now();
    await teams.create(
      { name: "r.d", models: null, limits: noRateLimits, outputCap: null, hostedTools: null, createdAt: at },
      "test",
    );
    // Farebox itself creates no names with a percent sign.
    for (const name of ["ci.example.js", "50%", "50%2f%25"])
      await keys.create(key(name, { id: `key-${name}`, team: "r.d", createdAt: at }), "test");
    visitor = owned.use(await visitAs(token, proxy.url));
  });
  afterAll(() => owned.disposeAsync());

  it.each([
    ["keys", "ci.example.js", "Access"],
    ["keys", "50%", "Access"],
    ["keys", "50%2f%25", "Access"],
    ["teams", "r.d", "Access"],
    ["models", model, "Prices"],
  ])("has a page that its row links to and that can be reloaded: %s, %s", async (view, name, part) => {
    const { page } = visitor;
    await page.goto(`${proxy.url}/dashboard/${view}?q=${encodeURIComponent(name)}`);
    await page.getByRole("table").getByRole("link", { name, exact: true }).click();
    const isShown = async () => {
      await page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
      await page.getByRole("heading", { name: part, exact: true }).waitFor();
      if (view === "models") await page.getByText("$1.25").first().waitFor();
    };
    await isShown();
    await page.reload();
    await isShown();
    await page.getByRole("link", { name: "All requests" }).click();
    await page.waitForURL((url) => url.searchParams.get(view.slice(0, -1)) === name);
    expect(visitor.faults.splice(0)).toEqual([]);
  });
});
