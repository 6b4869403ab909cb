import { createHash } from "node:crypto";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatScope, subjectOf, type Condition, type Dimension, type Scope } from "../../../src/core/scope.ts";
import { noRateLimits } from "../../../src/core/rate-limits.ts";
import { usd } from "../../../src/core/money.ts";
import { noTokens } from "../../../src/core/usage.ts";
import { endDay, startDay } from "../../support/daytime.ts";
import { visitAs, withoutChromium, type Visitor } from "../../support/browser.ts";
import { key } from "../../support/ledger-fixtures.ts";
import { priceFolder } from "../../support/price-files.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { until } from "../../support/until.ts";

const token = "an-editor-s-token-for-the-dashboard-0123456789";

/** Returns a name that runs a script if it is used as markup, an attribute, an address or a template. */
function hostile(name: string): string {
  return `${name}"'><img src=x onerror="window.owned='${name}'"><svg onload="window.owned='${name}'"><script>window.owned='${name}'</script>javascript:window.owned='${name}'{{owned}}\${owned}</td></style>&lt;b&gt;`;
}

/** Returns a hostile name without slashes, for one segment of a path of the admin API. */
const flat = (name: string) => hostile(name).replaceAll("/", "|");

/** Returns a hostile text within the 256 characters of a raise's reason. */
const brief = (name: string) =>
  `${name}"'><img src=x onerror="window.owned='${name}'"><script>window.owned='${name}'</script>{{owned}}`;

const keyText = "sk-fb-hostile1-0123456789abcdefghijklmnopqrstuv";

const day = "1d";
const condition = (dimension: Dimension, value: string | null, name = ""): Condition => ({ dimension, name, value });

const ofUser: Scope = { conditions: [condition("user", hostile("user"))] };
const ofTag: Scope = { conditions: [condition("tag", hostile("app"), "app")] };

/** Writes hostile names directly to the stores, because the API allows only some characters in them. */
async function writeHostile({ url, serving: { ledger, keys, teams, admins, refusals } }: RunningProxy): Promise<void> {
  const at = Date.now() - 5_000;
  for (const [id, name] of [
    ["admin-1", hostile("admin")],
    ["admin-2", hostile("viewer")],
  ] as const) {
    const times = { createdAt: at, expiresAt: null, revokedAt: null };
    await admins.create({ id, name, role: "viewer", digest: id, ...times }, hostile("admin"));
  }
  await teams.create(
    {
      name: hostile("team"),
      models: [hostile("pattern")],
      limits: noRateLimits,
      outputCap: null,
      hostedTools: null,
      createdAt: at,
    },
    hostile("admin"),
  );
  await teams.create(
    {
      name: flat("squad"),
      models: [hostile("pattern")],
      limits: noRateLimits,
      outputCap: null,
      hostedTools: null,
      createdAt: at,
    },
    hostile("admin"),
  );
  const labels = { [hostile("label")]: hostile("label-value") };
  const owner = key(hostile("key"), {
    id: "hostile1",
    team: hostile("team"),
    digest: createHash("sha256").update(keyText).digest("hex"),
    models: [hostile("pattern")],
    labels,
    tags: { [hostile("pinned")]: hostile("pinned-value") },
    user: hostile("pinned-user"),
    createdAt: at,
  });
  await keys.create(owner, hostile("admin"));
  await keys.create(key(hostile("member"), { id: "member1", team: flat("squad"), createdAt: at }), hostile("admin"));
  const others = [
    [condition("label", hostile("label-value"), "env")],
    [condition("team", flat("squad")), condition("user", null)],
    [condition("user", null)],
    [condition("tag", null, "app")],
    [condition("key", null)],
  ].map((conditions) => ({ conditions }));
  for (const scope of [ofUser, ofTag, ...others])
    await ledger.setBudget(
      { scope, period: day, mode: "soft", limit: usd("0.02"), warnPercent: 50 },
      at,
      hostile("admin"),
    );
  const caller = { key: owner.id, team: hostile("team"), labels, user: hostile("user") };
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
      tags: { [hostile("tag")]: hostile("value"), app: hostile("app") },
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
  const user = subjectOf([hostile("user")]);
  const minute = at - (at % 60_000);
  const row = {
    minute,
    key: owner.id,
    team: hostile("team"),
    route: hostile("route"),
    count: 2,
    firstAt: at,
    lastAt: at,
  };
  const none = { scope: null, period: null, subject: null, needed: null };
  await refusals.add([
    { ...row, ...none, model: hostile("refused"), code: "model_not_allowed" },
    {
      ...row,
      model: hostile("model"),
      code: "budget_exceeded",
      scope: "each-user",
      period: day,
      subject: user,
      needed: usd("1"),
    },
    {
      ...row,
      team: flat("squad"),
      model: "model-x",
      code: "budget_exceeded",
      scope: formatScope(ofTag),
      period: day,
      subject: null,
      needed: usd("1"),
    },
  ]);
  const raise = { scope: "each-user", period: day, subject: user, amount: usd("1"), from: at, until: null };
  await ledger.raiseBudget({ ...raise, why: hostile("raised") }, at, hostile("admin"));
  const own = { conditions: [condition("key", owner.id)] };
  const budget = { scope: own, period: day, mode: "hard", limit: usd("0"), warnPercent: null } as const;
  await ledger.setBudget(budget, at, hostile("admin"));
  const asked = await fetch(`${url}/v1/farebox/raises`, {
    method: "POST",
    headers: { authorization: `Bearer ${keyText}`, "content-type": "application/json" },
    body: JSON.stringify({ amount_usd: "5", why: brief("asked") }),
  });
  expect([asked.status, await asked.text()]).toEqual([201, expect.anything()]);
}

