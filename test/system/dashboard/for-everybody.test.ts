import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { addAdmin } from "../../support/admin-client.ts";
import { endDay, startDay } from "../../support/daytime.ts";
import { signIn, visit, visitAs, withoutChromium } from "../../support/browser.ts";
import { writePastTraffic } from "../../support/past-traffic.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { until } from "../../support/until.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Each view, with a function that waits until it is shown. */
const views: readonly (readonly [path: string, shown: (page: Page) => Promise<unknown>])[] = [
  ["?span=30d", (page) => page.getByRole("list", { name: "Legend" }).waitFor()],
  ["/requests", (page) => page.getByRole("row").nth(3).waitFor()],
  [
    "?since=2026-01-01&by=team&then_by=model&compare=previous&key=alice",
    (page) => page.getByRole("list", { name: "Legend" }).waitFor(),
  ],
  ["/requests?source=counted", (page) => page.getByRole("table").getByText("counted").first().waitFor()],
  ["/requests?status=refused", (page) => page.locator("tr.refused").first().waitFor()],
  ["/requests?sort=cost&span=30d", (page) => page.getByRole("row").nth(3).waitFor()],
  ["/keys", (page) => page.getByRole("meter").first().waitFor()],
  ["/keys/alice", (page) => page.getByRole("list", { name: "Legend" }).waitFor()],
  ["/teams", (page) => page.getByRole("meter").first().waitFor()],
  ["/teams/research", (page) => page.getByRole("list", { name: "Legend" }).waitFor()],
  ["/budgets", (page) => page.getByRole("meter").first().waitFor()],
  ["/budgets?scope=each-key&period=1mo", (page) => page.getByRole("dialog").getByRole("meter").first().waitFor()],
  ["/keys?new=key", (page) => page.getByRole("button", { name: "Create key" }).waitFor()],
  ["/models", (page) => page.getByRole("row").nth(3).waitFor()],
  ["/models/gpt-4o", (page) => page.getByText("in force").waitFor()],
  ["/audit", (page) => page.getByRole("row").nth(3).waitFor()],
  ["/admins", (page) => page.getByText("No admins yet").waitFor()],
  ["/health", (page) => page.getByRole("img", { name: /In the last hour/ }).waitFor()],
];

/** Returns a function that clicks a button and waits until its dialog, drawer or fields are shown. */
const press = (name: string | RegExp, shown: (page: Page) => Promise<unknown>) => async (page: Page) => {
  await page.getByRole("button", { name }).first().click();
  await shown(page);
};
const dialog = (page: Page) => page.getByRole("dialog").waitFor();

type State = readonly [path: string, open: (page: Page) => Promise<unknown>];

/** Views with the clicks that open a part of them. */
const opened: readonly State[] = [
  ["/keys/alice", press("Edit", dialog)],
  ["/keys/alice", press("Rotate", dialog)],
  ["/keys/alice", press("Suspend", dialog)],
  ["/keys/alice", press("Revoke", dialog)],
  ["/budgets", press("Set a budget", dialog)],
  ["/budgets", press(/^Raise /, dialog)],
  ["/budgets", press(/^Remove /, dialog)],
  ["/teams", press("Create a team", dialog)],
  ["/admins", press("Create an admin", dialog)],
  ["/requests", press(/^Request of /, dialog)],
  ["/requests", (page) => page.getByText("More filters").click()],
  ["?span=30d&by=team&then_by=model", (page) => page.getByText("Show as a table").click()],
];

/** States of a ledger with an admin, a request for a raise, and a budget for each user. */
const withRows: readonly State[] = [
  ["/admins", (page) => page.getByRole("row").filter({ hasText: "vera" }).waitFor()],
  ["/admins", press("Revoke vera", dialog)],
  [
    "/budgets?scope=key:alice%20each-user&period=1mo",
    (page) => page.getByRole("dialog").getByRole("meter").first().waitFor(),
  ],
  ["/budgets", press("Approve", dialog)],
  ["/budgets", press("Deny", dialog)],
];

/** States of the views of a key. */
const ofKey: readonly State[] = [
  ["/requests", (page) => page.getByRole("row").nth(2).waitFor()],
  ["/requests", press(/^Request of /, dialog)],
  ["/standing", press("Ask for a raise", dialog)],
];

const phone = { width: 360, height: 740 };
const desktop = { width: 1440, height: 900 };
/** Widths of a phone, a tablet and a desktop, and one pixel above each breakpoint in style.css. */
const widths = [phone.width, 768, 1021, 1081, 1241, desktop.width];
type Look = readonly [size: typeof phone, colorScheme: "light" | "dark"];
const allLooks: readonly Look[] = [
  [phone, "light"],
  [phone, "dark"],
  [desktop, "light"],
  [desktop, "dark"],
];
/** Both sizes and both themes, once each. */
const twoLooks: readonly Look[] = [
  [phone, "dark"],
  [desktop, "light"],
];

