import { OpenAI } from "openai";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { endDay, startDay } from "../../support/daytime.ts";
import { signIn, visit, withoutChromium } from "../../support/browser.ts";
import { startProxy } from "../../support/running-proxy.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";

function goTo(page: Page, view: string): Promise<void> {
  return page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: view }).click();
}

function rowOf(page: Page, name: string) {
  return page.getByRole("table", { name: "Internal keys" }).getByRole("row").filter({ hasText: name });
}

beforeAll(startDay);
afterAll(endDay);

describe.skipIf(withoutChromium)("the dashboard on the first day", () => {
  it("creates a key, shows its request, sets its budget, revokes it and signs out", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await using visitor = await visit(proxy.url, { permissions: ["clipboard-read", "clipboard-write"] });
    const { page } = visitor;

    await page.goto(`${proxy.url}/dashboard`);
    await signIn(page, token);
    await page.getByRole("heading", { name: "No requests yet" }).waitFor();
    await page.getByText(`curl ${proxy.url}/v1/chat/completions`).waitFor();

    await goTo(page, "Keys");
    await page.getByRole("button", { name: "Create a key" }).click();
    await page.getByLabel("Name").fill("bob");
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByText("it is shown only once").waitFor();
    const key = (await page.getByLabel("The key", { exact: true }).textContent()) ?? "";
    expect(key).toMatch(/^sk-fb-/);
    await page.getByRole("button", { name: "Copy the key" }).click();
    await page.getByRole("button", { name: "the key copied" }).waitFor();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(key);
    await page.getByRole("button", { name: "Done" }).click();
    // A closed dialog has no role, but stays in the document until its `close` event was handled.
    await page.locator("dialog").waitFor({ state: "detached" });
    await rowOf(page, "bob").waitFor();
    expect(await page.content()).not.toContain(key);

    await goTo(page, "Requests");
    await page.getByText("They appear here as they arrive.").waitFor();
    const client = new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: key, maxRetries: 0 });
    const chat = () =>
      client.chat.completions.create({
        model: "gpt-4o",
        messages: [{ role: "user", content: "Hello #sandbox tokens:40" }],
      });
    await chat();
    const row = page
      .getByRole("table", { name: /newest first/ })
      .getByRole("row")
      .filter({ hasText: "bob" });
    await row.filter({ hasText: "reported" }).waitFor();

    const charge = await proxy.onlyCharge();
    await row.click();
    const drawer = page.getByRole("dialog", { name: "Request" });
    await drawer.getByRole("rowheader", { name: "Output" }).waitFor();
    const { cost_usd: cost } = (await (
      await fetch(`${proxy.url}/v1/farebox/charges/${charge.id}`, { headers: { authorization: `Bearer ${key}` } })
    ).json()) as { cost_usd: string };
    await drawer.locator(`tfoot data[value="${cost}"]`).first().waitFor();
    await page.keyboard.press("Escape");
    await drawer.waitFor({ state: "detached" });

    await goTo(page, "Keys");
    await rowOf(page, "bob").getByRole("link", { name: "bob" }).click();
    await page.getByRole("button", { name: "Set a budget" }).click();
    await page.getByLabel("Limit (USD)").fill("0.0001");
    await page.getByRole("button", { name: "Save budget" }).click();
    await page.getByRole("article").filter({ hasText: "used up" }).waitFor();
    await expect(chat()).rejects.toMatchObject({ status: 402, code: "budget_exceeded" });

    await page.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("Revoked bob.").waitFor();
    await page.getByRole("button", { name: "Rotate" }).waitFor({ state: "detached" });
    await page.getByRole("link", { name: "Keys", exact: true }).first().click();
    await rowOf(page, "bob").waitFor({ state: "detached" });
    await expect(chat()).rejects.toMatchObject({ status: 401 });

    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("You are signed out.").waitFor();
    await page.goto(`${proxy.url}/dashboard/keys`);
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect(visitor.faults).toEqual([]);
  });
});
