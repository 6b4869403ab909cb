import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { dashboardFiles, exactFiles } from "../../../grafana/build/all.ts";
import { committedDashboards, committedExact } from "../../../grafana/read.ts";

const grafana = fileURLToPath(new URL("../../../grafana", import.meta.url));
const text = (path: string) => readFileSync(`${grafana}/${path}`, "utf8");
const yaml = (path: string) => parse(text(path));
const dashboards = committedDashboards();
const exact = committedExact();

describe("the committed dashboards", () => {
  it("are identical to those that npm run grafana builds", () => {
    expect(globSync("*", { cwd: `${grafana}/dashboards` }).toSorted()).toEqual([...dashboardFiles.keys()].toSorted());
    for (const [name, built] of dashboardFiles) expect(text(`dashboards/${name}`), name).toBe(built);
    expect(exact.map(({ name }) => `${name}.json`)).toEqual([...exactFiles.keys()].toSorted());
    for (const [name, built] of exactFiles) expect(text(`exact/${name}`), name).toBe(built);
  });

  it("have a fixed uid, and an id that Grafana chooses", () => {
    expect([...dashboards, ...exact].map(({ id, uid, title }) => [id, uid, title])).toEqual([
      [null, "farebox-budgets", "Farebox: Budgets"],
      [null, "farebox-operations", "Farebox: Operations"],
      [null, "farebox-spend", "Farebox: Spend"],
      [null, "farebox-exact-budgets-postgres", "Farebox: Exact budgets (PostgreSQL)"],
      [null, "farebox-exact-spend-postgres", "Farebox: Exact spend (PostgreSQL)"],
      [null, "farebox-exact-budgets-sqlite", "Farebox: Exact budgets (SQLite)"],
      [null, "farebox-exact-spend-sqlite", "Farebox: Exact spend (SQLite)"],
    ]);
  });
});

describe.each(exact)("$title", ({ name, panels, templating }) => {
  it("has a data source variable of its type, which all its panels use", () => {
    const type = name.startsWith("sqlite") ? "frser-sqlite-datasource" : "grafana-postgresql-datasource";
    expect(templating.list.map(({ name: variable, type: kind, query }) => [variable, kind, query])).toEqual([
      ["datasource", "datasource", type],
      ...(name.endsWith("/spend")
        ? [
            ["team", "query", expect.stringContaining("from keys")],
            ["key", "query", expect.stringContaining("from keys")],
            ["model", "query", expect.stringContaining("from rollup_day")],
          ]
        : []),
    ]);
    const sources = panels.flatMap((panel) => [panel.datasource, ...panel.targets.map(({ datasource }) => datasource)]);
    expect(sources).toEqual(sources.map(() => ({ type, uid: "${datasource}" })));
  });
});

