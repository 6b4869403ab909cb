/**
 * Measures how long the dashboard's lists and pages take on the ledger of a large company. Loads each list over HTTP from the real
 * proxy, and each page in Chromium until the page shows its rows and the browser is idle.
 *
 *   node bench/dashboard-ledger.ts FILE
 *   node bench/dashboard.ts FILE [--loads 20] [--only lists|pages] [--json FILE]
 *
 * FILE may also be the address of a PostgreSQL database into which `farebox db copy` copied such a ledger. If FILE is a file, the
 * proxy serves a copy of it. The clock is set to the end of the charges. `--json` replaces only the results of the measured store
 * and kind.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { closeBrowser, signIn, visit } from "../test/support/browser.ts";
import { dashboardNow } from "./dashboard-ledger.ts";
import { machine } from "./report.ts";
import { benchToken, clockAt, copyOfLedger, served } from "./served.ts";
import { percentile, sortedCopy } from "./statistics.ts";

const lists = [
  "/keys",
  "/keys?sort=name",
  "/keys?sort=spent",
  "/keys?sort=share",
  "/keys?sort=last_used",
  "/keys?q=grace-1&sort=spent",
  "/keys/bench3",
  "/teams?sort=name",
  "/teams?sort=spent",
  "/teams?sort=share",
  "/teams?sort=last_used",
  "/teams?sort=keys",
  "/teams/billing-1",
  "/models?sort=name",
  "/models?sort=spent",
  "/models?sort=last_used",
  "/models/model-3",
  "/budgets",
  "/budgets?sort=share",
  "/budgets?scope=each-key&period=1d&sort=share",
  "/budgets?refusing=true",
  "/budgets/ranked",
  "/budgets/ranked?q=grace-1",
  "/budgets/history?scope=all&period=1d",
  "/budgets/history?scope=each-key&period=1mo&key=bench3",
  "/budgets/history?scope=team:billing-1&period=1mo",
  "/charges",
  "/charges?key=bench3",
  "/charges?model=model-3",
  "/charges?sort=cost",
  "/charges?tag=feature%3Df1",
  "/charges?status=429",
  "/charges?min_usd=0.05",
  "/refusals",
  "/refusals?team=billing-1",
  "/refusals?model=no-such-model",
  "/refusals?q=grace-1",
  "/refusals?q=no-such-text",
  "/refusals?sort=count",
  "/refusals?sort=needed",
  "/refusals?q=grace-1&sort=count",
  "/refusals/causes",
  "/audit?about=team:billing-1",
  "/overview?span=24h&by=key",
  "/overview?span=30d&by=team",
];

/** Selects what a page shows as soon as it has its figures. */
const shown = ["tbody tr", "canvas", "[role=img]", "[role=meter]"].map((part) => `main ${part}:visible`).join(", ");

/** Pages, as paths after `/dashboard/`. */
const pages = [
  "",
  "requests",
  "keys",
  "keys/david-3",
  "teams",
  "teams/billing-1",
  "budgets",
  "models",
  "models/model-3",
  "health",
  "audit",
  "admins",
  "standing",
];

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { loads: { type: "string", default: "20" }, only: { type: "string" }, json: { type: "string" } },
});
const [given] = positionals;
if (given === undefined)
  throw new Error("usage: node bench/dashboard.ts FILE [--loads 20] [--only lists|pages] [--json FILE]");
const loads = Number(values.loads);
const facts = machine();

interface Times {
  readonly p50: number;
  readonly p95: number;
  readonly max: number;
}

function timesOf(samples: readonly number[]): Times {
  const sorted = sortedCopy(samples);
  return { p50: percentile(sorted, 0.5), p95: percentile(sorted, 0.95), max: sorted.at(-1) ?? 0 };
}

/** Measures the loads of a list, in milliseconds. Ignores the first load, which reads the file into memory. */
async function timesOfList(url: string, path: string): Promise<Times> {
  const samples: number[] = [];
  for (let load = -1; load < loads; load++) {
    const began = performance.now();
    const answer = await fetch(`${url}/admin/v1${path}`, { headers: { authorization: `Bearer ${benchToken}` } });
    const text = await answer.text();
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${text}`);
    if (load >= 0) samples.push(performance.now() - began);
  }
  return timesOf(samples);
}

async function post(url: string, path: string, body: object): Promise<{ readonly key?: string }> {
  const headers = { authorization: `Bearer ${benchToken}`, "content-type": "application/json" };
  const answer = await fetch(`${url}/admin/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return answer.json() as Promise<{ readonly key?: string }>;
}

/** Returns the credential that opens a page. The page "My budgets" needs a key. Adds a row to the page of admins. */
async function credentialFor(url: string, page: string): Promise<string> {
  if (page === "admins") await post(url, "/admins", { name: "vera", role: "viewer" });
  if (page !== "standing") return benchToken;
  return (await post(url, "/keys/bench3/rotate", {})).key ?? "";
}

/** Measures the time from the start of each navigation until rows are shown and the browser is idle, in milliseconds. */
async function timesOfPage(url: string, page: string): Promise<Times> {
  await using visitor = await visit(url);
  await visitor.page.goto(`${url}/dashboard`);
  await signIn(visitor.page, await credentialFor(url, page));
  const samples: number[] = [];
  for (let load = -1; load < loads; load++) {
    await visitor.page.goto(`${url}/dashboard/${page}`, { waitUntil: "commit" });
    await visitor.page.locator(shown).first().waitFor();
    const now: number = await visitor.page.evaluate(
      "new Promise((idle) => requestIdleCallback(() => idle(performance.now())))",
    );
    if (load >= 0) samples.push(now);
  }
  return timesOf(samples);
}

const isServer = given.startsWith("postgres");
using copy = isServer ? null : copyOfLedger(given);
await using serving = await served(copy?.database ?? given, clockAt(dashboardNow));
const results: Record<string, Record<string, Times>> = {};
const measure = async (
  kind: "lists" | "pages",
  names: readonly string[],
  time: (url: string, name: string) => Promise<Times>,
) => {
  if (values.only !== undefined && values.only !== kind) return;
  for (const name of names) {
    const times = await time(serving.url, name);
    results[kind] = { ...results[kind], [name]: times };
    const [p50, p95, max] = [times.p50, times.p95, times.max].map((ms) => ms.toFixed(0).padStart(5));
    console.log(`${(kind === "lists" ? name : `/dashboard/${name}`).padEnd(56)} p50 ${p50}  p95 ${p95}  max ${max} ms`);
  }
};
await measure("lists", lists, timesOfList);
await measure("pages", pages, timesOfPage);
await closeBrowser();
if (values.json !== undefined) {
  const store = isServer ? "postgres" : "sqlite";
  const before = existsSync(values.json) ? JSON.parse(readFileSync(values.json, "utf8")) : {};
  const measured = Object.entries(results).map(([kind, times]) => [kind, { machine: facts, loads, times }]);
  const all = { ...before, [store]: { ...before[store], ...Object.fromEntries(measured) } };
  writeFileSync(values.json, `${JSON.stringify(all, null, 2)}\n`);
}