/** A price file's names follow a pattern; its source is free text. */
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

beforeAll(startDay);
afterAll(endDay);

describe.skipIf(withoutChromium)("names that contain scripts", () => {
  const owned = new AsyncDisposableStack();
  let visitor: Visitor;
  let keyVisitor: Visitor;
  let proxy: RunningProxy;
  beforeAll(async () => {
    const folder = owned.use(priceFolder(prices)).path;
    proxy = owned.use(await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token, FAREBOX_PRICING: folder } }));
    await writeHostile(proxy);
    await proxy.budget("all", "0.000001", "1d");
    await proxy.serving.alerts.evaluate();
    visitor = owned.use(await visitAs(token, proxy.url));
    keyVisitor = owned.use(await visitAs(keyText, proxy.url));
  });
  afterAll(() => owned.disposeAsync());

  /** Returns the text of the page, including titles, labels and values. */
  const textOf = (page: Page) =>
    page.evaluate<string>(
      "document.body.innerText + [...document.querySelectorAll('[title],[aria-label],option,input')].map((each) => `${each.title} ${each.ariaLabel} ${each.value}`).join(' ')",
    );

  const encoded = (text: string) => encodeURIComponent(text);
  /** Views of an admin, with the hostile names and texts that each must show. */
  const views: readonly [path: string, shown: readonly string[]][] = [
    ["", ["model", "key"]],
    ["?by=team", ["team"]],
    ["?by=group", ["group"]],
    ["/requests", ["model", "key"]],
    ["/requests?request=posted", ["model", "served", "gateway-id", "tag", "value", "why", "admin", "user"]],
    ["/requests?request=voided", ["void"]],
    ["/requests?request=running", ["group"]],
    ["/requests?status=refused", ["refused", "key", "team", "app", flat("squad")]],
    [`/requests?user=${encoded(hostile("user"))}&tag=${encoded(`app=${hostile("app")}`)}`, ["user", "app", "model"]],
    ["/keys", ["key", "team", "member"]],
    ["/keys/hostile1", ["pattern", "team", "label", "label-value", "pinned", "pinned-value", "pinned-user", "refused"]],
    [`/keys/${encoded(flat("no-key"))}`, []],
    ["/teams", ["team", flat("squad")]],
    [`/teams/${encoded(flat("squad"))}`, [flat("squad"), "pattern", "key", "app"]],
    [`/teams/${encoded(flat("no-team"))}`, []],
    ["/budgets", ["user", "app", "label-value", "key", flat("squad"), brief("asked")]],
    ["/budgets?scope=each-user&period=1d", ["user"]],
    ["/budgets?scope=each-tag:app&period=1d", ["app"]],
    ["/budgets?scope=each-key&period=1d", ["key"]],
    [`/budgets?scope=${encoded(formatScope(ofUser))}&period=1d`, ["user"]],
    ["/models", []],
    ["/models/model-x", ["source", "key", "app"]],
    [`/models/${encoded(flat("no-model"))}`, []],
    [
      `/requests?key=${encoded(hostile("no-key"))}&team=${encoded(hostile("no-team"))}&model=${encoded(hostile("no-model"))}`,
      [],
    ],
    [`/requests?request=${encoded(hostile("no-request"))}`, []],
    ["/health", []],
    ["/audit", ["admin", "key", "user", "app", "label-value"]],
    ["/audit?q=raise", ["admin"]],
    ["/admins", ["admin", "viewer"]],
  ];
  it.each(views.map(([path, shown]) => [path.replace(/%22.*$/, "…"), path, shown] as const))(
    "are shown as text at /dashboard%s",
    (_, path, shown) => showsText(visitor, path, shown),
  );

  /** Views of a key with a hostile name. */
  const ownViews: readonly [path: string, shown: readonly string[]][] = [
    ["", ["model"]],
    ["/requests", ["model", "tag", "value"]],
    ["/requests?request=posted", ["served", "why"]],
    ["/requests?status=refused", ["refused", "app"]],
    ["/standing", ["key", "pattern", "refused", "app"]],
  ];
  it.each(ownViews)("are shown as text to their key at /dashboard%s", (path, shown) =>
    showsText(keyVisitor, path, shown),
  );

  async function showsText({ page, faults }: Visitor, path: string, shown: readonly string[]): Promise<void> {
    await page.goto(`${proxy.url}/dashboard${path}`);
    await page.getByRole("navigation", { name: "Views" }).waitFor();
    for (const text of shown) {
      const whole = text.includes("<") ? text : hostile(text);
      await until(async () => (await textOf(page)).includes(whole), `the page shows ${whole}`);
    }
    await page.waitForLoadState("networkidle");
    expect(await page.evaluate("window.owned")).toBeUndefined();
    expect(await page.locator("img, script[src='x'], svg[onload]").count()).toBe(0);
    const found = faults.splice(0).filter((fault) => !/^error: Failed to load resource: .* 40[04]/.test(fault));
    expect(found).toEqual([]);
  }
});
