import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { addAdmin } from "../../support/admin-client.ts";
import { endDay, startDay } from "../../support/daytime.ts";
import { visitAs, withoutChromium } from "../../support/browser.ts";
import { key } from "../../support/ledger-fixtures.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { until } from "../../support/until.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";
const keyCount = 10_000;
const teamCount = 200;

function rowOf(page: Page, table: string, name: string) {
  return page.getByRole("table", { name: table }).getByRole("row").filter({ hasText: name });
}

/** Creates 10,000 keys in 200 teams. */
async function writeKeys({ serving: { keys } }: RunningProxy): Promise<void> {
  const start = Date.now() - keyCount * 1000;
  const all = Array.from({ length: keyCount }, (_, index) =>
    key(`service-${String(index).padStart(5, "0")}`, {
      id: `many${String(index).padStart(8, "0")}`,
      team: `team-${String(index % teamCount).padStart(3, "0")}`,
      createdAt: start + index * 1000,
    }),
  );
  for (let from = 0; from < keyCount; from += 500)
    await Promise.all(all.slice(from, from + 500).map((each) => keys.create(each, "test")));
}

beforeAll(startDay);
afterAll(endDay);

describe.skipIf(withoutChromium)("the dashboard with 10,000 keys", () => {
  let proxy: RunningProxy;
  let blocked: string;
  beforeAll(async () => {
    proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await writeKeys(proxy);
    blocked = await proxy.addKey("frances", { team: "team-042" });
    await proxy.budget("each-key", "20", "1mo");
    await proxy.budget("key:frances", "0.00001", "1d");
    await proxy.chat({});
    for (let sent = 0; sent < 3; sent++) expect((await proxy.chat({}, { key: blocked })).status).toBe(402);
    const shared = await proxy.addKey("erin", { team: "team-007" });
    await proxy.budget("team:team-007 each-user", "0.00001", "1d");
    // Equal refusals within a minute share a row.
    await until(() => Date.now() % 60_000 < 45_000, "the minute lasts for five requests");
    for (const user of ["ann", "bob", "ann", "bob", "bob"])
      expect((await proxy.chat({ user }, { key: shared })).status).toBe(402);
    await proxy.charges();
  });
  afterAll(() => proxy?.[Symbol.asyncDispose]());

  it("finds a new key and one among thousands", async () => {
    await using visitor = await visitAs(token, proxy.url, "/keys");
    const { page } = visitor;
    await page.getByRole("button", { name: "Create a key" }).click();
    await page.getByLabel("Name").fill("newcomer");
    await page.getByRole("combobox", { name: "Team" }).fill("team-1");
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("button", { name: "I have stored it" }).click();
    await page.keyboard.press("/");
    await page.keyboard.type("NEWCOMER");
    await rowOf(page, "Internal keys", "newcomer").waitFor();
    const rows = page.getByRole("table", { name: "Internal keys" }).getByRole("row");
    await until(async () => (await rows.count()) === 2, "one key is listed");
    await page.waitForURL((url) => url.searchParams.get("q") === "NEWCOMER");

    await page.getByRole("searchbox", { name: "Find a key" }).fill("service-00101");
    await rowOf(page, "Internal keys", "service-00101").click();
    await page.getByRole("heading", { name: "service-00101", level: 1 }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/dashboard/keys/service-00101");
    await page.goBack();
    await rowOf(page, "Internal keys", "service-00101").waitFor();

    await page.getByRole("searchbox", { name: "Find a key" }).fill("");
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByRole("button", { name: "First page" }).click();
    await page.getByRole("button", { name: "Next" }).waitFor();
    expect(visitor.faults).toEqual([]);
  });

  it("shows a viewer which key of a team was refused, and why", async () => {
    const lead = await addAdmin(proxy.database, "lead", "viewer");
    await using visitor = await visitAs(lead, proxy.url);
    const { page } = visitor;
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Teams" }).click();
    await page.getByRole("searchbox", { name: "Find a team" }).fill("042");
    await rowOf(page, "Teams", "team-042").filter({ hasText: "3" }).click();
    const refused = page.getByRole("region", { name: "Refused today" });
    await refused.getByText("Daily budget of key frances").waitFor();
    await refused.getByText("3", { exact: true }).waitFor();
    await refused.getByRole("link", { name: "frances" }).click();
    const budget = page.getByRole("article").filter({ hasText: "a day" });
    await budget.getByText("refusing").waitFor();
    await budget.getByText("3 refused today").waitFor();
    expect(await page.getByRole("button", { name: /Edit|Rotate|Revoke/ }).count()).toBe(0);
    expect(visitor.faults).toEqual([]);
  });

  it("names each user that a budget refused in one minute, with the count", async () => {
    await using visitor = await visitAs(token, proxy.url, "/teams/team-007");
    const { page } = visitor;
    const causes = page.getByRole("region", { name: "Refused today" }).getByRole("listitem");
    await causes.nth(1).waitFor();
    const counts = { ann: 2, bob: 3 };
    for (const [user, count] of Object.entries(counts))
      expect(await causes.filter({ hasText: `for user=${user}` }).textContent()).toMatch(
        new RegExp(`^erin · Daily budget of each user of team team-007, for user=${user}.*${count}$`),
      );
    await page.getByRole("link", { name: "See the refused requests" }).click();
    const rows = page.getByRole("table", { name: /^Requests/ }).locator("tbody tr");
    await rows.nth(1).waitFor();
    expect(await rows.count()).toBe(2);
    for (const [user, count] of Object.entries(counts))
      await rows
        .filter({ hasText: `refused × ${count}` })
        .getByText(`Daily budget of each user of team team-007, for user=${user}`)
        .waitFor();
    expect(visitor.faults).toEqual([]);
  });

  it("keeps text typed as soon as the search field appears", async () => {
    await using visitor = await visitAs(token, proxy.url);
    const { page } = visitor;
    await page.evaluate(`
      const observer = new MutationObserver(() => {
        const field = document.querySelector('input[placeholder="Find a team"]');
        if (field === null) return;
        observer.disconnect();
        field.value = "042";
        field.dispatchEvent(new Event("input", { bubbles: true }));
      });
      observer.observe(document.body, { childList: true, subtree: true });
    `);
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Teams" }).click();
    await rowOf(page, "Teams", "team-042").waitFor();
    expect(await page.getByRole("searchbox", { name: "Find a team" }).inputValue()).toBe("042");
    expect(visitor.faults).toEqual([]);
  });

  it("ranks refusing budgets first, and shows a budget for each key as one row", async () => {
    await using visitor = await visitAs(token, proxy.url, "/budgets");
    const { page } = visitor;
    const rows = page.getByRole("table", { name: "Budgets" }).getByRole("row");
    await rows.nth(3).waitFor();
    expect(await rows.count()).toBe(4);
    const texts = await rows.allTextContents();
    expect(texts.slice(1, 3).toSorted()).toEqual([
      expect.stringMatching(/Each user of team team-007.*2 users.*2 refusing/),
      expect.stringMatching(/frances.*refusing/),
    ]);
    expect(texts[3]).toMatch(/Each key.*10,003 keys|Each key.*10,004 keys/);
    await rows.nth(3).getByRole("button", { name: "Each key", exact: true }).click();
    const drawer = page.getByRole("dialog", { name: "Monthly budget of each key" });
    await drawer.getByRole("searchbox", { name: "Find a key" }).fill("service-09123");
    await drawer.getByRole("link", { name: "service-09123" }).waitFor();
    await page.goBack();
    await drawer.waitFor({ state: "detached" });
    expect(visitor.faults).toEqual([]);
  });

  it("shows a blocked key which budget refuses it, and until when", async () => {
    await using visitor = await visitAs(blocked, proxy.url);
    const { page } = visitor;
    const reason = page.getByRole("region", { name: "Refused requests" });
    await reason
      .getByText(/^3 requests refused today: daily budget of key frances \(\$0\.00001\)\. Resets in /)
      .waitFor();
    expect(visitor.faults).toEqual([]);
  });
});
