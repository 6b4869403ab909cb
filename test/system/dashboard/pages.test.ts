import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { endDay, startDay } from "../../support/daytime.ts";
import { signIn, visit, visitAs, withoutChromium } from "../../support/browser.ts";
import { startProxy } from "../../support/running-proxy.ts";
import { until } from "../../support/until.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";
const dayMs = 86_400_000;
const started = () => startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });

beforeAll(startDay);
afterAll(endDay);

describe.skipIf(withoutChromium)("the dashboard", () => {
  it("shows on a key's page which budget refused requests earlier in the current window", async () => {
    await using proxy = await started();
    await proxy.budget("key:alice", "0.000001", "total");
    await proxy.budget("all", "100", "1d");
    const { keys, refusals } = proxy.serving;
    const [alice] = (await keys.page({ limit: 1, at: Date.now() })).keys;
    const at = Date.now() - 2 * dayMs;
    const row = { team: null, route: "/v1/chat/completions", model: "gpt-4o", code: "budget_exceeded" } as const;
    const earlier = {
      ...row,
      key: alice?.id ?? "",
      minute: at - (at % 60_000),
      firstAt: at,
      lastAt: at,
      needed: usd("0.02"),
    };
    await refusals.add([
      { ...earlier, scope: "key:alice", period: "total", subject: null, count: 5 },
      { ...earlier, scope: "all", period: "1d", subject: null, count: 7 },
    ]);
    await using visitor = await visitAs(token, proxy.url, "/keys/alice");
    const { page } = visitor;
    const before = page.getByRole("region", { name: "Refused earlier" });
    await before.getByText("Total budget of key alice").waitFor();
    expect(await before.getByRole("listitem").allTextContents()).toEqual([
      "Total budget of key alice ($0.000001 in total; never resets), a request needed $0.022 days ago5",
    ]);
    expect((await proxy.chat({})).status).toBe(402);
    const today = page.getByRole("region", { name: "Refused today" });
    await today.getByText("Total budget of key alice").waitFor();
    await before.waitFor({ state: "detached" });
    expect(visitor.faults).toEqual([]);
  });

  it("links an alert to its budget", async () => {
    await using proxy = await started();
    await proxy.budget("key:alice", "0.000001", "1d");
    expect((await proxy.chat({})).status).toBe(402);
    await proxy.serving.alerts.evaluate();
    await using visitor = await visitAs(token, proxy.url, "/health");
    const { page } = visitor;
    await page.getByRole("link", { name: /^The budget key:alice per 1d/ }).click();
    await page.getByRole("dialog", { name: "Daily budget of key alice" }).getByRole("meter").waitFor();
    expect(visitor.faults).toEqual([]);
  });

  it("lists a model's budgets on its page, and sets one there", async () => {
    await using proxy = await started();
    await proxy.budget("each-model", "5", "1d");
    await proxy.budget("key:alice model:gpt-4o*", "7", "1mo");
    await proxy.budget("model:other", "9", "1d", "soft");
    await (await proxy.chat({})).text();
    await proxy.charges();
    await using visitor = await visitAs(token, proxy.url, "/models/gpt-4o");
    const { page } = visitor;
    const budgets = page.getByRole("region", { name: "Budgets" });
    await budgets.getByRole("article").nth(1).waitFor();
    expect((await budgets.getByRole("heading", { level: 3 }).allTextContents()).toSorted()).toEqual([
      "Each model",
      "Key alice, models gpt-4o*",
    ]);
    await budgets.getByRole("button", { name: "Set a budget" }).click();
    expect(await page.getByRole("textbox", { name: "Model" }).inputValue()).toBe("gpt-4o");
    await page.getByLabel("Limit (USD)").fill("3");
    await page.getByRole("button", { name: "Save budget" }).click();
    await budgets.getByRole("heading", { name: "Model gpt-4o", exact: true }).waitFor();
    expect(visitor.faults).toEqual([]);
  });

  it("names the user of each window, a refused model, and soft budgets", async () => {
    await using proxy = await started();
    const bob = await proxy.addKey("bob", { team: "research", models: ["gpt-4o"] });
    await proxy.budget("team:research each-user", "5", "1d");
    await proxy.budget("all", "0.000001", "1d", "soft");
    await proxy.budget("each-key", "100", "1mo");
    await proxy.budget("key:bob", "1", "1mo");
    for (const user of ["carol", "carol", "dave"]) await (await proxy.chat({ user }, { key: bob })).text();
    expect((await proxy.chat({ model: "gpt-4o-mini" }, { key: bob })).status).toBe(403);
    await proxy.charges();
    await using visitor = await visit(proxy.url);
    const { page } = visitor;
    const histories = new Set<string | null>();
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.pathname.endsWith("/budgets/history")) histories.add(url.searchParams.get("subject"));
    });
    await page.goto(`${proxy.url}/dashboard/teams/research`);
    await signIn(page, token);
    await page.getByText("Model not allowed: gpt-4o-mini").waitFor();
    const cards = page.getByRole("article").filter({ hasText: "Each user of team research" });
    await cards.getByText("$5.00 a day for user=carol").waitFor();
    await cards.getByText("$5.00 a day for user=dave").waitFor();
    await until(async () => (await cards.count()) === 2, "there are two cards");
    await until(() => histories.size === 3, "three histories are loaded");
    expect(histories).toEqual(new Set([null, "user=carol", "user=dave"]));
    await page.goto(`${proxy.url}/dashboard/teams`);
    const row = page.getByRole("row").filter({ hasText: "research" });
    await row.getByText("soft").waitFor();
    expect(await row.locator(".meter.bad").count()).toBe(0);

    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("You are signed out.").waitFor();
    await page.goto(`${proxy.url}/dashboard/standing`);
    await signIn(page, bob);
    await page.getByText("model not allowed: gpt-4o-mini").waitFor();
    const own = page.getByRole("article").getByRole("heading");
    await own.nth(1).waitFor();
    expect(await own.allTextContents()).toEqual(["Key bob", "Each key"]);
    expect(visitor.faults).toEqual([]);
  });

  it("says on Health that the uncertainty is too large to compare bill and ledger, and writes amounts with a minus sign", async () => {
    await using proxy = await started();
    await proxy.serving.sampler.sample();
    const content = "Tell me more. #sandbox cut:40";
    const cut = await proxy.chat({ messages: [{ role: "user", content }], stream: true, max_tokens: 4000 });
    await cut.text().catch(() => "");
    await proxy.charges();
    await proxy.serving.sampler.sample();
    await using visitor = await visitAs(token, proxy.url, "/health");
    const { page } = visitor;
    const bill = page.locator("section.card").filter({ has: page.getByRole("heading", { name: "Bill and ledger" }) });
    await bill.getByText("Cannot tell", { exact: true }).waitFor();
    await bill.getByText("whether they agree: the uncertainty is too large").waitFor();
    expect((await bill.locator(".why").textContent()) ?? "").toMatch(/^[A-Z].+\.?$/);
    expect(await page.locator(".tile").filter({ hasText: "Bill and ledger" }).textContent()).toContain("Cannot tell");
    const facts = (await bill.locator(".facts").textContent()) ?? "";
    expect(facts).toMatch(/Uncertainty−\$[\d.]+ to \+/);
    expect(facts).not.toContain("-$");
    expect(visitor.faults).toEqual([]);
  });

  it("lets a key download only its own requests as CSV", async () => {
    await using proxy = await started();
    const bob = await proxy.addKey("bob");
    await (await proxy.chat({})).text();
    for (let sent = 0; sent < 2; sent++) await (await proxy.chat({}, { key: bob })).text();
    await proxy.charges();
    await using visitor = await visitAs(bob, proxy.url, "/requests");
    const { page } = visitor;
    await page.getByRole("row").nth(2).waitFor();
    const arrives = page.waitForEvent("download");
    await page.getByRole("link", { name: "CSV" }).click();
    const path = await (await arrives).path();
    expect(readFileSync(path, "utf8").trim().split("\r\n")).toHaveLength(3);
    expect(visitor.faults).toEqual([]);
  });

  it("suspends, edits and revokes a key, whose page then has no actions, and shows a team without keys", async () => {
    await using proxy = await started();
    await using visitor = await visitAs(token, proxy.url, "/teams");
    const { page } = visitor;
    await page.getByRole("button", { name: "Create a team" }).click();
    await page.getByLabel("Name").fill("empty");
    await page.getByRole("button", { name: "Create team" }).click();
    await page.getByRole("link", { name: "empty" }).click();
    await page.getByRole("heading", { name: "empty", level: 1 }).waitFor();
    await page.getByText("No requests in this time.").waitFor();
    await page.getByRole("link", { name: "0 keys" }).waitFor();
    await page.goto(`${proxy.url}/dashboard/keys/alice`);
    await page.getByRole("button", { name: "Suspend" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Suspend" }).click();
    await page.locator(".view-head").getByText("suspended").waitFor();
    await page.goto(`${proxy.url}/dashboard/keys`);
    await page.getByRole("link", { name: "alice" }).click();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await page.locator(".view-head").getByText("suspended").waitFor({ state: "detached" });
    const edit = async (values: Record<string, string>) => {
      await page.getByRole("button", { name: "Edit" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("Labels, tags and user").click();
      for (const [label, value] of Object.entries(values)) await dialog.getByLabel(label).fill(value);
      await dialog.getByRole("button", { name: "Save" }).click();
      await dialog.waitFor({ state: "detached" });
    };
    const shown = (text: string) => page.getByRole("definition").filter({ hasText: text });
    await edit({ Labels: "env=prod, tier=1", "Pinned tags": "team=x", "Pinned user": "u 1", Required: "user" });
    await shown("env=prod, tier=1").waitFor();
    await shown("u 1").waitFor();
    await edit({ Labels: "tier=2", "Pinned user": "" });
    await shown("tier=2").waitFor();
    await shown("team=x").waitFor();
    await page.getByRole("term").filter({ hasText: "Pinned user" }).waitFor({ state: "detached" });
    await page.getByText("env=prod, tier=1 → tier=2").waitFor();
    await page.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.locator(".view-head").getByText("revoked").waitFor();
    await page.getByRole("term").filter({ hasText: "Revoked" }).waitFor();
    const actions = page.getByRole("button", { name: /^(Edit|Rotate|Suspend|Resume|Revoke|Set a budget)$/ });
    await until(async () => (await actions.count()) === 0, "the page has no actions");
    await page.goto(`${proxy.url}/dashboard`);
    await page.getByText("Create an internal key.").waitFor();
    expect(visitor.faults).toEqual([]);
  });

  it("keeps the last data while the server does not answer", async () => {
    await using proxy = await started();
    await (await proxy.chat({})).text();
    await proxy.charges();
    await using visitor = await visitAs(token, proxy.url, "/requests");
    const { page } = visitor;
    await page.getByRole("row").nth(1).waitFor();
    await proxy[Symbol.asyncDispose]();
    await page.getByText("Farebox does not answer. Check that it is running.").waitFor();
    expect(await page.getByRole("row").count()).toBe(2);
  });
});
