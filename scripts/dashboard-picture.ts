import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Locator, Page } from "playwright-core";
import { setBudget } from "../src/admin/budget-changes.ts";
import { sandboxPrices } from "../src/sandbox/prices.ts";
import { addAdmin } from "../test/support/admin-client.ts";
import { closeBrowser, signIn, visit } from "../test/support/browser.ts";
import { trafficProfiles, writePastTraffic } from "../test/support/past-traffic.ts";
import { manualClock } from "../test/support/manual-clock.ts";
import { startProxy } from "../test/support/running-proxy.ts";

/*
 * Takes the pictures of the dashboard for docs/images. Chromium shows a real Farebox with the sandbox as its gateway and three
 * months of traffic in the ledger. If the argument is a folder, writes every view in both themes and both sizes to that folder.
 * Needs `chromium`.
 */
const [target] = process.argv.slice(2);
const folder = target === undefined ? fileURLToPath(new URL("../docs/images", import.meta.url)) : resolve(target);
/** Simulated time of the pictures, a Wednesday afternoon. It is fixed, because every run must take the same pictures. */
const present = Date.parse("2026-11-18T15:40:00Z");
const minuteMs = 60_000;

/** Models with the same price in Farebox and the sandbox. */
const pricedBySandbox = new Set(Object.keys(sandboxPrices()));

const clock = manualClock(present - 60 * minuteMs);
let served = 0;
await using proxy = await startProxy({
  clock,
  sandbox: {
    startingBalanceUsd: "212.40",
    // Advances the simulated clock, because each request must have a duration.
    scenario: () => {
      clock.advance(380 + ((served++ * 617) % 2900));
      return undefined;
    },
  },
});
const token = await addAdmin(proxy.database, "carol", "editor");
const keys = new Map(await writePastTraffic(proxy, { until: clock.now(), days: 92 }));
keys.set(
  "onboarding",
  await proxy.addKey("onboarding", {
    team: "support",
    models: ["gpt-4o*"],
    limits: { rpm: 60, tpm: 200_000, parallel: 4 },
    lifetimeMs: 30 * 24 * 60 * minuteMs,
  }),
);
for (const [scope, limit, period, mode, warnPercent] of [
  ["all", "60", "1mo", "hard", 80],
  ["team:research", "2.40", "1d", "hard", 80],
  ["team:product", "4", "1mo", "soft", 90],
  ["key:support-bot", "0.10", "1d", "hard", null],
  ["each-key", "0.80", "1d", "hard", 80],
  ["key:nightly-eval", "0.75", "1d", "hard", 80],
  ["key:onboarding", "0.05", "1w", "hard", 75],
] as const) {
  const set = await setBudget(
    { ledger: proxy.serving.ledger, keys: proxy.serving.keys, clock, by: "carol" },
    { scope, limit, period, mode, warnPercent },
  );
  if (!set.ok) throw new Error(set.message);
}
await lastHour();
clock.set(present - 14_000);
const leaving = new AbortController();
await Promise.all([
  send("alice", "claude-sonnet-4-6", "endless:40", { stream: true, signal: leaving.signal }),
  send("onboarding", "gpt-4o", "endless:30", { stream: true, signal: leaving.signal }),
]);
clock.set(present);

/** Sends an hour of requests from all keys. Some streams are cut, and some requests fail at the gateway. */
async function lastHour(): Promise<void> {
  await proxy.serving.sampler.sample();
  for (let minute = 0, number = 0; minute < 60; minute++) {
    const wanted = Math.round(3 + 2 * Math.sin(minute / 7) + (minute % 3));
    for (let each = 0; each < wanted; each++, number++) {
      const member = number % 9 === 4 ? undefined : trafficProfiles[(number * 5) % trafficProfiles.length];
      const { name, models } = member ?? { name: "onboarding", models: [["gpt-4o-mini", 1]] as const };
      const priced = models.filter(([model]) => pricedBySandbox.has(model));
      const model = priced[(number * 3) % priced.length]?.[0] ?? "gpt-4o";
      const fails = each === 0 && (minute % 23 === 9 || minute === 34);
      const tokens = `tokens:${60 + ((number * 97) % 420)}`;
      const answer = await (fails
        ? send(name, model, "status:502")
        : number % 61 === 5
          ? send(name, model, "cut:40", { stream: true })
          : send(name, model, tokens, { stream: number % 7 === 3 }));
      // Reading the body of a cut stream fails.
      await answer.text().catch(() => "");
      await settled();
      clock.advance(Math.floor(minuteMs / (wanted + 1)) - 3_500);
    }
    clock.set(present - (59 - minute) * minuteMs);
  }
  await proxy.serving.sampler.sample();
}

/** Waits until all requests are settled. Advances the clock meanwhile, because settlements wait for it. */
async function settled(): Promise<void> {
  const ticking = setInterval(() => clock.advance(1), 1);
  await proxy.serving.settled();
  clearInterval(ticking);
}

