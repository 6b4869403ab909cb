import { describe, expect, it } from "vitest";
import { signIn, visit, withoutChromium } from "../../support/browser.ts";
import { startProxy } from "../../support/running-proxy.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";

describe.skipIf(withoutChromium)("a budget for each key", { timeout: 60_000 }, () => {
  it("is one card with the key that has used most of it, and is changed and removed there", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    const bob = await proxy.addKey("bob");
    await proxy.chat({});
    for (let sent = 0; sent < 2; sent++) await proxy.chat({}, { key: bob });
    await proxy.charges();
    await using visitor = await visit(proxy.url);
    const { page } = visitor;
    await page.goto(`${proxy.url}/dashboard/keys`);
    await signIn(page, token);

    await page.getByRole("button", { name: "Set a budget", exact: true }).click();
    await page.getByRole("combobox", { name: "Scope" }).selectOption("Each key");
    await page.getByLabel("Limit (USD)").fill("1");
    await page.getByRole("button", { name: "Save budget" }).click();
    const card = page.getByRole("article").filter({ hasText: "Each key" });
    await card.getByText("2 keys have spent").waitFor();
    await card.getByText("bob used most of it").waitFor();
    expect(await page.getByRole("article").count()).toBe(1);

    await card.getByRole("button", { name: /^Change/ }).click();
    await page.getByLabel("Limit (USD)").fill("2.5");
    await page.getByRole("button", { name: "Save budget" }).click();
    await card.getByText("$2.50").waitFor();

    await card.getByRole("button", { name: /^Remove/ }).click();
    await page.getByRole("button", { name: "Remove", exact: true }).click();
    await card.waitFor({ state: "detached" });
    expect(await proxy.serving.ledger.budgets()).toEqual([]);
    expect(visitor.faults).toEqual([]);
  });
});
