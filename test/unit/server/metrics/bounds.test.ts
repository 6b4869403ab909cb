import { eachKeyScope, readScope } from "../../../../src/core/scope.ts";
import { expect, it } from "vitest";
import { doubts, noTokens } from "../../../../src/core/usage.ts";
import { usd, type PicoUsd } from "../../../../src/core/money.ts";
import { metricsWith, noFigures } from "../../../support/example-metrics.ts";
import { readPage, valueOf } from "../../../support/metrics-page.ts";

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

it("keys beyond the cap share `other` permanently, in the ledger's gauges, too", async () => {
  const budget = (key: string, spent: string) => ({
    scope: eachKeyScope(),
    subject: key,
    key,
    period: "1d",
    limit: usd("5"),
    spent: usd(spent),
    held: usd("0"),
  });
  const metrics = metricsWith({
    keysMax: 2,
    figures: {
      ...noFigures,
      budgets: [budget("alice", "1"), budget("bob", "2"), budget("carol", "0.000000000003"), budget("dave", "4")],
    },
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

it("users beyond the limit share `other`", async () => {
  const windows: [string, string][] = [
    ["team:red each-user", "u1"],
    ["team:red each-user", "u2"],
    ["team:red each-user", "u3"],
    ["team:red each-user", ""],
    ["key:k1 tag:feature=search", ""],
    ["key:k1 model:gpt-5*", ""],
    ["each-key each-model", "k1 gpt-5"],
  ];
  const budgets = windows.map(([text, subject]) => {
    const read = readScope(text);
    if (!read.ok) throw new Error(read.fault);
    const key = text.includes("key") ? "alice" : null;
    return { scope: read.scope, subject, key, period: "1d", limit: usd("10"), spent: usd("1"), held: usd("0") };
  });
  const page = await metricsWith({ figures: { ...noFigures, budgets }, subjectsMax: 2 }).scrape("prometheus");
  const samples = readPage(page.text).get("farebox_budget_spent_usd")?.samples;
  expect(samples?.map(({ labels, value }) => `${labels["scope"]}: ${value}`)).toEqual([
    "team:red each-user=u1: 1",
    "team:red each-user=u2: 1",
    "team:red each-user=other: 1",
    "team:red each-user=: 1",
    "key:alice tag:feature=search: 1",
    "key:alice model:gpt-5*: 1",
    "each-key each-model=alice gpt-5: 1",
  ]);
});

it("budgets for each model have at most 2,000 series and `other`, however many models clients name", async () => {
  const read = readScope("each-model");
  if (!read.ok) throw new Error(read.fault);
  const amounts = { limit: usd("10"), spent: usd("1"), held: usd("0") };
  const budgets = Array.from({ length: 2_003 }, (_, index) => {
    return { scope: read.scope, subject: `m${index}`, key: null, period: "1d", ...amounts };
  });
  const families = readPage((await metricsWith({ figures: { ...noFigures, budgets } }).scrape("prometheus")).text);
  expect(families.get("farebox_budget_spent_usd")?.samples).toHaveLength(2_001);
  expect(valueOf(families, "farebox_budget_spent_usd", { scope: "each-model=other" })).toBe("3");
});

it("a key that changes teams has a bounded number of series", async () => {
  const metrics = metricsWith({ keysMax: 2 });
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

it("sums of money count every pico-dollar, however large they are", async () => {
  const metrics = metricsWith();
  metrics.events.posted(charge("alice", usd("9000000")));
  for (let count = 0; count < 7; count++) metrics.events.posted(charge("alice", 1n as PicoUsd));
  const families = readPage((await metrics.scrape("prometheus")).text);
  expect(valueOf(families, "farebox_key_cost_usd_total")).toBe("9000000.000000000007");
});

it("an amount in doubt is counted exactly under each of its doubts, which all start at 0", async () => {
  const metrics = metricsWith();
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

it("label values are escaped", async () => {
  const metrics = metricsWith();
  metrics.events.posted({ ...charge("alice", usd("1")), model: 'a "quoted\\" one\nin two lines' });
  const { text } = await metrics.scrape("prometheus");
  expect(text).toContain(
    'farebox_cost_usd_total{model="a \\"quoted\\\\\\" one\\nin two lines",group="",source="reported"} 1\n',
  );
});

it("unknown fields beyond the cap, with long names or with special characters share `other`", async () => {
  const metrics = metricsWith();
  const route = "/v1/chat/completions";
  for (let field = 0; field < 120; field++) metrics.events.unknownFields({ route, fields: [`f${field}`] });
  metrics.events.unknownFields({ route, fields: ["f0", "x".repeat(65), 'a"b', "a\nb", "messages.images", "ü"] });
  const samples =
    readPage((await metrics.scrape("prometheus")).text).get("farebox_unknown_fields_total")?.samples ?? [];
  expect(samples).toHaveLength(101);
  expect(samples.find(({ labels }) => labels["field"] === "f0")?.value).toBe("2");
  expect(samples.find(({ labels }) => labels["field"] === "other")?.value).toBe("25");
});
