import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { correctCharge } from "../../../src/admin/corrections.ts";
import type { Charge } from "../../../src/core/charge.ts";
import { doubts, tokenClasses } from "../../../src/core/usage.ts";
import { postHold } from "../../../src/core/settlement.ts";
import { formatUsd, parseSignedUsd, parseUsd, sum, usd, usdNumber, type PicoUsd } from "../../../src/core/money.ts";
import { keyNames } from "../../../src/reporting/names.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { addAdmin, callAdmin } from "../../support/admin-client.ts";
import { chatWith } from "../../support/new-charges.ts";
import { csvRecords } from "../../support/csv.ts";
import { temporaryFolder } from "../../support/farebox-process.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { readPage, valueOf, type ReadFamily } from "../../support/metrics-page.ts";

/** A model whose answers cost at least a cent. */
const penny = `provider: example
models:
  penny-1:
    tokenizer: o200k_base
    context_tokens: 10000
    max_output_tokens: 1000
    reasoning: false
    prices:
      - from: 2024-01-01
        source: "made up for a test"
        official: { input: "1.000001", output: "4" }
        gateway: { input: "1.000001", output: "4" }
        minimum: { tokens: 0, usd: "0.01" }
`;

/** Requests: key, scenario of the sandbox, and fields of the body. */
const traffic: readonly (readonly [key: string, scenario: string, more?: object])[] = [
  ["alice", "prompt:1000+tokens:100"],
  ["alice", "prompt:777+tokens:13+cached:123", { model: "gpt-4.1-nano" }],
  ["alice", "tokens:21", { stream: true, stream_options: { include_usage: true } }],
  ["bob", "tokens:30+reasoning:77", { model: "gpt-5.2" }],
  ["bob", "tokens:33+no-usage", { model: "gpt-4o-mini" }],
  ["bob", "tokens:40", { model: "gpt-4o-mini", stream: true }],
  ["carol", "tokens:5", { model: "penny-1" }],
  ["carol", "prompt:9000+tokens:900", { model: "penny-1" }],
  ["carol", "tokens:60+cut:7", { stream: true }],
  ["dave", "reset-before", { max_tokens: 50 }],
  ["dave", "status:429"],
  ["dave", "tokens:9", { model: "mystery-1" }],
  ["erin", "over-limit:150", { max_tokens: 10 }],
];

const from = "2026-11-01T00:00:00Z";
const until = "2026-12-01T00:00:00Z";
const span = ["--since", from, "--until", until];
const everything = new AsyncDisposableStack();

let proxy: RunningProxy;
let commands: Harness;
let admin: string;
let keys: Record<string, string>;
/** Posted charges before any correction, as counters see them. */
let posted: readonly Charge[];
/** Metrics page before any correction. */
let counters: ReadonlyMap<string, ReadFamily>;
let gauges: ReadonlyMap<string, ReadFamily>;
/** Charges with corrections, as the ledger has them at the end. */
let charges: readonly Charge[];
let nameOf: (id: string) => string | null;

