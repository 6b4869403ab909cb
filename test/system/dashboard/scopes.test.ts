import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { endDay, startDay } from "../../support/daytime.ts";
import { visitAs, withoutChromium } from "../../support/browser.ts";
import { startProxy } from "../../support/running-proxy.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";

beforeAll(startDay);
afterAll(endDay);

describe.skipIf(withoutChromium)("a budget with conditions", () => {
  it("can limit what each user of a key spends on some models, and shows the top users", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await using visitor = await visitAs(token, proxy.url, "/budgets");
    const { page } = visitor;

    await page.getByRole("button", { name: "Set a budget", exact: true }).click();
    await page.getByRole("combobox", { name: "Scope" }).selectOption("A key");
    await page.getByRole("combobox", { name: "Key", exact: true }).fill("alice");
    await page.getByText("Only some requests").click();
    await page.getByRole("textbox", { name: "Model" }).fill("gpt-4o*");
    await page.getByLabel("Separate budgets").selectOption("For each user");
    await page.getByLabel("Limit (USD)").fill("1");
    await page.getByRole("button", { name: "Save budget" }).click();
    const row = page.getByRole("table", { name: "Budgets" }).getByRole("row").filter({ hasText: "gpt-4o*" });
    await row.getByText("Each user of key alice, models gpt-4o*").waitFor();

    for (const user of ["u 42%", "u_7"]) await proxy.chat({ user });
    await proxy.chat({ user: "u_7" });
    await proxy.chat({});
    await proxy.charges();
    await page.reload();
    await row.getByText("3 users").waitFor();
    await row.getByRole("button", { name: /^Each user/ }).click();
    const drawer = page.getByRole("dialog");
    await drawer.getByText("user=u_7").waitFor();
    expect(await drawer.locator(".spender-name").allTextContents()).toEqual(["user=u_7", "no user", "user=u\u00a042%"]);
    await drawer.getByRole("searchbox", { name: "Find a user" }).fill("u_7");
    await drawer.getByText("no user").waitFor({ state: "detached" });
    expect(visitor.faults).toEqual([]);
  });

  it("is refused if any key could exhaust it, unless that is confirmed", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await using visitor = await visitAs(token, proxy.url, "/budgets");
    const { page } = visitor;
    await page.getByRole("button", { name: "Set a budget", exact: true }).click();
    await page.getByRole("combobox", { name: "Scope" }).selectOption("All requests");
    await page.getByText("Only some requests").click();
    await page.getByRole("textbox", { name: "User" }).fill("u_42");
    await page.getByLabel("Limit (USD)").fill("1");
    await page.getByRole("button", { name: "Save budget" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Let all keys share a hard budget").check();
    await page.getByRole("button", { name: "Save budget" }).click();
    await page.getByRole("table", { name: "Budgets" }).getByText("User u_42").waitFor();
    expect(visitor.faults).toEqual([
      "error: Failed to load resource: the server responded with a status of 400 (Bad Request)",
    ]);
  });
});
