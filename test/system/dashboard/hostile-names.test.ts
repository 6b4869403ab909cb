import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { noLimits } from "../../../src/core/limits.ts";
import { usd } from "../../../src/core/money.ts";
import { noTokens } from "../../../src/core/usage.ts";
import { signIn, visit, withoutChromium, type Visitor } from "../../support/browser.ts";
import { key } from "../../support/ledger-fixtures.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";

/** A name that runs a script wherever it is taken for markup, an attribute, an address or a template. */
function hostile(name: string): string {
  return `${name}"'><img src=x onerror="window.owned='${name}'"><svg onload="window.owned='${name}'"><script>window.owned='${name}'</script>javascript:window.owned='${name}'{{owned}}\${owned}</td></style>&lt;b&gt;`;
}

/** Only names of keys, teams and admins follow a pattern, which an older ledger or another writer need not know. */
async function writeHostile({ serving: { ledger, keys, teams } }: RunningProxy): Promise<void> {
  const at = Date.now() - 5_000;
  await teams.create(
    { name: hostile("team"), models: [hostile("pattern")], limits: noLimits, outputCap: null, createdAt: at },
    hostile("admin"),
  );
  const owner = key(hostile("key"), {
    id: "key-1",
    team: hostile("team"),
    models: [hostile("pattern")],
    createdAt: at,
  });
  await keys.create(owner, hostile("admin"));
  const caller = { key: owner.id, team: hostile("team") };
  const end = {
    at: at + 10,
    status: 200,
    servedModel: hostile("served"),
    gatewayRequestId: hostile("gateway-id"),
    durationMs: 5,
    firstTokenMs: 1,
  };
  for (const id of ["posted", "voided", "running"]) {
    await ledger.hold({
      id,
      kind: "request",
      at,
      caller,
      route: hostile("route"),
      model: hostile("model"),
      group: hostile("group"),
      stream: true,
      price: null,
      amount: usd("0.01"),
      bounded: true,
      tags: { [hostile("tag")]: hostile("value") },
      retry: 0,
    });
  }
  await ledger.post(
    "posted",
    {
      kind: "post",
      cost: null,
      listCost: null,
      tokens: { ...noTokens, input: 5 },
      formula: "unpriced",
      source: "counted",
      minimumApplied: false,
      clamped: false,
      reason: hostile("reason"),
      doubts: ["served_model"],
    },
    end,
  );
  await ledger.void("voided", hostile("void"), { ...end, status: 502 });
  await ledger.adjust("posted", {
    id: "fix",
    at: at + 20,
    amount: usd("0.25"),
    why: hostile("why"),
    by: hostile("admin"),
  });
}

/** The names of a price file follow a pattern; its sources are free text. */
const prices = `provider: example
models:
  model-x:
    tokenizer: o200k_base
    context_tokens: 10000
    max_output_tokens: 1000
    reasoning: false
    prices:
      - { from: 2026-01-01, source: ${JSON.stringify(hostile("source"))}, official: { input: "1", output: "4" }, gateway: { input: "1", output: "2" } }
`;

describe.skipIf(withoutChromium)("names that would be scripts", { timeout: 120_000 }, () => {
  const owned = new AsyncDisposableStack();
  let visitor: Visitor;
  let proxy: RunningProxy;
  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), "farebox-prices-"));
    owned.defer(() => rm(folder, { recursive: true, force: true }));
    await writeFile(join(folder, "hostile.yaml"), prices);
    proxy = owned.use(await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token, FAREBOX_PRICING: folder } }));
    await writeHostile(proxy);
    await proxy.budget("all", "0.000001", "1d");
    await proxy.serving.alerts.evaluate();
    visitor = owned.use(await visit(proxy.url));
    await visitor.page.goto(`${proxy.url}/dashboard`);
    await signIn(visitor.page, token);
  }, 60_000);
  afterAll(() => owned.disposeAsync());

  /** The text of the page and of everything open on it. */
  const textOf = (page: Page) =>
    page.evaluate<string>(
      "document.body.innerText + [...document.querySelectorAll('[title],[aria-label],option,input')].map((each) => `${each.title} ${each.ariaLabel} ${each.value}`).join(' ')",
    );

  const views: readonly [path: string, shown: readonly string[]][] = [
    ["", ["model", "key"]],
    ["?by=team", ["team"]],
    ["/requests", ["model", "key"]],
    ["/requests?request=posted", ["model", "served", "gateway-id", "tag", "value", "why", "admin"]],
    ["/requests?request=voided", ["void"]],
    ["/requests?request=running", ["group"]],
    ["/keys", ["key", "team"]],
    ["/keys?key=key-1", ["pattern"]],
    ["/prices?model=model-x", ["source"]],
    [`/prices?model=${encodeURIComponent(hostile("no-model"))}`, []],
    [
      `/requests?key=${encodeURIComponent(hostile("no-key"))}&team=${encodeURIComponent(hostile("no-team"))}&model=${encodeURIComponent(hostile("no-model"))}`,
      [],
    ],
    [`/requests?request=${encodeURIComponent(hostile("no-request"))}`, []],
    ["/health", []],
  ];
  it.each(views.map(([path, shown]) => [path.replace(/%22.*$/, "…"), path, shown] as const))(
    "are text at /dashboard%s",
    async (_, path, shown) => {
      const { page } = visitor;
      await page.goto(`${proxy.url}/dashboard${path}`);
      await page.getByRole("navigation", { name: "Views" }).waitFor();
      for (const name of shown) await expect.poll(() => textOf(page), { timeout: 15_000 }).toContain(hostile(name));
      await page.waitForLoadState("networkidle");
      expect(await page.evaluate("window.owned")).toBeUndefined();
      expect(await page.locator("img, script[src='x'], svg[onload]").count()).toBe(0);
      const faults = visitor.faults
        .splice(0)
        .filter((fault) => !/^error: Failed to load resource: .* 40[04]/.test(fault));
      expect(faults).toEqual([]);
    },
  );
});
