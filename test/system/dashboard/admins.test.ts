import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { endDay, startDay } from "../../support/daytime.ts";
import { visitAs, withoutChromium } from "../../support/browser.ts";
import { startProxy } from "../../support/running-proxy.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";

beforeAll(startDay);
afterAll(endDay);

describe.skipIf(withoutChromium)("the dashboard", () => {
  it("creates an admin whose token is valid, revokes the admin after confirmation, and lists both in the audit log", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await using visitor = await visitAs(token, proxy.url, "/admins");
    const { page } = visitor;
    await page.getByText("No admins yet").waitFor();
    await page.getByRole("button", { name: "Create an admin" }).click();
    await page.getByLabel("Name").fill("vera");
    await page.getByRole("button", { name: "Create token" }).click();
    const text = (await page.getByLabel("The token", { exact: true }).textContent()) ?? "";
    expect(text).toMatch(/^sk-fba-/);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "I have stored it" }).click();
    const row = page.getByRole("table", { name: "Admins" }).getByRole("row").filter({ hasText: "vera" });
    await row.getByText("viewer").waitFor();
    // A closed dialog has no role, but stays in the document until its `close` event was handled.
    await page.locator("dialog").waitFor({ state: "detached" });
    expect(await page.content()).not.toContain(text);

    const whoami = () => fetch(`${proxy.url}/admin/v1/whoami`, { headers: { authorization: `Bearer ${text}` } });
    expect((await whoami()).status).toBe(200);
    await row.getByRole("button", { name: "Revoke vera" }).click();
    await page.getByRole("button", { name: "Cancel" }).click();
    expect((await whoami()).status).toBe(200);
    await row.getByRole("button", { name: "Revoke vera" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await row.getByText("revoked").waitFor();
    expect((await whoami()).status).toBe(401);

    await page.getByRole("link", { name: "Audit" }).click();
    const changes = page.getByRole("table", { name: /^Changes/ }).getByRole("row");
    await changes.filter({ hasText: "Created key alice" }).waitFor();
    await page.getByRole("searchbox", { name: "Find a change" }).fill("vera");
    await changes.filter({ hasText: "Created key alice" }).waitFor({ state: "detached" });
    expect(await changes.locator("th[scope=row]").allTextContents()).toEqual([
      "Revoked admin vera",
      "Created admin vera",
    ]);
    expect(visitor.faults).toEqual([]);
  });

  it("shows the changed settings of a key on its page and in the audit log", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await using visitor = await visitAs(token, proxy.url, "/keys/alice");
    const { page } = visitor;
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Expires").selectOption("In 30 days");
    await page.getByLabel("Requests per minute").fill("30");
    await page.getByRole("button", { name: "Save" }).click();
    const trail = page.locator("section").filter({ has: page.getByRole("heading", { name: "Changes" }) });
    await page.getByText("in 29 days").first().waitFor();
    await page.reload();
    await trail.getByText("requests a minute none → 30").waitFor();
    await trail.getByText(/^expires never → /).waitFor();
    await proxy.budget("key:alice", "5", "1d");
    await page.reload();
    await trail.getByRole("link", { name: "daily budget of key alice" }).waitFor();
    await trail.getByRole("link", { name: "Audit log" }).click();
    await page
      .getByRole("rowheader")
      .filter({ hasText: /daily budget/ })
      .waitFor();
    await page.getByRole("button", { name: "Remove the filter key:alice" }).click();
    await page
      .getByRole("table", { name: /^Changes/ })
      .getByText("requests a minute none → 30")
      .waitFor();
    expect(visitor.faults).toEqual([]);
  });
});
