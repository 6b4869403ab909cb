import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { signIn, visit, withoutChromium, type Visitor } from "../../support/browser.ts";
import { writePastTraffic } from "../../support/past-traffic.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Each view, with what is there when it is shown. */
const views: readonly (readonly [path: string, shown: (page: Page) => Promise<unknown>])[] = [
  ["?span=30d", (page) => page.getByRole("list", { name: "Legend" }).waitFor()],
  ["/requests", (page) => page.getByRole("row").nth(3).waitFor()],
  ["/keys", (page) => page.getByRole("meter").first().waitFor()],
  ["/keys?new=key", (page) => page.getByRole("button", { name: "Create key" }).waitFor()],
  ["/prices", (page) => page.getByRole("row").nth(3).waitFor()],
  ["/prices?model=gpt-4o", (page) => page.getByRole("dialog").getByText("in force").waitFor()],
  ["/health", (page) => page.getByRole("img", { name: /In the last hour/ }).waitFor()],
];

/** Returns the faults that axe calls serious or critical, in words. */
async function graveFaults(page: Page): Promise<string[]> {
  // As an extension of the browser would: the page's policy lets no other script in.
  await page.evaluate(axe);
  const { violations } = await page.evaluate<AxeResults>("axe.run()");
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(
      ({ id, nodes }) =>
        `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary ?? ""}`).join("; ")}`,
    );
}

describe.skipIf(withoutChromium)("the dashboard, for everybody", { timeout: 60_000 }, () => {
  let proxy: RunningProxy;
  beforeAll(async () => {
    proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await writePastTraffic(proxy, { until: Date.now(), days: 4 });
    await proxy.budget("all", "5", "1mo");
    await proxy.budget("key:alice", "0.000001", "1mo");
    await proxy.budget("team:product", "1", "1d", "soft");
  }, 60_000);
  afterAll(() => proxy?.[Symbol.asyncDispose]());

  async function signedIn(options: Parameters<typeof visit>[1] = {}): Promise<Visitor> {
    const visitor = await visit(proxy.url, options);
    await visitor.page.goto(`${proxy.url}/dashboard`);
    await signIn(visitor.page, token);
    return visitor;
  }

  it.each(["light", "dark"] as const)("has no serious fault in %s that axe knows, on any view", async (colorScheme) => {
    await using visitor = await visit(proxy.url, { colorScheme });
    const { page } = visitor;
    await page.goto(`${proxy.url}/dashboard`);
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    const found: Record<string, string[]> = { "sign-in": await graveFaults(page) };
    await signIn(page, token);
    for (const [path, shown] of views) {
      await page.goto(`${proxy.url}/dashboard${path}`);
      await shown(page);
      found[path] = await graveFaults(page);
    }
    expect(found).toEqual(Object.fromEntries(["sign-in", ...views.map(([path]) => path)].map((path) => [path, []])));
    expect(visitor.faults).toEqual([]);
  });

  it("fits a phone: no view scrolls sideways", async () => {
    await using visitor = await signedIn({ viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true });
    const { page } = visitor;
    const wider: Record<string, number> = {};
    for (const [path, shown] of views) {
      await page.goto(`${proxy.url}/dashboard${path}`);
      await shown(page);
      wider[path] = await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
    }
    expect(wider).toEqual(Object.fromEntries(views.map(([path]) => [path, 0])));
  });

  it("works by the keyboard: past the views, into a dialog, out of it, and back to where it was opened", async () => {
    await using visitor = await signedIn();
    const { page } = visitor;
    await page.goto(`${proxy.url}/dashboard/keys`);
    await page.getByRole("meter").first().waitFor();
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Skip to the content");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Create a key");
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Create a key" });
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Create a key");
    expect(visitor.faults).toEqual([]);
  });

  it("the chart is stepped through with arrow keys, and is a table too, with the same exact sum", async () => {
    await using visitor = await signedIn();
    const { page } = visitor;
    await page.goto(`${proxy.url}/dashboard?span=30d&by=team`);
    const chart = page.getByRole("img", { name: /^Spend over time: / });
    await chart.focus();
    await page.keyboard.press("End");
    const tip = page.locator(".tip");
    await tip.waitFor();
    const last = await tip.locator(".tip-head").textContent();
    await page.keyboard.press("ArrowLeft");
    await tip
      .locator(".tip-head")
      .filter({ hasNotText: last ?? "" })
      .waitFor();
    await page.getByText("Show as a table").click();
    const rows = page.getByRole("region", { name: "Spend over time" }).getByRole("row");
    expect(await rows.count()).toBe(32);
  });

  it("writes figures as the reader does, and keeps every digit", async () => {
    await using visitor = await signedIn({ locale: "de-DE" });
    const { page } = visitor;
    await page.goto(`${proxy.url}/dashboard?span=30d`);
    const figure = page.locator(".headline data").first();
    await figure.waitFor();
    const [shown, title, exact] = [
      await figure.textContent(),
      await figure.getAttribute("title"),
      await figure.getAttribute("value"),
    ];
    expect(shown).toMatch(/^\d+,\d\d\s\$$/);
    expect(title?.replace(/\s\$$/, "").replace(/\./g, "").replace(",", ".")).toBe(exact);
  });

  it("remembers a choice of colours", async () => {
    await using visitor = await signedIn({ colorScheme: "light" });
    const { page } = visitor;
    const ground = () => page.evaluate<string>("getComputedStyle(document.documentElement).backgroundColor");
    const light = await ground();
    await page.getByRole("button", { name: /^Colours: as the system/ }).click();
    await page.getByRole("button", { name: /^Colours: light/ }).click();
    await page.getByRole("button", { name: /^Colours: dark/ }).waitFor();
    const dark = await ground();
    expect(dark).not.toBe(light);
    await page.reload();
    await page.getByRole("button", { name: /^Colours: dark/ }).waitFor();
    expect(await ground()).toBe(dark);
  });
});