function send(
  name: string,
  model: string,
  scenario: string,
  { stream = false, signal }: { readonly stream?: boolean; readonly signal?: AbortSignal } = {},
): Promise<Response> {
  const tags = Object.entries(trafficProfiles.find((profile) => profile.name === name)?.tags ?? {})
    .map(([tag, value]) => `${tag}=${value}`)
    .join(", ");
  const content = `${"The customer wrote again. ".repeat(20 + model.length * 7)}#sandbox ${scenario}`;
  return proxy.chat(
    { model, messages: [{ role: "user", content }], max_tokens: stream ? 2000 : 600, ...(stream && { stream }) },
    {
      key: keys.get(name) ?? "",
      ...(tags !== "" && { headers: { "x-farebox-tag": tags } }),
      ...(signal && { signal }),
    },
  );
}

const screens = {
  desk: { viewport: { width: 1440, height: 1170 }, deviceScaleFactor: 1 },
  phone: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 1.5, isMobile: true, hasTouch: true },
} as const;
const themes = ["light", "dark"] as const;
type Picture = `${keyof typeof screens}-${(typeof themes)[number]}`;

/** Waits for a chart and its legend. */
async function charted(page: Page): Promise<void> {
  await page.locator(".legend").waitFor();
}

interface View {
  readonly name: string;
  readonly path: string;
  readonly shown: (page: Page) => Locator;
  /** Steps before the picture is taken. */
  readonly first?: (page: Page) => Promise<unknown>;
  /** Pictures that the documentation uses. */
  readonly kept: readonly Picture[];
}

const views: readonly View[] = [
  {
    name: "overview",
    path: "?span=30d",
    shown: (page) => page.locator(".legend"),
    kept: ["desk-light", "desk-dark", "phone-light"],
  },
  {
    name: "requests",
    path: "/requests",
    shown: (page) => page.locator(".requests tbody tr").nth(9),
    kept: ["desk-dark", "phone-dark"],
  },
  {
    name: "request",
    path: "/requests",
    shown: (page) => page.locator(".requests tbody tr").nth(9),
    kept: ["desk-light"],
    first: async (page) => {
      await page.locator(".requests tbody tr").filter({ hasText: "reported" }).first().click();
      await page.locator(".items").waitFor();
    },
  },
  {
    name: "keys",
    path: "/keys",
    shown: (page) => page.locator(".keys tbody tr").nth(5),
    kept: ["desk-light", "phone-light"],
  },
  {
    name: "key",
    path: "/keys/nightly-eval",
    shown: (page) => page.locator(".refused-card"),
    kept: ["desk-light"],
    first: charted,
  },
  { name: "teams", path: "/teams", shown: (page) => page.locator(".keys tbody tr").nth(2), kept: [] },
  { name: "team", path: "/teams/product", shown: (page) => page.locator(".budget").first(), kept: [], first: charted },
  {
    name: "budgets",
    path: "/budgets",
    shown: (page) => page.locator(".keys tbody tr").nth(5),
    kept: ["desk-dark"],
  },
  {
    name: "budget",
    path: "/budgets?scope=each-key&period=1d",
    shown: (page) => page.locator(".drawer .spenders li").nth(3),
    kept: [],
  },
  { name: "models", path: "/models", shown: (page) => page.locator(".prices tbody tr").nth(5), kept: ["desk-dark"] },
  { name: "model", path: "/models/gpt-5", shown: (page) => page.locator(".history").first(), kept: [], first: charted },
  { name: "audit", path: "/audit", shown: (page) => page.locator("tbody tr").nth(2), kept: [] },
  { name: "admins", path: "/admins", shown: (page) => page.locator("tbody tr").first(), kept: [] },
  { name: "health", path: "/health", shown: (page) => page.locator(".minutes"), kept: ["desk-light"] },
];

mkdirSync(folder, { recursive: true });
try {
  for (const screen of ["desk", "phone"] as const) {
    for (const colorScheme of themes) {
      await using visitor = await visit(proxy.url, { ...screens[screen], colorScheme });
      const { page } = visitor;
      await page.clock.setFixedTime(present);
      await page.goto(`${proxy.url}/dashboard`);
      await signIn(page, token);
      const picture: Picture = `${screen}-${colorScheme}`;
      for (const { name, path, shown, first } of views.filter(
        ({ kept }) => target !== undefined || kept.includes(picture),
      )) {
        await page.goto(`${proxy.url}/dashboard${path}`);
        await shown(page).waitFor();
        await first?.(page);
        await page.evaluate("document.fonts.ready");
        await page.screenshot({ path: `${folder}/dashboard-${name}-${picture}.png` });
      }
    }
  }
} finally {
  await closeBrowser();
  leaving.abort();
  // Remaining work waits for the simulated clock, so the process would not end.
  setInterval(() => clock.advance(minuteMs), 10).unref();
}