beforeAll(async () => {
  const folder = everything.use(await temporaryFolder());
  const pricing = join(folder.path, "pricing");
  await mkdir(pricing);
  await writeFile(join(pricing, "penny.yaml"), penny);
  // Timers run, but the time of day stands still, so that no hour, day or week ends meanwhile.
  const noon = Date.parse("2026-11-20T12:00:00Z");
  const clock = { ...systemClock(), now: () => noon };
  proxy = everything.use(
    await startProxy({
      clock,
      sandbox: { prices: { "penny-1": { input: "1.000001", output: "4", minimumUsd: "0.01" } } },
      env: { FAREBOX_PRICING: pricing, FAREBOX_TIME_ZONE: "Europe/Berlin", FAREBOX_OWN_VIEW: "all" },
    }),
  );
  commands = everything.use(harness());
  commands.env = { FAREBOX_DATABASE: proxy.database, FAREBOX_TIME_ZONE: "Europe/Berlin" };
  admin = await addAdmin(proxy.database, "auditor", "editor");
  keys = {
    alice: proxy.key,
    bob: await proxy.addKey("bob", { team: "red" }),
    carol: await proxy.addKey("carol", { team: "red" }),
    dave: await proxy.addKey("dave", { team: "blue" }),
    erin: await proxy.addKey("erin", { team: "blue" }),
  };
  await proxy.budget("all", "5", "total", "soft");
  await proxy.budget("team:red", "3", "1mo");
  await proxy.budget("each-key", "2", "1d", "soft");
  await proxy.budget("key:alice", "1", "1w");
  for (const [index, [key, scenario, more]] of traffic.entries()) {
    const headers = { "x-farebox-tag": `project=p${index % 3}` };
    const answer = await proxy.chat(chatWith(scenario, more), { key: keys[key] ?? "", headers });
    await answer.text().catch(() => "the gateway broke it off");
    await proxy.serving.settled();
  }
  posted = (await proxy.charges()).filter(({ state }) => state === "posted");
  counters = readPage(await proxy.metrics());
  for (const [charge, amount] of [
    [posted[0], "0.25"],
    [posted[3], "-0.000000000001"],
    [posted[6], "-0.01"],
  ] as const) {
    const made = await correctCharge(
      { ledger: proxy.serving.ledger, clock },
      { id: charge?.id ?? "", amount, why: "a test", by: "test" },
    );
    if (!made.ok) throw new Error(made.message);
  }
  await postDoubted(noon);
  charges = await proxy.charges();
  gauges = readPage(await proxy.metrics());
  nameOf = await keyNames(proxy.serving.keys);
});
afterAll(() => everything.disposeAsync());

/**
 * Posts a charge with doubts that no request of this process made, so that it is in the ledger but not in the
 * counters.
 */
async function postDoubted(at: number): Promise<void> {
  const { ledger } = proxy.serving;
  const [cost, caller] = [usd("0.012345678901"), { key: posted[0]?.key ?? "", team: posted[0]?.team ?? null }];
  const hold = {
    id: doubted,
    kind: "request",
    at,
    caller,
    route: "chat",
    model: "gpt-4o",
    group: null,
    stream: false,
    price: null,
  } as const;
  await ledger.hold({ ...hold, amount: cost, bounded: true, tags: { project: "p1" }, retry: 0 });
  const posting = postHold({ hold: cost }, "assumed", "a test");
  const end = { at, status: 200, servedModel: null, gatewayRequestId: null, durationMs: null, firstTokenMs: null };
  await ledger.post(doubted, { ...posting, doubts: ["served_model", "time_based"] }, end);
}

type Grouped = ReadonlyMap<string, PicoUsd>;

/** Sums amounts by name; null counts as 0. */
function sumsBy<T>(all: Iterable<T>, nameOf: (one: T) => string, amountOf: (one: T) => PicoUsd | null): Grouped {
  const sums = new Map<string, PicoUsd>();
  for (const one of all) sums.set(nameOf(one), sum([sums.get(nameOf(one)) ?? usd("0"), amountOf(one) ?? usd("0")]));
  return sums;
}

const doubted = "doubted";
const inDoubtOf = ({ inDoubt }: Charge) => inDoubt;
const total = (all: readonly Charge[]) => sum(all.map(({ cost }) => cost ?? usd("0")));
const costOf = ({ cost }: Charge) => cost;
const exactly = (text: unknown) => {
  const amount = typeof text === "string" ? parseSignedUsd(text) : undefined;
  if (amount === undefined) throw new Error(`no exact amount: ${String(text)}`);
  return amount;
};

/** Sums a metric exactly by some of its labels, without sums of 0. */
function sumsOf(page: ReadonlyMap<string, ReadFamily>, name: string, ...labels: string[]): Grouped {
  const samples = page.get(name)?.samples ?? [];
  const sums = sumsBy(
    samples,
    (sample) => labels.map((label) => sample.labels[label]).join(" "),
    ({ value }) => exactly(value),
  );
  return new Map([...sums].filter(([, amount]) => amount !== 0n));
}

const withoutZero = (sums: Grouped) => new Map([...sums].filter(([, amount]) => amount !== 0n));
const modelLabel = (model: string) => (model === "mystery-1" ? "other" : model);

