import { expect, it } from "vitest";
import type { LedgerFigures } from "../../../../src/server/metrics/ledger-gauges.ts";
import { createMetrics } from "../../../../src/server/metrics/metrics.ts";
import { doubts, noTokens } from "../../../../src/core/usage.ts";
import { countTasks } from "../../../../src/core/tasks.ts";
import { usd, type PicoUsd } from "../../../../src/core/money.ts";
import { systemClock } from "../../../../src/platform/clock.ts";
import { readPage, valueOf } from "../../../support/metrics-page.ts";

const noFigures: LedgerFigures = {
  budgets: [],
  spend: [],
  pendingHolds: 0,
  outboxWaiting: 0,
  runningTasks: countTasks([]),
  reconciliation: null,
};

function metricsWith(keysMax: number, figures = noFigures) {
  const metrics = createMetrics({
    version: "0",
    keysMax,
    otel: false,
    clock: systemClock(),
    pricesLoadedAt: 0,
  });
  metrics.showLedger(async () => figures);
  return metrics;
}

const charge = (name: string, cost: PicoUsd, team: string | null = null) =>
  ({
    id: "1",
    key: { id: name, name, team },
    route: "/v1/chat/completions",
    model: "m",
    group: null,
    source: "reported",
    cost,
    listCost: null,
    overage: usd("0"),
    tokens: noTokens,
    doubts: [],
  }) as const;

it("keys beyond the cap are `other` and stay so, in the gauges of the ledger too", async () => {
  const budget = (key: string, spent: string) => ({
    scope: "each-key",
    key,
    period: "1d",
    limit: usd("5"),
    spent: usd(spent),
    held: usd("0"),
  });
  const metrics = metricsWith(2, {
    ...noFigures,
    budgets: [budget("alice", "1"), budget("bob", "2"), budget("carol", "0.000000000003"), budget("dave", "4")],
  });
  for (const name of ["alice", "bob", "carol", "dave", "alice"]) metrics.events.posted(charge(name, usd("1")));
  const families = readPage((await metrics.scrape("prometheus")).text);
  const costs = families.get("farebox_key_cost_usd_total")?.samples.map(({ labels, value }) => [labels["key"], value]);
  expect(costs).toEqual([
    ["alice", "2"],
    ["bob", "1"],
    ["other", "2"],
  ]);
  const spent = families.get("farebox_budget_spent_usd")?.samples.map(({ labels, value }) => [labels["scope"], value]);
  expect(spent).toEqual([
    ["each-key=alice", "1"],
    ["each-key=bob", "2"],
    ["each-key=other", "4.000000000003"],
  ]);
  expect(valueOf(families, "farebox_budget_limit_usd", { scope: "each-key=other" })).toBe("10");
});

it("a key that moves from team to team does not grow without end", async () => {
  const metrics = metricsWith(2);
  for (let team = 0; team < 50; team++) metrics.events.posted(charge("alice", usd("1"), `team-${team}`));
  const families = readPage((await metrics.scrape("prometheus")).text);
  const samples = families.get("farebox_key_cost_usd_total")?.samples ?? [];
  expect(samples.map(({ labels, value }) => `${labels["key"]} ${labels["team"]} ${value}`)).toEqual([
    "alice team-0 1",
    "alice team-1 1",
    "alice team-2 1",
    "alice team-3 1",
    "other  46",
  ]);
});

it("money counts every pico-dollar, however large the sum", async () => {
  const metrics = metricsWith(2);
  metrics.events.posted(charge("alice", usd("9000000")));
  for (let count = 0; count < 7; count++) metrics.events.posted(charge("alice", 1n as PicoUsd));
  const families = readPage((await metrics.scrape("prometheus")).text);
  expect(valueOf(families, "farebox_key_cost_usd_total")).toBe("9000000.000000000007");
});

it("what is in doubt is counted under each of its doubts, to the pico-dollar, and each starts at 0", async () => {
  const metrics = metricsWith(2);
  const read = async () =>
    readPage((await metrics.scrape("prometheus")).text)
      .get("farebox_cost_in_doubt_usd_total")
      ?.samples.map(({ labels, value }) => [labels["reason"], value]);
  expect(await read()).toEqual(doubts.map((doubt) => [doubt, "0"]));
  metrics.events.posted(charge("alice", usd("1")));
  metrics.events.posted({ ...charge("alice", usd("9000000")), doubts: ["served_model", "hosted_tool"] });
  for (let count = 0; count < 7; count++)
    metrics.events.posted({ ...charge("alice", 1n as PicoUsd), doubts: ["served_model"] });
  metrics.events.posted({ ...charge("alice", usd("1")), cost: null, doubts: ["time_based"] });
  expect((await read())?.filter(([, value]) => value !== "0")).toEqual([
    ["served_model", "9000000.000000000007"],
    ["hosted_tool", "9000000"],
  ]);
});

it("what a label holds is escaped", async () => {
  const metrics = metricsWith(2);
  metrics.events.posted({ ...charge("alice", usd("1")), model: 'a "quoted\\" one\nin two lines' });
  const { text } = await metrics.scrape("prometheus");
  expect(text).toContain(
    'farebox_cost_usd_total{model="a \\"quoted\\\\\\" one\\nin two lines",group="",source="reported"} 1\n',
  );
});

it("unknown fields beyond the cap, and names that are long or not plain, are `other`", async () => {
  const metrics = metricsWith(2);
  const route = "/v1/chat/completions";
  for (let field = 0; field < 120; field++) metrics.events.unknownFields({ route, fields: [`f${field}`] });
  metrics.events.unknownFields({ route, fields: ["f0", "x".repeat(65), 'a"b', "a\nb", "messages.images", "ü"] });
  const samples =
    readPage((await metrics.scrape("prometheus")).text).get("farebox_unknown_fields_total")?.samples ?? [];
  expect(samples).toHaveLength(101);
  expect(samples.find(({ labels }) => labels["field"] === "f0")?.value).toBe("2");
  expect(samples.find(({ labels }) => labels["field"] === "other")?.value).toBe("25");
});
