import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { addAdmin } from "../../support/admin-client.ts";
import { endDay, startDay } from "../../support/daytime.ts";
import { signIn, visit, visitAs, withoutChromium } from "../../support/browser.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";

beforeAll(startDay);
afterAll(endDay);

describe.skipIf(withoutChromium)("dashboard sessions", () => {
  let proxy: RunningProxy;
  beforeAll(async () => {
    proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await proxy.budget("key:alice", "5", "1d");
    await proxy.chat({});
    const bob = await proxy.addKey("bob");
    await proxy.chat({ model: "gpt-4o-mini" }, { key: bob });
    await proxy.charges();
  });
  afterAll(() => proxy?.[Symbol.asyncDispose]());

  it("the sign-in page shows why a token is refused, and accepts another one", async () => {
    await using visitor = await visit(proxy.url);
    const { page } = visitor;
    await page.goto(`${proxy.url}/dashboard`);
    await page.getByLabel("Admin token or internal key").fill("sk-fba-no-such-token");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("alert").textContent()).toMatch(/token/);
    await signIn(page, token);
  });

  it("a sign-in link works once and leaves no code in the address", async () => {
    await using visitor = await visit(proxy.url);
    const { page } = visitor;
    const link = proxy.serving.signInLink(token);
    await page.goto(link);
    await page.getByRole("button", { name: "Sign out" }).waitFor();
    expect(page.url()).toBe(`${proxy.url}/dashboard`);
    await using other = await visit(proxy.url);
    await other.page.goto(link);
    await other.page.getByText("This sign-in link was used or has expired.").waitFor();
    expect(other.page.url()).toBe(`${proxy.url}/dashboard`);
    await signIn(other.page, token);
  });

  it("a browser at the proxy's address is redirected to the dashboard", async () => {
    await using visitor = await visit(proxy.url);
    await visitor.page.goto(proxy.url);
    expect(visitor.page.url()).toBe(`${proxy.url}/dashboard`);
    await signIn(visitor.page, token);
  });

  it("an ended session shows the sign-in page, which returns to the same view", async () => {
    await using visitor = await visitAs(token, proxy.url, "/requests?model=gpt-4o");
    const { page } = visitor;
    await page.getByRole("table").getByText("alice").waitFor();
    await page.context().clearCookies();
    await page.getByText("Your session has ended.").waitFor();
    await signIn(page, token);
    await page.getByRole("table").getByText("alice").waitFor();
    expect(page.url()).toBe(`${proxy.url}/dashboard/requests?model=gpt-4o`);
  });

  it("a viewer sees no buttons that change anything", async () => {
    const viewer = await addAdmin(proxy.database, "vera", "viewer");
    await using visitor = await visitAs(viewer, proxy.url, "/keys");
    const { page } = visitor;
    await page.getByRole("table", { name: "Internal keys" }).getByText("bob").waitFor();
    const buttons = await page
      .locator("button:not(th *)")
      .evaluateAll((all) => all.map((each) => each.getAttribute("aria-label") ?? each.textContent));
    expect(buttons.filter((name) => !/^(Theme|Sign out|More)/.test(name ?? ""))).toEqual([]);
    expect(visitor.faults).toEqual([]);
  });

  it("a key sees only its own requests and budgets", async () => {
    await using visitor = await visitAs(proxy.key, proxy.url);
    const { page } = visitor;
    await page.getByRole("heading", { name: "Top models" }).waitFor();
    expect(await page.getByRole("navigation", { name: "Views" }).getByRole("link").allTextContents()).toEqual([
      "Overview",
      "Requests",
      "My budgets",
    ]);
    expect(await page.getByText("gpt-4o-mini").count()).toBe(0);
    await page.getByRole("link", { name: "Requests" }).click();
    await page.getByRole("table").getByText("gpt-4o").waitFor();
    expect(await page.getByRole("table").getByRole("row").count()).toBe(2);
    await page.getByRole("link", { name: "My budgets" }).click();
    await page.getByRole("meter", { name: "Budget key:alice" }).waitFor();
    expect(visitor.faults).toEqual([]);
  });
});