it("the test's traffic has every source, a minimum, an overage, and unpriced, voided and corrected charges", () => {
  expect(new Set(posted.map(({ source }) => source))).toEqual(new Set(["reported", "counted", "partial", "assumed"]));
  expect(posted.filter(({ minimumApplied }) => minimumApplied).map(({ model }) => model)).toEqual(["penny-1"]);
  expect(posted.filter(({ overage }) => overage > 0n).map(({ key }) => nameOf(key))).toContain("erin");
  expect(posted.filter(({ cost }) => cost === null).map(({ model }) => model)).toEqual(["mystery-1"]);
  expect(charges.filter(({ state }) => state === "voided")).toHaveLength(1);
  expect(charges.filter(({ adjusts }) => adjusts !== null)).toHaveLength(3);
  // The sum has digits below a micro-dollar, which rounding would lose.
  expect(total(charges) % 1_000_000n).not.toBe(0n);
});

describe("Prometheus", () => {
  it("counts posted amounts by model and by key, to the pico-dollar", () => {
    const byModel = (amountOf: (charge: Charge) => PicoUsd | null) =>
      withoutZero(
        sumsBy(posted, ({ model, group, source }) => `${modelLabel(model)} ${group ?? ""} ${source}`, amountOf),
      );
    expect(sumsOf(counters, "farebox_cost_usd_total", "model", "group", "source")).toEqual(byModel(costOf));
    expect(sumsOf(counters, "farebox_list_cost_usd_total", "model", "group", "source")).toEqual(
      byModel(({ listCost }) => listCost),
    );
    const byKey = withoutZero(sumsBy(posted, ({ key, team }) => `${nameOf(key)} ${team ?? ""}`, costOf));
    expect(sumsOf(counters, "farebox_key_cost_usd_total", "key", "team")).toEqual(byKey);
    expect(sumsOf(counters, "farebox_overage_usd_total")).toEqual(
      new Map([["", sum(posted.map(({ overage }) => overage))]]),
    );
    for (const name of tokenClasses) {
      const count = posted.reduce((all, { tokens }) => all + tokens[name], 0);
      for (const metric of ["farebox_tokens_total", "farebox_key_tokens_total"]) {
        const samples = counters.get(metric)?.samples.filter(({ labels }) => labels["class"] === name) ?? [];
        expect(
          samples.reduce((all, { value }) => all + Number(value), 0),
          `${metric} ${name}`,
        ).toBe(count);
      }
    }
  });

  it("counts amounts in doubt under each of their doubts", () => {
    const each = posted.flatMap(({ doubts: of, cost }) => of.map((doubt) => ({ doubt, cost })));
    expect(sumsOf(counters, "farebox_cost_in_doubt_usd_total", "reason")).toEqual(
      withoutZero(
        sumsBy(
          each,
          ({ doubt }) => doubt,
          ({ cost }) => cost,
        ),
      ),
    );
    expect(counters.get("farebox_cost_in_doubt_usd_total")?.samples.map(({ labels }) => labels["reason"])).toEqual([
      ...doubts,
    ]);
  });

  it("has each amount as the nearest float, from which the exact amount can be recovered", () => {
    const amounts = [...gauges.values(), ...counters.values()].flatMap(({ samples }) =>
      samples.filter(({ name }) => /^farebox_(?!balance).*_usd/.test(name)),
    );
    expect(amounts.length).toBeGreaterThan(50);
    for (const { value } of amounts) {
      expect(Number(value)).toBe(usdNumber(exactly(value)));
      expect(parseUsd(Math.abs(Number(value)).toFixed(12))).toBe(parseUsd(value.replace("-", "")));
    }
  });

  it("has the ledger's spend and budgets, including corrections", async () => {
    const byTeam = sumsBy(charges, ({ team }) => team ?? "", costOf);
    for (const period of ["day", "month"]) {
      for (const [team, amount] of byTeam)
        expect(exactly(valueOf(gauges, "farebox_spend_usd", { team, period })), `${team} ${period}`).toBe(amount);
    }
    const spent = (scope: string) => exactly(valueOf(gauges, "farebox_budget_spent_usd", { scope }));
    expect(spent("all")).toBe(total(charges));
    expect(spent("team:red")).toBe(byTeam.get("red"));
    for (const [key, amount] of sumsBy(charges, ({ key }) => nameOf(key) ?? "", costOf))
      expect(spent(`each-key=${key}`)).toBe(amount);
    expect(spent("key:alice")).toBe(spent("each-key=alice"));
    expect([...sumsOf(gauges, "farebox_budget_held_usd", "scope")]).toEqual([]);
    const { budgets } = (await callAdmin(proxy.url, "GET", "/budgets", { token: admin })).json as {
      budgets: Record<string, string | null>[];
    };
    expect(budgets).toHaveLength(8);
    for (const { scope, key, spent_usd, limit_usd } of budgets) {
      const label = key === null ? `${scope}` : `${scope}=${key}`;
      expect(spent(label), label).toBe(exactly(spent_usd));
      expect(exactly(valueOf(gauges, "farebox_budget_limit_usd", { scope: label }))).toBe(exactly(limit_usd));
    }
  });

  it("has counters that equal the charges of this process without corrections", () => {
    const counted = sum([...sumsOf(counters, "farebox_cost_usd_total", "model").values()]);
    expect(counted).toBe(total(charges.filter(({ id, adjusts }) => adjusts === null && id !== doubted)));
    expect(sumsOf(gauges, "farebox_cost_usd_total", "model")).toEqual(
      sumsOf(counters, "farebox_cost_usd_total", "model"),
    );
  });
});

