import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { endDay, startDay } from "../../support/daytime.ts";
import { visitAs, withoutChromium, type Visitor } from "../../support/browser.ts";
import { writePastTraffic } from "../../support/past-traffic.ts";
import { parseCsv } from "../../support/csv.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { until } from "../../support/until.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";
const message = (text: string) => ({ messages: [{ role: "user", content: `Hello #sandbox ${text}` }] });

function rowsOf(page: Page) {
  return page.getByRole("table", { name: /^Requests/ }).locator("tbody tr");
}

/** Returns the lines of the file that the browser downloads. */
async function downloaded(page: Page, click: () => Promise<void>): Promise<string[]> {
  const [download] = await Promise.all([page.waitForEvent("download"), click()]);
  return readFileSync(await download.path(), "utf8")
    .trim()
    .split("\r\n");
}

function sumOf(amounts: readonly (string | null | undefined)[]): bigint {
  return amounts.reduce((sum, amount) => sum + usd(amount ?? ""), 0n);
}

function isSorted(costs: readonly number[]): boolean {
  return costs.length > 9 && costs.every((cost, at) => at === 0 || cost <= (costs[at - 1] ?? 0));
}

beforeAll(startDay);
afterAll(endDay);

describe.skipIf(withoutChromium)("overview and requests", () => {
  let proxy: RunningProxy;
  let carol = "";
  beforeAll(async () => {
    proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    const keys = await writePastTraffic(proxy, { until: Date.now(), days: 3 });
    carol = keys.get("carol") ?? "";
    await proxy.budget("key:carol", "0.000001", "1d");
    await proxy.budget("team:support", "0.000001", "1mo", "soft");
    // Equal refusals within a minute share a row.
    await until(() => Date.now() % 60_000 < 45_000, "the minute lasts for four requests");
    for (let sent = 0; sent < 4; sent++)
      expect((await proxy.chat(message("tokens:9"), { key: carol })).status).toBe(402);
    // Two other equal refusals, without a needed amount.
    for (const more of [{ messages: "" }, { n: 0 }])
      expect((await proxy.chat({ ...message("tokens:9"), ...more })).status).toBe(400);
    await (await proxy.chat(message("status:502"))).text();
    await (await proxy.chat(message("tokens:9"), { headers: { "x-farebox-tag": "feature=greeting" } })).text();
    await proxy.serving.settled();
  });
  afterAll(() => proxy?.[Symbol.asyncDispose]());

  async function signedIn(path: string, as = token): Promise<Visitor> {
    const visitor = await visitAs(as, proxy.url);
    await visitor.page.goto(`${proxy.url}/dashboard${path}`);
    return visitor;
  }

  it("show a blocked key which budget refuses it, on the first page and in its requests", async () => {
    await using visitor = await signedIn("", carol);
    const { page } = visitor;
    await page.getByText(/^4 requests refused today: daily budget of key carol \(\$0\.000001\)\. Resets in /).waitFor();
    await page.getByRole("link", { name: "4 requests refused" }).click();
    const row = rowsOf(page).filter({ hasText: "refused × 4" });
    await row.locator("td.cost data").waitFor();
    expect(await rowsOf(page).count()).toBe(1);
    await row.getByRole("link", { name: "Daily budget of key carol" }).click();
    await page.getByRole("heading", { name: "My budgets" }).waitFor();
    expect(visitor.faults).toEqual([]);
  });

  it("list refused requests among the others, newest first", async () => {
    await using visitor = await signedIn("/requests");
    const rows = rowsOf(visitor.page);
    await rows.filter({ hasText: "refused × 4" }).waitFor();
    const texts = await rows.allTextContents();
    expect(texts.findIndex((text) => text.includes("refused × 4"))).toBeGreaterThan(
      texts.findIndex((text) => text.includes("not charged · 502")),
    );
    expect(visitor.faults).toEqual([]);
  });

  it("search refused requests and sort them by count and by needed amount", async () => {
    await using visitor = await signedIn("/requests");
    const { page } = visitor;
    const rows = rowsOf(page);
    await page.getByRole("button", { name: "Cost", exact: true }).click();
    await page.waitForURL(/sort=cost/);
    await page.getByRole("combobox", { name: "Status" }).selectOption("Refused");
    await page.waitForURL((url) => url.search === "?status=refused");
    const many = rows.filter({ hasText: "refused × 4" });
    await page.getByRole("columnheader", { name: "Needed" }).waitFor();
    await until(async () => (await rows.count()) === 2, "only the refused requests are listed");
    await many.waitFor();
    expect(await page.getByRole("columnheader").allTextContents()).toEqual(["Time", "Key", "Model", "Count", "Needed"]);
    const shown = () => rows.evaluateAll((all) => all.map((row) => row.textContent.includes("× 4")));
    for (const [column, firsts] of [
      ["Count", [true, false]],
      ["Needed", [true, false]],
    ] as const)
      for (const isFirst of firsts) {
        await page.getByRole("button", { name: column, exact: true }).click();
        await until(async () => (await shown()).at(isFirst ? 0 : -1) === true, `they are sorted by ${column}`);
      }
    expect(Object.fromEntries(new URL(page.url()).searchParams)).toEqual({
      status: "refused",
      sort: "needed",
      order: "asc",
    });
    const search = page.getByRole("searchbox", { name: "Find a refusal" });
    await search.fill("CARO");
    await rows.nth(1).waitFor({ state: "detached" });
    await many.waitFor();
    const lines = await downloaded(page, () => page.getByRole("link", { name: "CSV" }).click());
    expect(lines).toHaveLength(2);
    await search.fill("no such text");
    await page.getByText("No matching requests").waitFor();
    await page.getByRole("combobox", { name: "Status" }).selectOption("All statuses");
    await rows.nth(3).waitFor();
    expect(new URL(page.url()).search).toBe("");
    expect(visitor.faults).toEqual([]);
  });

  it("link a row to its key, team, model and budget, and open the request elsewhere in the row", async () => {
    await using visitor = await signedIn("/requests");
    const { page } = visitor;
    const charge = rowsOf(page).filter({ hasText: "feature: greeting" });
    await charge.waitFor();
    for (const [name, path] of [
      ["alice", "/dashboard/keys/alice"],
      ["research", "/dashboard/teams/research"],
      ["gpt-4o", "/dashboard/models/gpt-4o"],
    ] as const) {
      await charge.getByRole("link", { name, exact: true }).click();
      await page.waitForURL((url) => url.pathname === path && url.search === "");
      await page.goBack();
    }
    await charge.locator(".cost").click();
    await page.getByRole("dialog", { name: "Request" }).getByRole("link", { name: "gpt-4o" }).waitFor();
    await page.keyboard.press("Escape");

    const refused = rowsOf(page).filter({ hasText: "refused × 4" });
    const reason = refused.getByRole("link", { name: "Daily budget of key carol" });
    const stops = rowsOf(page).locator(".row-open");
    await until(async () => (await stops.count()) === (await rowsOf(page).count()), "each row can be opened");
    await reason.focus();
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Daily budget of key carol" }).waitFor();
    await page.goBack();
    await refused.locator(".cost").click();
    await page.getByRole("dialog", { name: "Daily budget of key carol" }).waitFor();
    await page.goto(`${proxy.url}/dashboard/requests?status=refused`);
    await page.getByRole("link", { name: "Invalid request" }).click();
    await page.waitForURL((url) => url.search === "?status=refused&code=invalid_request");
    expect(visitor.faults).toEqual([]);
  });

  it("state how far the server searched, and list filtered requests that are not among the latest", async () => {
    await using visitor = await signedIn("/keys");
    const { page } = visitor;
    const stopped = "2026-11-01T12:00:00.000Z";
    await page.route("**/admin/v1/charges?*", async (route) => {
      const response = await route.fetch();
      const json = (await response.json()) as object;
      const isByCost = route.request().url().includes("sort=cost");
      await route.fulfill({ response, json: { ...json, ...(isByCost && { examined_to: stopped, next: null }) } });
    });
    await page.goto(`${proxy.url}/dashboard/requests?sort=cost&model=gpt-4o`);
    await page
      .getByText("Only requests since Nov 1, 2026, 12:00 PM were searched. Choose a shorter time range.")
      .waitFor();
    await page.goto(`${proxy.url}/dashboard/requests?sort=cost&min_usd=1000`);
    await page.getByText("No matching requests").waitFor();
    await page
      .getByText("Only requests since Nov 1, 2026, 12:00 PM were searched. Choose a shorter time range.")
      .waitFor();

    await page.route("**/admin/v1/requests/live?*", (route) => route.fulfill({ json: { charges: [], cursor: "9.9" } }));
    await page.goto(`${proxy.url}/dashboard/requests?key=alice`);
    await rowsOf(page).nth(3).waitFor();
    expect(await page.getByText("were searched").count()).toBe(0);
    expect(visitor.faults).toEqual([]);
  });

  it("sort requests on a phone, where the table has no headings", async () => {
    await using visitor = await signedIn("/requests");
    const { page } = visitor;
    await rowsOf(page).first().waitFor();
    const choice = page.getByRole("combobox", { name: "Sort by" });
    expect(await choice.isVisible()).toBe(false);
    await page.setViewportSize({ width: 360, height: 740 });
    await choice.selectOption("Sort: cost");
    await page.waitForURL((url) => url.search === "?sort=cost");
    await choice.selectOption("Sort: time");
    await page.waitForURL((url) => url.search === "");
    await page.getByRole("combobox", { name: "Status" }).selectOption("Refused");
    await choice.selectOption("Sort: needed");
    await page.waitForURL(/sort=needed/);
    expect(visitor.faults).toEqual([]);
  });

  it("filter by status, tag, cost and time, and keep the filters in the address", async () => {
    await using visitor = await signedIn("/requests");
    const { page } = visitor;
    const rows = rowsOf(page);
    await rows.nth(3).waitFor();
    await page.getByRole("combobox", { name: "Status" }).selectOption("Server errors (5xx)");
    await rows.filter({ hasText: "502" }).first().waitFor();
    await rows
      .filter({ hasNotText: /not charged · 5/ })
      .first()
      .waitFor({ state: "detached" });
    expect(new URL(page.url()).search).toBe("?status=5xx");
    await page.getByRole("button", { name: "Clear" }).click();

    await page.getByText("More filters").click();
    await page.getByLabel("Tag (name=value)").fill("feature=greeting");
    await page.keyboard.press("Enter");
    await rows.nth(1).waitFor({ state: "detached" });
    await page.reload();
    await rows.filter({ hasText: "feature: greeting" }).waitFor();
    expect(await rows.count()).toBe(1);
    await page.getByRole("button", { name: "Clear" }).click();

    await page.getByRole("button", { name: "Cost", exact: true }).click();
    await page.waitForURL(/sort=cost/);
    const costs = () =>
      rows.locator("td.cost data").evaluateAll((cells) => cells.map((cell) => Number(cell.getAttribute("value"))));
    await until(async () => isSorted(await costs()), "the costs are sorted");
    await page.getByRole("combobox", { name: "Time", exact: true }).selectOption("Yesterday");
    await page.waitForURL(/span=yesterday/);
    expect(visitor.faults).toEqual([]);
  });

  it("suggest names while the user types, and report an unknown name without an alert", async () => {
    await using visitor = await signedIn("/requests");
    const { page } = visitor;
    await rowsOf(page).nth(3).waitFor();
    const field = page.getByRole("combobox", { name: "Key", exact: true });
    await field.pressSequentially("ALI");
    await page.locator('datalist#known-key option[value="alice"]').waitFor({ state: "attached" });
    expect(new URL(page.url()).search).toBe("");
    expect(visitor.faults).toEqual([]);
    await field.fill("alicia");
    await page.keyboard.press("Enter");
    await page.getByText(/There is no key "alicia".*[^.][.?]$/).waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
    // "alicia" may have emptied the suggestions. A suggested value filters at once, without Enter.
    await field.fill("ALI");
    await page.locator('datalist#known-key option[value="alice"]').waitFor({ state: "attached" });
    await field.fill("alice");
    await page.waitForURL((url) => url.searchParams.get("key") === "alice");
    await rowsOf(page).first().waitFor();
    const others = rowsOf(page).filter({ hasNotText: "alice" });
    await until(async () => (await others.count()) === 0, "only the requests of alice are listed");
  });

  it("show budgets at risk, compare with the previous period, and divide groups", async () => {
    await using visitor = await signedIn("?span=24h&by=team");
    const { page } = visitor;
    const risks = page.getByRole("list", { name: "Budgets at risk" }).getByRole("listitem");
    await risks.nth(1).waitFor();
    expect((await risks.allTextContents()).map((text) => /refusing/.test(text))).toEqual([true, false]);
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByText("Previous period").waitFor();
    await page.getByRole("combobox", { name: "Then by" }).selectOption("Then by model");
    await page.getByRole("list", { name: "Parts of research" }).getByRole("listitem").first().waitFor();
    expect(Object.fromEntries(new URL(page.url()).searchParams)).toEqual({
      span: "24h",
      by: "team",
      compare: "previous",
      then_by: "model",
    });
    await risks.first().getByRole("link").click();
    await page.getByRole("heading", { name: "carol", level: 1 }).waitFor();
    expect(visitor.faults).toEqual([]);
  });

  it("link the chart's legend and columns to their requests", async () => {
    // The chart's last column is the current hour, which may have begun after the other requests.
    await (await proxy.chat(message("tokens:9"))).text();
    await proxy.serving.settled();
    await using visitor = await signedIn("?span=7d&by=key");
    const { page } = visitor;
    await page.getByRole("list", { name: "Legend" }).getByRole("link", { name: "alice" }).click();
    await rowsOf(page).first().waitFor();
    expect(new URL(page.url()).searchParams.get("key")).toBe("alice");
    expect(await rowsOf(page).filter({ hasNotText: "alice" }).count()).toBe(0);
    await page.goBack();
    const chart = page.getByRole("img", { name: /^Spend over time: / });
    await chart.focus();
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    await rowsOf(page).first().waitFor();
    const { since, until } = Object.fromEntries(new URL(page.url()).searchParams);
    expect(Date.parse(until ?? "") - Date.parse(since ?? "")).toBeLessThanOrEqual(3_600_000);

    for (const by of ["group", "team"]) {
      await page.goto(`${proxy.url}/dashboard?span=7d&by=${by}`);
      const names = page.getByRole("list", { name: "Legend" }).locator(":scope > li > .legend-name");
      await names.first().waitFor();
      expect([by, await names.getByRole("link").count()]).toEqual([by, await names.count()]);
    }
    await page.getByRole("list", { name: "Legend" }).getByRole("link", { name: "no team" }).click();
    await page.getByText("without a team").waitFor();
    expect(new URL(page.url()).searchParams.get("without")).toBe("team");
    await rowsOf(page).first().waitFor();
    const teams = page.locator('.requests .key a[href*="/teams/"]');
    expect(await teams.count()).toBe(0);
    expect(visitor.faults).toEqual([]);
  });

  it("download the filtered requests and the chart's figures as CSV", async () => {
    await using visitor = await signedIn("/requests?key=alice");
    const { page } = visitor;
    await rowsOf(page).first().waitFor();
    const requests = await downloaded(page, () => page.getByRole("link", { name: "CSV" }).click());
    expect(requests.length).toBeGreaterThan(20);
    expect(requests.slice(1).filter((line) => !line.includes("alice"))).toEqual([]);
    await page.goto(`${proxy.url}/dashboard?span=7d&by=key`);
    await page.getByText("Show as a table").click();
    const figures = await downloaded(page, () => page.getByRole("link", { name: "CSV" }).click());
    expect(figures[0]).toMatch(/^"hour",.*"alice"/);
    expect(figures).toHaveLength(1 + (await page.locator(".as-table tbody tr").count()));
    expect(visitor.faults.filter((fault) => !fault.includes("data:text/csv"))).toEqual([]);
  });

  it("limit the figures to a custom range of days", async () => {
    await using visitor = await signedIn("");
    const { page } = visitor;
    await page.getByRole("combobox", { name: "Time", exact: true }).selectOption("Custom…");
    const today = new Date().toISOString().slice(0, 10);
    await page.getByLabel("First day").fill(today);
    await page.waitForURL((url) => url.searchParams.get("since") === today);
    await page.locator(".headline").first().waitFor();
    expect(new URL(page.url()).searchParams.get("until")).toBe(today);
    expect(visitor.faults).toEqual([]);
  });

  it("show the parts of groups as a table and as CSV, which add up to the groups and the total", async () => {
    // More keys than the eight that are groups, or parts of a model.
    for (let at = 0; at < 9; at++)
      await (await proxy.chat(message("tokens:9"), { key: await proxy.addKey(`k${at}`) })).text();
    await proxy.serving.settled();
    await using visitor = await signedIn("");
    const { page } = visitor;
    for (const [filter, by, thenBy, rest] of [
      ["", "key", "model", "all"],
      ["model=gpt-4o&", "model", "key", "others"],
    ] as const) {
      await page.goto(`${proxy.url}/dashboard?span=7d&${filter}by=${by}&then_by=${thenBy}`);
      await page.locator(`.as-table [aria-label="Spend by ${by}, then by ${thenBy}"]`).waitFor({ state: "attached" });
      // Everything at once, because the page reloads its figures.
      const { csv, cells } = await page.evaluate<{ csv: string[]; cells: string[] }>(`(() => {
        const sheets = document.querySelector(".as-table");
        return {
          csv: [...sheets.querySelectorAll("a")].map(({ href }) => decodeURIComponent(href.replace(/^.*?,/, ""))),
          cells: [...sheets.querySelectorAll("div > .scroll td.num")].map((cell) => cell.textContent),
        };
      })()`);
      const [[groups = [], ...hours] = [], [head, ...parts] = []] = csv.map(parseCsv);
      expect(head).toEqual([by, thenBy, "cost_usd"]);
      const costs = parts.map(([, , cost]) => cost);
      const ofGroups = Map.groupBy(parts, ([group]) => group);
      expect([...ofGroups].map(([name, rows]) => [name, sumOf(rows.map(([, , cost]) => cost))])).toEqual(
        groups.slice(1).map((name, at) => [name, sumOf(hours.map((row) => row[at + 1]))]),
      );
      expect(parts.at(-1)?.slice(0, 2)).toEqual([groups.at(-1), rest]);
      const shown = cells.slice(-costs.length - 1).map((text) => usd(text.replace(/[$,]/g, "")));
      expect(shown).toEqual([...costs.map((cost) => usd(cost ?? "")), sumOf(costs)]);
    }
    expect(visitor.faults).toEqual([]);
  });
});