/**
 * Script that returns the number of pixels by which the page, or a table in its card, is too wide. Relative times are
 * replaced by the longest one, so that the width does not depend on the time of the test.
 */
const tooWide = `for (const time of document.querySelectorAll("time"))
  if (time.textContent.endsWith(" ago")) time.textContent = "58 minutes ago";
Math.max(
  document.documentElement.scrollWidth - innerWidth,
  ...[...document.querySelectorAll(".card table")]
    .filter((table) => table.closest(".scroll") === null)
    .map((table) => table.getBoundingClientRect().right - table.closest(".card").getBoundingClientRect().right),
)`;

/** Largest number of frames in which the page may adapt to a new width. A chart is drawn again after the page's layout. */
const framesMax = 60;

/** Returns the faults that axe finds in the current page, and the widths at which it scrolls sideways. */
async function faultsOf(page: Page, looks = twoLooks): Promise<string[]> {
  const faults: string[] = [];
  // Bypasses the page's content security policy, which allows no other scripts.
  await page.evaluate(axe);
  const sizes = new Set<typeof phone>();
  for (const [size, colorScheme] of looks) {
    // A second theme changes only colors.
    const rules = sizes.has(size) ? ', runOnly: ["color-contrast", "link-in-text-block"]' : "";
    sizes.add(size);
    const look = `${size.width} ${colorScheme}`;
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme });
    const { violations } = await page.evaluate<AxeResults>(`axe.run({ resultTypes: ["violations"]${rules} })`);
    for (const { id, nodes } of violations)
      faults.push(...nodes.map(({ html, failureSummary }) => `${look}: ${id}: ${html} ${failureSummary ?? ""}`));
  }
  for (const width of widths) {
    await page.setViewportSize({ width, height: 900 });
    let wider = Number.POSITIVE_INFINITY;
    for (let frame = 0; frame < framesMax && wider > 0; frame++) {
      await page.evaluate("new Promise((drawn) => requestAnimationFrame(drawn))");
      wider = await page.evaluate<number>(tooWide);
    }
    if (wider > 0) faults.push(`${width}: scrolls sideways by ${wider}`);
  }
  return faults;
}

async function expectNoFaults(page: Page, url: string, states: readonly State[]): Promise<void> {
  for (const [path, open] of states) {
    await page.goto(`${url}/dashboard${path}`);
    await open(page);
    expect([path, String(open), await faultsOf(page)]).toEqual([path, String(open), []]);
  }
}

beforeAll(startDay);
afterAll(endDay);