interface Report {
  readonly rows: readonly (Record<string, string | null> & { requests: never; by_source: never })[];
  readonly total: {
    readonly requests: number;
    readonly cost_usd: string;
    readonly list_cost_usd: string;
    readonly cost_in_doubt_usd: string;
    readonly by_source: Record<string, { cost_usd: string }>;
  };
}

/** Value of each dimension of a charge; all charges are of one hour. */
const dimensions: Readonly<Record<string, (charge: Charge) => string | null>> = {
  key: ({ key }) => nameOf(key),
  team: ({ team }) => team,
  model: ({ model }) => model,
  group: ({ group }) => group,
  day: () => "2026-11-20",
  hour: () => "2026-11-20T12:00:00.000Z",
  "tag:project": ({ tags }) => tags["project"] ?? null,
};

describe.each([...Object.keys(dimensions), "key,model", "team,day,group", "tag:project,key"])(
  "the ledger's charges by %s",
  (by) => {
    const label = (value: string | null | undefined) => value ?? "none";
    const ofCharge = (charge: Charge) =>
      by
        .split(",")
        .map((name) => label(dimensions[name]?.(charge)))
        .join(" ");
    const agrees = ({ rows, total: all }: Report) => {
      const counted = charges.filter(({ state }) => state === "posted");
      const groups = sumsBy(counted, ofCharge, costOf);
      const lists = sumsBy(counted, ofCharge, ({ listCost }) => listCost);
      const ofRow = (row: Report["rows"][number]) =>
        by
          .split(",")
          .map((name) => label(row[name]))
          .join(" ");
      expect(sumsBy(rows, ofRow, (row) => exactly(row["cost_usd"]))).toEqual(groups);
      expect(sumsBy(rows, ofRow, (row) => exactly(row["list_cost_usd"]))).toEqual(lists);
      expect(sumsBy(rows, ofRow, (row) => exactly(row["cost_in_doubt_usd"]))).toEqual(
        sumsBy(counted, ofCharge, inDoubtOf),
      );
      expect(exactly(all.cost_in_doubt_usd)).toBe(sum(charges.map(inDoubtOf)));
      expect(exactly(all.cost_usd)).toBe(total(charges));
      expect(sum(Object.values(all.by_source).map(({ cost_usd }) => exactly(cost_usd)))).toBe(total(charges));
      expect(all.requests).toBe(posted.length + 1);
    };

    it("equal the report", async () => agrees(await commands.json<Report>("report", "--by", by, ...span)));

    it("equal the admin API's usage", async () => {
      const answer = await callAdmin(proxy.url, "GET", `/usage?by=${by}&since=${from}&until=${until}`, {
        token: admin,
      });
      expect(answer.status, answer.text).toBe(200);
      agrees(answer.json);
    });
  },
);

