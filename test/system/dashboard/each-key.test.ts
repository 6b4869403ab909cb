import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { endDay, startDay } from "../../support/daytime.ts";
import { visitAs, withoutChromium } from "../../support/browser.ts";
import { startProxy } from "../../support/running-proxy.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";

beforeAll(startDay);
afterAll(endDay);

describe.skipIf(withoutChromium)("the dashboard's budget for each key", () => {
  it("is one row with the top keys, and can be changed and removed there", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    const bob = await proxy.addKey("bob");
    await proxy.chat({});
    for (let sent = 0; sent < 2; sent++) await proxy.chat({}, { key: bob });
    await proxy.charges();
    await using visitor = await visitAs(token, proxy.url, "/budgets");
    const { page } = visitor;

    await page.getByRole("button", { name: "Set a budget", exact: true }).click();
    await page.getByRole("combobox", { name: "Scope" }).selectOption("Each key");
    await page.getByLabel("Limit (USD)").fill("1");
    await page.getByRole("button", { name: "Save budget" }).click();
    const row = page.getByRole("table", { name: "Budgets" }).getByRole("row").filter({ hasText: "Each key" });
    await row.getByText("2 keys").waitFor();
    expect(await row.getByRole("link").allTextContents()).toEqual(["bob", "alice"]);

    await row.getByRole("button", { name: /^Change/ }).click();
    await page.getByLabel("Limit (USD)").fill("2.5");
    await page.getByRole("button", { name: "Save budget" }).click();
    await row.getByText("$2.50").waitFor();

    await row.getByRole("button", { name: /^Remove/ }).click();
    await page.getByRole("button", { name: "Remove", exact: true }).click();
    await row.waitFor({ state: "detached" });
    expect(await proxy.serving.ledger.budgets()).toEqual([]);
    expect(visitor.faults).toEqual([]);
  });

  it("has a drawer, to which the budgets at risk link", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await proxy.budget("each-key", "0.000001", "1d", "soft");
    await proxy.chat({});
    await proxy.charges();
    await using visitor = await visitAs(token, proxy.url);
    const { page } = visitor;
    await page.getByRole("list", { name: "Budgets at risk" }).getByRole("link", { name: "Each key" }).click();
    const drawer = page.getByRole("dialog", { name: "Daily budget of each key" });
    await drawer.getByRole("link", { name: "alice" }).waitFor();
    await page.waitForURL(`${proxy.url}/dashboard/budgets?scope=each-key&period=1d`);
    await page.keyboard.press("Escape");
    await drawer.waitFor({ state: "detached" });
    expect(visitor.faults).toEqual([]);
  });
});
