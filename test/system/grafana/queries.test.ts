import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { pngOf, svgOf } from "../../../grafana/picture/dashboard.ts";
import type { PanelResults } from "../../../grafana/picture/results.ts";
import { committedDashboards, committedExact, substituted, type PanelFile } from "../../../grafana/read.ts";
import { prepareMixedTraffic } from "../../support/mixed-traffic.ts";
import { skipWithout } from "../../support/programs.ts";
import { startPrometheus, type Prometheus, type Series } from "../../support/prometheus.ts";
import { startProxy } from "../../support/running-proxy.ts";
import { exposedLabels, selectorsOf } from "../../support/promql.ts";

interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly expr: string;
}

const dashboards = committedDashboards();
const panels = dashboards.flatMap((dashboard) =>
  dashboard.panels.map((panel) => ({ name: `${dashboard.title}: ${panel.title} (${panel.type})`, panel })),
);
const rulesText = readFileSync(new URL("../../../grafana/prometheus/rules.yml", import.meta.url), "utf8");
const rules: Rule[] = (parse(rulesText) as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules);
const recorded = new Set(rules.flatMap(({ record }) => record ?? []));
/** Queries of an earlier version of the dashboards, which users may have imported into Grafana. */
const installed = JSON.parse(readFileSync(new URL("installed-dashboards.json", import.meta.url), "utf8")) as {
  readonly prometheus: readonly { readonly panel: string; readonly expr: string }[];
  readonly uids: readonly string[];
};
const anySpan = { rangeS: 60, stepS: 1, scrapeS: 2 };

/** Panels that may show only zeros. */
const mayStayZero = new Set(["Unexplained difference", "In doubt, by reason", "Price reloads", "Age of the balance"]);

const owned = new AsyncDisposableStack();
/** Prometheus' answers for each panel, in the form that its type shows. */
const answers = new Map<PanelFile, PanelResults>();
let prometheus: Prometheus;
let exposed: Map<string, Set<string>>;
let since: number;
let until: number;

/** Sends three rounds of mixed traffic, each scraped while a stream runs. */
async function makeTraffic(): Promise<void> {
  const proxy = owned.use(await startProxy());
  const traffic = await prepareMixedTraffic(proxy, 3);
  for (const scope of ["key:bob", "each-key:research"]) await proxy.budget(scope, "1", "1mo");
  prometheus = owned.use(await startPrometheus(proxy.url));
  await prometheus.scraped();
  since = Date.now() / 1000;
  await traffic.whileStreaming(async () => {
    for (let round = 0; round < 3; round++) {
      await traffic.round();
      await proxy.serving.sampler.sample();
      await prometheus.scraped();
    }
  });
  await proxy.charges();
  await proxy.serving.sampler.sample();
  until = await prometheus.scraped();
  exposed = exposedLabels(await proxy.metrics());
}

describe("an imported dashboard of an earlier version", () => {
  it("is replaced by importing the new one, because the uid is the same", () => {
    const committed = [...dashboards, ...committedExact()].map(({ uid }) => uid);
    expect(committed).toEqual(expect.arrayContaining([...installed.uids]));
  });
});

describe("selectorsOf", () => {
  it("reads metrics and labels from PromQL, and rejects what is not PromQL", () => {
    expect(selectorsOf('sum by (a) (rate(x_total{b="c"}[5m])) / y')).toEqual([
      { metric: "x_total", labels: ["b", "a"] },
      { metric: "y", labels: [] },
    ]);
    for (const wrong of ["sum(", "rate(x[5m]", 'x{a="b"', "sum by a (x)", "x[5 m]"])
      expect(() => selectorsOf(wrong), wrong).toThrow(/not PromQL/);
  });
});

