import type { BrowserContextOptions } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { endDay, startDay } from "../../support/daytime.ts";
import { visitAs, withoutChromium, type Visitor } from "../../support/browser.ts";
import { writePastTraffic } from "../../support/past-traffic.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { until } from "../../support/until.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";

beforeAll(startDay);
afterAll(endDay);

describe.skipIf(withoutChromium)("the dashboard", () => {
  let proxy: RunningProxy;
  beforeAll(async () => {
    proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await writePastTraffic(proxy, { until: Date.now(), days: 2 });
  });
  afterAll(() => proxy?.[Symbol.asyncDispose]());

  async function signedIn(path: string, options?: BrowserContextOptions): Promise<Visitor> {
    const visitor = await visitAs(token, proxy.url, "", options);
    await visitor.page.goto(`${proxy.url}/dashboard${path}`);
    return visitor;
  }

  it("closes a drawer with Back and opens it again with Forward", async () => {
    await using visitor = await signedIn("/requests");
    const { page } = visitor;
    await page.getByRole("row").nth(2).click();
    const drawer = page.getByRole("dialog", { name: "Request" });
    await drawer.waitFor();
    await page.goBack();
    await drawer.waitFor({ state: "detached" });
    await page.waitForURL(`${proxy.url}/dashboard/requests`);
    await page.goForward();
    await drawer.waitFor();
    await page.keyboard.press("Escape");
    await drawer.waitFor({ state: "detached" });
    await page.waitForURL(`${proxy.url}/dashboard/requests`);
    expect(visitor.faults).toEqual([]);
  });

  it("closes a drawer that the address opened, and stays on its page", async () => {
    const { charges } = await proxy.serving.ledger.charges({ limit: 100 });
    const answered = charges.find(({ tokens }) => tokens.output > 0);
    await using visitor = await signedIn(`/requests?request=${answered?.id}`);
    const drawer = visitor.page.getByRole("dialog", { name: "Request" });
    await drawer.getByRole("rowheader", { name: "Output" }).waitFor();
    await visitor.page.keyboard.press("Escape");
    await drawer.waitFor({ state: "detached" });
    await visitor.page.waitForURL(`${proxy.url}/dashboard/requests`);
  });

  it("closes a dialog with Back, and leaves no history entry after Cancel", async () => {
    await using visitor = await signedIn("/requests");
    const { page } = visitor;
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Keys" }).click();
    const dialog = page.getByRole("dialog", { name: "Create a key" });
    await page.getByRole("button", { name: "Create a key" }).click();
    await dialog.waitFor();
    await page.goBack();
    await dialog.waitFor({ state: "detached" });
    await page.waitForURL(`${proxy.url}/dashboard/keys`);
    await page.getByRole("button", { name: "Create a key" }).click();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.waitForFunction("history.state === null || history.state.over === undefined");
    await page.goBack();
    await page.getByRole("heading", { name: "Requests", exact: true }).waitFor();
  });

  it("keeps a secret open after Escape and Back until it is copied", async () => {
    await using visitor = await signedIn("/requests", { permissions: ["clipboard-read", "clipboard-write"] });
    const { page } = visitor;
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Keys" }).click();
    await page.getByRole("button", { name: "Create a key" }).click();
    await page.getByLabel("Name").fill("kept");
    await page.getByRole("button", { name: "Create key" }).click();
    const secret = page.getByRole("dialog", { name: "Key kept" });
    await secret.waitFor();
    const text = await secret.getByLabel("The key", { exact: true }).textContent();
    for (let press = 0; press < 3; press++) await page.keyboard.press("Escape");
    await page.goBack();
    await page.getByRole("heading", { name: "Requests", exact: true, includeHidden: true }).waitFor();
    await page.keyboard.press("Escape");
    expect(await secret.getByLabel("The key", { exact: true }).textContent()).toBe(text);
    await secret.getByRole("button", { name: "Copy the key" }).click();
    await secret.getByRole("button", { name: "the key copied" }).waitFor();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(text);
    await page.keyboard.press("Escape");
    await secret.waitFor({ state: "detached" });
    expect(visitor.faults).toEqual([]);
  });

  it("focuses the search field with the slash key, and moves between rows with arrow keys", async () => {
    await using visitor = await signedIn("/requests");
    const { page } = visitor;
    const rows = page.getByRole("row").getByRole("button", { name: /^Request of/ });
    await rows.nth(1).waitFor();
    await page.keyboard.press("/");
    expect(await page.evaluate("document.activeElement.type")).toBe("search");
    await rows.first().focus();
    await page.keyboard.press("ArrowDown");
    const label = await page.evaluate("document.activeElement.getAttribute('aria-label')");
    expect(label).toBe(await rows.nth(1).getAttribute("aria-label"));
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Request" }).waitFor();
    await page.goBack();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    const focused = () => page.evaluate("document.activeElement.getAttribute('aria-label')");
    await until(async () => (await focused()) === label, "the row has the focus again");
  });

  it("copies amounts with all of their digits", async () => {
    await using visitor = await signedIn("/requests", { permissions: ["clipboard-read", "clipboard-write"] });
    const { page } = visitor;
    // Some rows have no amount.
    const value = await page.locator("tbody td.cost data").first().getAttribute("value");
    await page.evaluate('getSelection().selectAllChildren(document.querySelector("tbody td.cost:has(data)"))');
    await page.keyboard.press("Control+c");
    const copied = () => page.evaluate("navigator.clipboard.readText()");
    await until(async () => (await copied()) === value, `${value} is in the clipboard`);
  });
});