describe.each([...dashboards, ...exact])("$title", ({ panels }) => {
  it("has a description and a unit for each panel", () => {
    for (const { title, description, fieldConfig } of panels) {
      expect(title).not.toBe("");
      expect(description, title).toMatch(/^.{10,}\.$/s);
      expect(fieldConfig.defaults.unit, title).toBeTruthy();
    }
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    expect(new Set(panels.map(({ type, title }) => `${type} ${title}`)).size).toBe(panels.length);
  });

  it("lays its panels side by side without a gap or an overlap", () => {
    const taken = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)},${y + Math.floor(cell / w)}`),
    );
    const height = Math.max(...panels.map(({ gridPos: { y, h } }) => y + h));
    expect(new Set(taken).size).toBe(taken.length);
    expect(taken).toHaveLength(24 * height);
    expect(Math.max(...panels.map(({ gridPos: { x, w } }) => x + w))).toBe(24);
  });
});

describe("the dashboards over Prometheus", () => {
  const all = dashboards.flatMap(({ panels }) => panels);

  it("have no two panels with the same title or queries", () => {
    expect(new Set(all.map(({ title }) => title)).size).toBe(all.length);
    expect(new Set(all.map(({ targets }) => targets.map(({ expr }) => expr).join("\n"))).size).toBe(all.length);
  });

  it("show the month against its budget, daily bars and refusals by key", () => {
    const titled = (title: string) => all.find((panel) => panel.title === title);
    expect(titled("Month against budget")).toMatchObject({ timeFrom: "31d" });
    for (const by of ["team", "model"])
      expect(titled(`Spend per day by ${by}`)).toMatchObject({
        timeFrom: "30d",
        interval: "1d",
        fieldConfig: { defaults: { custom: { drawStyle: "bars", stacking: { mode: "normal" } } } },
      });
    expect(titled("Refusals by key")?.targets[0]?.expr).toContain("farebox_key_refusals_total");
  });
});

/** The filters of each dashboard, and the series from which a filter takes its values. */
const filters: Readonly<Record<string, readonly string[]>> = {
  budgets: ["team", "key"],
  operations: ["model"],
  spend: ["team", "key", "model"],
};
const valuesOf: Readonly<Record<string, string>> = {
  team: 'label_values(farebox_key_requests_total{job=~"$job"}, team)',
  key: 'label_values(farebox_key_requests_total{job=~"$job", team=~"$team"}, key)',
  model: 'label_values(farebox_requests_total{job=~"$job"}, model)',
};

describe.each(dashboards)("$title", ({ name: file, panels, templating }) => {
  it("has variables for the data source, the job, the instance and its filters", () => {
    expect(templating.list.map(({ name, type, query, allValue }) => [name, type, query, allValue])).toEqual([
      ["datasource", "datasource", "prometheus", undefined],
      ["job", "query", "label_values(farebox_build_info, job)", ".+"],
      ["instance", "query", 'label_values(farebox_build_info{job=~"$job"}, instance)', ".+"],
      ...(filters[file] ?? []).map((filter) => [filter, "query", valuesOf[filter], ".*"]),
    ]);
    const sources = panels.flatMap((panel) => [panel.datasource, ...panel.targets.map(({ datasource }) => datasource)]);
    expect(new Set(sources.map(({ uid }) => uid))).toEqual(new Set(["${datasource}"]));
  });

  it("uses each of its filters, on series that have the label", () => {
    const used = panels.flatMap(({ targets }) =>
      targets.flatMap(({ expr }) => [...expr.matchAll(/(\w+)=~"[^"]*\$(team|key|model)\)?"/g)]),
    );
    expect(new Set(used.map(([, , filter]) => filter))).toEqual(new Set(filters[file]));
    for (const [, label, filter] of used) expect([filter, "scope"]).toContain(label);
  });

  it("sums counters as rates, and takes the maximum of gauges that every proxy reads from the ledger", () => {
    const ofLedger = "farebox_(?:spend|budget_\\w+|ledger_pending_holds|reconciliation_\\w+)";
    for (const { expr } of panels.flatMap(({ targets }) => targets)) {
      const counters = [
        ...expr.matchAll(/(\w*)\(\w+_(?:total|bucket|count)\{[^}]*\}(\[\$__(?:rate_interval|range|interval)\])?/g),
      ];
      expect(counters, expr).toHaveLength([...expr.matchAll(/_(?:total|bucket|count)\{/g)].length);
      for (const [, around, span] of counters) {
        expect(["rate", "increase"], expr).toContain(around);
        if (around === "rate") expect(span, expr).toBe("[$__rate_interval]");
        else expect(["[$__range]", "[$__interval]"], expr).toContain(span);
      }
      const gauges = [...expr.matchAll(new RegExp(`${ofLedger}\\{`, "g"))].length;
      expect([...expr.matchAll(new RegExp(`max(?: by \\([\\w, ]+\\) )?\\(${ofLedger}\\{`, "g"))], expr).toHaveLength(
        gauges,
      );
      expect([...expr.matchAll(/\{[^}]*job=~"\$job", instance=~"\$instance"\}/g)], expr).toHaveLength(
        [...expr.matchAll(/\{/g)].length,
      );
    }
  });
});

describe("provisioning", () => {
  const { services, volumes } = yaml("compose.yaml");

  it("gives Grafana the data source and the folder of the dashboards", () => {
    const [source] = yaml("provisioning/datasources/farebox.yaml").datasources;
    expect(source).toMatchObject({ type: "prometheus", url: "${FAREBOX_PROMETHEUS_URL}", isDefault: true });
    expect(services.grafana.environment.FAREBOX_PROMETHEUS_URL).toBe("http://prometheus:9090");
    const [provider] = yaml("provisioning/dashboards/farebox.yaml").providers;
    expect(services.grafana.volumes).toEqual([
      "./provisioning:/etc/grafana/provisioning:ro",
      `./dashboards:${provider.options.path}:ro`,
    ]);
    expect(services.grafana.environment.GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH).toBe(
      `${provider.options.path}/spend.json`,
    );
  });

  it("has an example of each exact data source, with the type that its dashboards use", () => {
    for (const [name, type] of [
      ["sqlite", "frser-sqlite-datasource"],
      ["postgres", "grafana-postgresql-datasource"],
    ]) {
      const [source] = yaml(`exact/provisioning/datasources-${name}.yaml`).datasources;
      expect(source).toMatchObject({ type, uid: `farebox-ledger-${name}` });
      expect(
        exact
          .filter((dashboard) => dashboard.name.startsWith(`${name}/`))
          .map(({ panels }) => panels[0]?.datasource.type),
      ).toEqual([type, type]);
    }
    expect(yaml("exact/provisioning/dashboards.yaml").providers[0].options.path).toMatch(/^\//);
  });

  it("scrapes Farebox with its token, at the interval that is set in Grafana", () => {
    const {
      global,
      scrape_configs: [job],
      rule_files: rules,
    } = yaml("prometheus/prometheus.yml");
    const { environment } = services.farebox;
    expect(job).toMatchObject({ job_name: "farebox", static_configs: [{ targets: ["farebox:4000"] }] });
    expect(job.authorization.credentials).toBe(environment.FAREBOX_METRICS_TOKEN);
    const [source] = yaml("provisioning/datasources/farebox.yaml").datasources;
    expect(source.jsonData.timeInterval).toBe(global.scrape_interval);
    for (const name of ["prometheus.yml", ...rules]) {
      expect(services.prometheus.volumes).toContain(`./prometheus/${name}:/etc/prometheus/${name}:ro`);
    }
  });

  it("uses pinned images and services that exist, with ports open only to the local machine", () => {
    for (const [name, service] of Object.entries<{
      image: string;
      ports?: string[];
      volumes?: string[];
      depends_on?: string[];
    }>(services)) {
      expect(service.image, name).toMatch(/^farebox$|:v?\d+\.\d+\.\d+$/);
      for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:(\d+):\1$/);
      for (const other of service.depends_on ?? []) expect(Object.keys(services)).toContain(other);
      const named = (service.volumes ?? [])
        .map((volume) => volume.split(":")[0] ?? "")
        .filter((source) => !source.startsWith("."));
      for (const volume of named) expect(Object.keys(volumes)).toContain(volume);
    }
    expect(services.farebox.environment.FAREBOX_GATEWAY_URL).toBe(`http://sandbox:${services.sandbox.command.at(-1)}`);
  });
});