describe.skipIf(skipWithout("prometheus"))("with a Farebox under traffic", () => {
  beforeAll(makeTraffic);
  afterAll(() => owned.disposeAsync());

  const asked = [
    ...panels.flatMap(({ name, panel }) =>
      panel.targets.map(({ expr }) => ({ name, expr: substituted(expr, anySpan) })),
    ),
    ...rules.map(({ alert, record, expr }) => ({ name: alert ?? record ?? "", expr })),
    ...installed.prometheus.map(({ panel, expr }) => ({
      name: `the earlier version of ${panel}`,
      expr: substituted(expr, anySpan),
    })),
  ];

  it.each(asked)("$name uses only metrics and labels that Farebox exposes: $expr", ({ expr }) => {
    for (const { metric, labels } of selectorsOf(expr)) {
      if (recorded.has(metric)) continue;
      const known = metric === "up" ? new Set<string>() : exposed.get(metric);
      expect([...exposed.keys()], metric).toContain(metric === "up" ? "farebox_build_info" : metric);
      expect(labels.filter((label) => !["job", "instance"].includes(label) && !known?.has(label))).toEqual([]);
    }
  });

  it.each(panels)("$name has data", async ({ panel }) => {
    const seen: Series[] = [];
    const shown: Series[][] = [];
    for (const { expr, legendFormat, instant } of panel.targets) {
      const query = substituted(expr, { rangeS: until - since, stepS: 1, scrapeS: prometheus.scrapeS });
      expect(query).not.toContain("$");
      const overTime = await prometheus.range(query, { since, until, stepS: 1 });
      const series = instant ? await prometheus.instant(query, until) : overTime;
      const filled = series.filter(({ samples }) => samples.some(([, value]) => Number.isFinite(value)));
      expect(filled, query).not.toEqual([]);
      shown.push(series);
      for (const [, label = ""] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
        expect(
          filled.flatMap(({ labels }) => Object.keys(labels)),
          query,
        ).toContain(label);
      }
      seen.push(...overTime);
    }
    answers.set(panel, shown);
    const values = seen
      .flatMap(({ samples }) => samples.map(([, value]) => value))
      .filter((value) => Number.isFinite(value));
    if (!mayStayZero.has(panel.title))
      expect(
        values.some((value) => value !== 0),
        "only zeros",
      ).toBe(true);
  });

  it.each(installed.prometheus)("the earlier version of $panel has data: $expr", async ({ expr }) => {
    const query = substituted(expr, { rangeS: until - since, stepS: 1, scrapeS: prometheus.scrapeS });
    const series = await prometheus.range(query, { since, until, stepS: 1 });
    const values = series.flatMap(({ samples }) => samples.map(([, value]) => value));
    expect(
      values.filter((value) => Number.isFinite(value)),
      query,
    ).not.toEqual([]);
  });

  it.each(dashboards)("$title can be drawn without Grafana", (dashboard) => {
    const svg = svgOf(dashboard, (panel) => answers.get(panel) ?? [], "a note");
    for (const { title } of dashboard.panels) expect(svg).toContain(`>${title}</text>`);
    for (const words of ["a note", dashboard.title]) expect(svg).toContain(`>${words}</text>`);
    expect(svg).not.toContain("No data");
    expect(svg).not.toContain("NaN");
    expect(pngOf(svg).subarray(1, 4).toString()).toBe("PNG");
  });

  it("Prometheus evaluates each rule, and each recorded series has values", async () => {
    const expanded = (expr: string): string =>
      expr.replaceAll(
        /\b(?:job\w*):[\w:]+/g,
        (name) => `(${expanded(rules.find(({ record }) => record === name)?.expr ?? name)})`,
      );
    for (const { alert, record, expr } of rules) {
      const series = await prometheus.instant(expanded(expr), until);
      if (alert === undefined) expect(series, record).not.toEqual([]);
    }
  });

  it("the panel Month against budget shows the budgets of all requests, of teams, and of the chosen keys only", async () => {
    const targets = panels.find(({ panel }) => panel.title === "Month against budget")?.panel.targets ?? [];
    const shown = async (key: string) => {
      const names = await Promise.all(
        targets.map(async ({ expr, legendFormat }) =>
          (await prometheus.instant(substituted(expr.replaceAll("$key", key), anySpan), until)).map(({ labels }) =>
            legendFormat.replace("{{scope}}", labels["scope"] ?? ""),
          ),
        ),
      );
      return names.flat().toSorted();
    };
    const both = (...scopes: readonly string[]) =>
      scopes.flatMap((scope) => [`${scope}: limit`, `${scope}: spent`]).toSorted();
    const chosen = both("all", "each-key=alice", "each-key=bob", "each-key:research=bob", "key:bob");
    expect(await shown("(bob|alice)")).toEqual(chosen);
    const others = both("each-key=carol", "each-key=dave", "each-key=intern");
    expect(await shown("$key")).toEqual([...chosen, ...others].toSorted());
  });

  it("the panel Spent by window equals the ledger's spending divided by the limit", async () => {
    const ratio = panels.find(({ panel }) => panel.title === "Spent by window")?.panel.targets[0]?.expr ?? "";
    const shown = await prometheus.instant(substituted(ratio, anySpan), until);
    const research = shown.find(({ labels }) => labels["scope"] === "team:research");
    const ledger = async (metric: string) =>
      (await prometheus.instant(`${metric}{scope="team:research"}`, until))[0]?.samples[0]?.[1] ?? Number.NaN;
    expect(research?.samples[0]?.[1]).toBe(
      (await ledger("farebox_budget_spent_usd")) / (await ledger("farebox_budget_limit_usd")),
    );
  });
});
