import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { addAdmin, callAdmin } from "../../support/admin-client.ts";
import { endDay, startDay } from "../../support/daytime.ts";
import { visitAs, withoutChromium } from "../../support/browser.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { until } from "../../support/until.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";

/** Folder for screenshots, which are reviewed by hand. */
const pictures = process.env["FAREBOX_PICTURES"];

async function askForRaise(proxy: RunningProxy, key: string, body: object): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify(body) };
  // The request needs a recorded refusal, which is written asynchronously.
  await until(async () => (await fetch(`${proxy.url}/v1/farebox/raises`, init)).status === 201);
}

beforeAll(startDay);
afterAll(endDay);

describe.skipIf(withoutChromium)("the dashboard", () => {
  it("shows requests for raises to viewers, and lets an editor approve a part or deny", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    const bob = await proxy.addKey("bob");
    const viewer = await addAdmin(proxy.database, "vera", "viewer");
    await proxy.budget("each-key", "0.00000001", "1d");
    expect((await proxy.chat({ max_tokens: 20 }, { key: bob })).status).toBe(402);
    await askForRaise(proxy, bob, { amount_usd: "7.50", why: "evaluation before the release" });
    await proxy.budget("all", "0", "1mo");
    await askForRaise(proxy, proxy.key, { amount_usd: "3", why: "a demo", scope: "all" });

    await using reader = await visitAs(viewer, proxy.url, "/budgets");
    const shown = reader.page.getByRole("list", { name: "Requests for raises" }).getByRole("listitem");
    await shown.nth(1).waitFor();
    expect(await shown.getByRole("button").count()).toBe(0);

    await using visitor = await visitAs(token, proxy.url);
    const { page } = visitor;
    await page.getByText("2 raise requests are open.").waitFor();
    await page.getByRole("link", { name: "Review the requests" }).click();
    const requests = page.getByRole("list", { name: "Requests for raises" }).getByRole("listitem");
    const [ofBob, ofAlice] = ["evaluation", "a demo"].map((hasText) => requests.filter({ hasText }));
    await ofBob?.getByText("asks for $7.50 more in the daily budget of each key, for bob").waitFor();
    await ofBob?.getByText("Only the key bob may spend it.").waitFor();
    await ofAlice?.getByText("Other keys may spend it too: bob.").waitFor();
    if (pictures !== undefined) await page.screenshot({ path: `${pictures}/raises-open.png` });

    await ofBob?.getByRole("button", { name: "Approve" }).click();
    const dialog = page.getByRole("dialog", { name: "Approve a raise" });
    expect(await dialog.getByLabel("Amount (USD)").inputValue()).toBe("7.50");
    await dialog.getByLabel("Amount (USD)").fill("2.5");
    await dialog.getByLabel("Until").fill("soon");
    await dialog.getByRole("button", { name: "Approve" }).click();
    await dialog.getByRole("alert").getByText("until must be a duration such as 3h").waitFor();
    if (pictures !== undefined) await page.screenshot({ path: `${pictures}/raises-approve.png` });
    await dialog.getByLabel("Until").fill("");
    await dialog.getByRole("button", { name: "Approve" }).click();
    await ofBob?.waitFor({ state: "detached" });

    await ofAlice?.getByRole("button", { name: "Deny" }).click();
    await page.getByRole("dialog", { name: "Deny this request?" }).getByRole("button", { name: "Deny" }).click();
    await ofAlice?.waitFor({ state: "detached" });

    await page.getByRole("button", { name: "Each key", exact: true }).click();
    const drawer = page.getByRole("dialog", { name: "Daily budget of each key" });
    await drawer.getByText("$0.00000001 a day for each key").waitFor();
    if (pictures !== undefined) await page.screenshot({ path: `${pictures}/raises-drawer.png` });
    await page.goto(`${proxy.url}/dashboard/audit?q=raise`);
    const changes = page.getByRole("table", { name: /^Changes/ }).locator("th[scope=row]");
    await changes.nth(1).waitFor();
    expect(await changes.allTextContents()).toEqual([
      "Denied a raise of monthly budget of all requests",
      "Raised daily budget of each key",
    ]);
    expect(visitor.faults).toEqual([
      "error: Failed to load resource: the server responded with a status of 400 (Bad Request)",
    ]);
    expect(reader.faults).toEqual([]);
  });

  it("raises one key's window of a budget for each key, and shows both limits", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await proxy.addKey("bob");
    await proxy.budget("each-key", "5", "1d");
    await proxy.budget("key:alice", "5", "total");
    await proxy.chat({});
    await proxy.charges();
    await using visitor = await visitAs(token, proxy.url, "/budgets?scope=each-key&period=1d");
    const { page } = visitor;
    const drawer = page.getByRole("dialog", { name: "Daily budget of each key" });
    await drawer.getByRole("searchbox", { name: "Find a key" }).fill("alice");
    await drawer.getByRole("button", { name: "Raise key=alice" }).click();
    const form = page.getByRole("dialog", { name: "Raise a budget" });
    await form.getByLabel("Amount (USD)").fill("2.5");
    await form.getByLabel("Reason").fill("a demo");
    await form.getByRole("button", { name: "Raise", exact: true }).click();
    await drawer.getByText(/^\$7\.50, raised by \$2\.50 until /).waitFor();
    await drawer.getByText("$5.00 a day for each key").waitFor();
    if (pictures !== undefined) await page.screenshot({ path: `${pictures}/raises-drawer.png` });
    await page.keyboard.press("Escape");
    await drawer.waitFor({ state: "detached" });

    await page.getByRole("button", { name: "Raise the total budget of key alice" }).click();
    await form.getByText("Total budget of key alice").waitFor();
    expect(await form.getByLabel("Until").count()).toBe(0);
    await form.getByLabel("Amount (USD)").fill("1");
    await form.getByLabel("Reason").fill("invoice 2026-11");
    await form.getByRole("button", { name: "Raise", exact: true }).click();
    await form.waitFor({ state: "detached" });

    const body = { scope: "key:alice", period: "total", amount_usd: "2", until: "2h", why: "a release" };
    expect(await callAdmin(proxy.url, "POST", "/budgets/raises", { token, body })).toMatchObject({ status: 201 });
    await page.goto(`${proxy.url}/dashboard/keys/alice`);
    await page.getByText(/^\$8\.00 in total, raised by \$2\.00 until .+ and \$1\.00$/).waitFor();
    await page.getByText(/^\$7\.50 a day, raised by \$2\.50 until /).waitFor();
    if (pictures !== undefined) await page.screenshot({ path: `${pictures}/raises-key.png`, fullPage: true });
    expect(visitor.faults).toEqual([]);
  });

  it("lets a refused key ask for a raise, and shows it the decision", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await proxy.budget("each-key", "0", "1d");
    await using visitor = await visitAs(proxy.key, proxy.url, "/standing");
    const { page } = visitor;
    await page.getByRole("button", { name: "Ask for a raise" }).click();
    const form = page.getByRole("dialog", { name: "Ask for a raise" });
    await form.getByLabel("Amount (USD)").fill("5");
    await form.getByLabel("Reason").fill("a demo");
    await form.getByRole("button", { name: "Ask", exact: true }).click();
    const raises = page.getByRole("list", { name: "Raises" });
    await raises.getByText("$5.00 more in the daily budget of each key").waitFor();
    await raises.getByText("open", { exact: true }).waitFor();
    expect(await page.getByRole("button", { name: "Ask for a raise" }).count()).toBe(0);
    if (pictures !== undefined) await page.screenshot({ path: `${pictures}/raises-own.png` });

    const { raises: open } = (await callAdmin(proxy.url, "GET", "/raises?open=true", { token })).json as {
      raises: [{ id: string }];
    };
    await callAdmin(proxy.url, "POST", `/raises/${open[0].id}/approve`, { token, body: { amount_usd: "2" } });
    await raises.getByText("approved", { exact: true }).waitFor();
    await page.getByText(/^\$2\.00 a day, raised by \$2\.00 until /).waitFor();
    expect(visitor.faults).toEqual([]);
  });
});