describe("the ledger's charges row by row", () => {
  type Row = Readonly<Record<string, string | null>>;
  const agrees = (rows: readonly Row[], of: readonly Charge[] = charges) => {
    const costs = new Map(of.map(({ id, cost }) => [id, cost === null ? null : formatUsd(cost)]));
    expect(new Map(rows.map((row) => [row["request_id"] ?? "", row["cost_usd"]]))).toEqual(costs);
    const lists = new Map(of.map(({ id, listCost }) => [id, listCost === null ? null : formatUsd(listCost)]));
    expect(new Map(rows.map((row) => [row["request_id"] ?? "", row["list_cost_usd"]]))).toEqual(lists);
    const inDoubt = new Map(of.map((charge) => [charge.id, formatUsd(charge.inDoubt)]));
    expect(new Map(rows.map((row) => [row["request_id"] ?? "", row["cost_in_doubt_usd"]]))).toEqual(inDoubt);
  };

  it("equal farebox charges", async () =>
    agrees((await commands.json<{ charges: Row[] }>("charges", "--limit", "1000")).charges));
  it("equal export --format csv", async () =>
    agrees(csvRecords((await commands.run("export", ...span)).stdout).records));
  it("equal export --format jsonl", async () => {
    const { stdout } = await commands.run("export", "--format", "jsonl", ...span);
    agrees(
      stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Row),
    );
  });
  it("equal the admin API's charges", async () => {
    agrees(
      ((await callAdmin(proxy.url, "GET", "/charges?limit=1000", { token: admin })).json as { charges: Row[] }).charges,
    );
  });

  it("equal a key's own charges and the spent amounts of its budgets", async () => {
    for (const [name, text] of Object.entries(keys)) {
      const read = async (path: string) =>
        (await fetch(`${proxy.url}${path}`, { headers: { authorization: `Bearer ${text}` } })).json();
      const own = charges.filter(({ key }) => nameOf(key) === name);
      agrees(((await read("/v1/farebox/charges?limit=1000")) as { charges: Row[] }).charges, own);
      const { budgets } = (await read("/v1/farebox/me")) as { budgets: { scope: string; spent_usd: string }[] };
      expect(exactly(budgets.find(({ scope }) => scope === "each-key")?.spent_usd), name).toBe(total(own));
      expect(exactly(budgets.find(({ scope }) => scope === "all")?.spent_usd)).toBe(total(charges));
    }
  });
});

it("the overview has the amount in doubt", async () => {
  expect(sum(charges.map(inDoubtOf))).toBeGreaterThan(0n);
  interface Overview {
    readonly span: { readonly cost_in_doubt_usd: string };
  }
  const whole: Overview = (await callAdmin(proxy.url, "GET", "/overview?span=7d", { token: admin })).json;
  expect(exactly(whole.span.cost_in_doubt_usd)).toBe(sum(charges.map(inDoubtOf)));
  const own = await fetch(`${proxy.url}/v1/farebox/overview?span=7d`, {
    headers: { authorization: `Bearer ${proxy.key}` },
  });
  const ofAlice = charges.filter(({ key }) => nameOf(key) === "alice");
  expect(exactly(((await own.json()) as Overview).span.cost_in_doubt_usd)).toBe(sum(ofAlice.map(inDoubtOf)));
});

it("the FOCUS export has the billed cost of each key", async () => {
  const { stdout, stderr } = await commands.run("export", "--format", "focus", ...span);
  expect(stderr).toContain("left out 1 request without a price");
  const { records } = csvRecords(stdout);
  const byKey = sumsBy(
    records,
    (row) => row["SubAccountName"] ?? "",
    (row) => exactly(row["BilledCost"]),
  );
  expect(byKey).toEqual(
    sumsBy(
      charges.filter(({ state }) => state === "posted"),
      ({ key }) => nameOf(key) ?? "",
      costOf,
    ),
  );
});

it("reported charges equal the gateway's bill", () => {
  const bills = new Map(proxy.sandbox.ledger.map(({ requestId, cost }) => [requestId, cost]));
  const reported = posted.filter(({ source, cost }) => source === "reported" && cost !== null);
  expect(reported.length).toBeGreaterThan(6);
  expect(reported.map(({ gatewayRequestId, cost }) => [gatewayRequestId, cost])).toEqual(
    reported.map(({ gatewayRequestId }) => [gatewayRequestId, bills.get(gatewayRequestId ?? "")]),
  );
});

it("verify finds no difference", async () => {
  expect(await commands.json<{ ok: boolean; differences: unknown[] }>("verify")).toMatchObject({
    ok: true,
    differences: [],
  });
});