describe.skipIf(withoutChromium)("the dashboard", { timeout: 480_000 }, () => {
  let proxy: RunningProxy;
  beforeAll(async () => {
    proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await writePastTraffic(proxy, { until: Date.now(), days: 4 });
    await proxy.budget("all", "5", "1mo");
    await proxy.budget("key:alice", "0.000001", "1mo");
    await proxy.budget("team:product", "1", "1d", "soft");
    await proxy.budget("each-key", "2", "1mo");
    expect((await proxy.chat({})).status).toBe(402);
  });
  afterAll(() => proxy?.[Symbol.asyncDispose]());

  const signedIn = (options?: BrowserContextOptions) => visitAs(token, proxy.url, "", options);

  it("has no axe fault and no sideways scrolling in any view", async () => {
    await using visitor = await signedIn();
    const { page } = visitor;
    const found: Record<string, string[]> = {};
    for (const [path, shown] of views) {
      await page.goto(`${proxy.url}/dashboard${path}`);
      await shown(page);
      found[path] = await faultsOf(page, allLooks);
    }
    expect(found).toEqual(Object.fromEntries(views.map(([path]) => [path, []])));
    expect(visitor.faults).toEqual([]);
  });

  it("has no axe fault and no sideways scrolling in any dialog, drawer or opened part", async () => {
    await using visitor = await signedIn();
    const { page } = visitor;
    await expectNoFaults(page, proxy.url, opened);
    // The button has other colors under the pointer.
    await page.setViewportSize(phone);
    await page.goto(`${proxy.url}/dashboard/keys?new=key`);
    await page.getByLabel("Name").fill("erin");
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("button", { name: "I have stored it" }).hover();
    expect(await faultsOf(page)).toEqual([]);
    expect(visitor.faults).toEqual([]);
  });

  it("has no axe fault and no sideways scrolling on an empty ledger, at sign-in, or for a key with refused requests", async () => {
    await using empty = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await using visitor = await visit(empty.url);
    const { page } = visitor;
    await page.goto(`${empty.url}/dashboard`);
    await page.getByLabel("Admin token or internal key").fill("another-token");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").waitFor();
    expect(await faultsOf(page)).toEqual([]);
    // The browser logs the refused sign-in.
    visitor.faults.length = 0;
    await signIn(page, token);
    for (const view of ["", "/requests", "/keys", "/teams", "/budgets", "/models", "/audit", "/admins", "/health"]) {
      await page.goto(`${empty.url}/dashboard${view}`);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.locator(".waiting").first().waitFor({ state: "detached" });
      expect([view, await faultsOf(page)]).toEqual([view, []]);
    }
    expect(visitor.faults).toEqual([]);

    await using keyVisitor = await visitAs(proxy.key, proxy.url);
    for (const view of ["", "/standing"]) {
      await keyVisitor.page.goto(`${proxy.url}/dashboard${view}`);
      await keyVisitor.page.getByRole("region", { name: "Refused requests" }).waitFor();
      expect([view, await faultsOf(keyVisitor.page)]).toEqual([view, []]);
    }
    expect(keyVisitor.faults).toEqual([]);
  });

  it("has no axe fault and no sideways scrolling for a key that asks for a raise, in the list of admins, or in the windows of users", async () => {
    await using raises = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await addAdmin(raises.database, "vera", "viewer");
    await raises.budget("key:alice each-user", "5", "1mo");
    await (await raises.chat({ user: "u_7" })).text();
    await raises.charges();
    await raises.budget("each-key", "0.00000001", "1d");
    expect((await raises.chat({})).status).toBe(402);

    await using keyVisitor = await visitAs(raises.key, raises.url);
    await expectNoFaults(keyVisitor.page, raises.url, ofKey);
    await keyVisitor.page.getByLabel("Amount (USD)").fill("5");
    await keyVisitor.page.getByLabel("Reason").fill("a demo");
    await keyVisitor.page.getByRole("button", { name: "Ask", exact: true }).click();
    await keyVisitor.page.getByRole("list", { name: "Raises" }).getByText("open", { exact: true }).waitFor();
    expect(await faultsOf(keyVisitor.page)).toEqual([]);
    expect(keyVisitor.faults).toEqual([]);

    await using visitor = await visitAs(token, raises.url);
    await expectNoFaults(visitor.page, raises.url, withRows);
    expect(visitor.faults).toEqual([]);
  });

  it("lets the keyboard skip the navigation, open and close a dialog, and return to its button", async () => {
    await using visitor = await signedIn();
    const { page } = visitor;
    await page.goto(`${proxy.url}/dashboard/keys`);
    await page.getByRole("meter").first().waitFor();
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Skip to the content");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Create a key");
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Create a key" });
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    const focused = () => page.evaluate("document.activeElement.textContent");
    await until(async () => (await focused()) === "Create a key", "the button has the focus again");
    expect(visitor.faults).toEqual([]);
  });

  it("lets arrow keys step through the chart, and shows it as a table", async () => {
    await using visitor = await signedIn();
    const { page } = visitor;
    await page.goto(`${proxy.url}/dashboard?span=30d&by=team`);
    const chart = page.getByRole("img", { name: /^Spend over time: / });
    await chart.focus();
    await page.keyboard.press("End");
    const tip = page.locator(".tip");
    await tip.waitFor();
    const last = await tip.locator(".tip-head").textContent();
    await page.keyboard.press("ArrowLeft");
    await tip
      .locator(".tip-head")
      .filter({ hasNotText: last ?? "" })
      .waitFor();
    await page.getByText("Show as a table").click();
    const rows = page.getByRole("region", { name: "Spend over time" }).getByRole("row");
    expect(await rows.count()).toBe(32);
  });

  it("formats figures in the browser's locale and keeps every digit", async () => {
    await using visitor = await signedIn({ locale: "de-DE" });
    const { page } = visitor;
    await page.goto(`${proxy.url}/dashboard?span=30d`);
    const figure = page.locator(".headline data").first();
    await figure.waitFor();
    const [shown, title, exact] = [
      await figure.textContent(),
      await figure.getAttribute("title"),
      await figure.getAttribute("value"),
    ];
    expect(shown).toMatch(/^\d+,\d\d\s\$$/);
    expect(title?.replace(/\s\$$/, "").replace(/\./g, "").replace(",", ".")).toBe(exact);
  });

  it("remembers the chosen theme", async () => {
    await using visitor = await signedIn({ colorScheme: "light" });
    const { page } = visitor;
    const background = () => page.evaluate<string>("getComputedStyle(document.documentElement).backgroundColor");
    const light = await background();
    await page.getByRole("button", { name: /^Theme: system/ }).click();
    await page.getByRole("button", { name: /^Theme: light/ }).click();
    await page.getByRole("button", { name: /^Theme: dark/ }).waitFor();
    const dark = await background();
    expect(dark).not.toBe(light);
    await page.reload();
    await page.getByRole("button", { name: /^Theme: dark/ }).waitFor();
    expect(await background()).toBe(dark);
  });
});
