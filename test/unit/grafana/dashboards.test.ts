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
  it("are what the code builds: npm run grafana writes them", () => {
    expect(globSync("*", { cwd: `${grafana}/dashboards` }).toSorted()).toEqual([...dashboardFiles.keys()].toSorted());
    for (const [name, built] of dashboardFiles) expect(text(`dashboards/${name}`), name).toBe(built);
    expect(exact.map(({ name }) => `${name}.json`)).toEqual([...exactFiles.keys()].toSorted());
    for (const [name, built] of exactFiles) expect(text(`exact/${name}`), name).toBe(built);
  });

  it("have an id of Grafana's own choice and a uid that stays", () => {
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
  it("chooses its data source, whose type its panels ask", () => {
    const type = name.startsWith("sqlite") ? "frser-sqlite-datasource" : "grafana-postgresql-datasource";
    expect(templating.list.map(({ name: variable, type: kind, query }) => [variable, kind, query])).toEqual([
      ["datasource", "datasource", type],
    ]);
    const sources = panels.flatMap((panel) => [panel.datasource, ...panel.targets.map(({ datasource }) => datasource)]);
    expect(sources).toEqual(sources.map(() => ({ type, uid: "${datasource}" })));
  });
});

describe.each([...dashboards, ...exact])("$title", ({ panels }) => {
  it("says of each panel what it answers, and in which unit", () => {
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

describe.each(dashboards)("$title", ({ panels, templating }) => {
  it("chooses its data source, job and instance", () => {
    expect(templating.list.map(({ name, type, query, allValue }) => [name, type, query, allValue])).toEqual([
      ["datasource", "datasource", "prometheus", undefined],
      ["job", "query", "label_values(farebox_build_info, job)", ".+"],
      ["instance", "query", 'label_values(farebox_build_info{job=~"$job"}, instance)', ".+"],
    ]);
    const sources = panels.flatMap((panel) => [panel.datasource, ...panel.targets.map(({ datasource }) => datasource)]);
    expect(new Set(sources.map(({ uid }) => uid))).toEqual(new Set(["${datasource}"]));
  });

  it("sums counters as rates, and takes the largest of what every proxy reads from the same ledger", () => {
    const ofLedger = "farebox_(?:spend|budget_\\w+|ledger_pending_holds|reconciliation_\\w+)";
    for (const { expr } of panels.flatMap(({ targets }) => targets)) {
      const counters = [
        ...expr.matchAll(/(\w*)\(\w+_(?:total|bucket|count)\{[^}]*\}(\[\$__(?:rate_interval|range)\])?/g),
      ];
      expect(counters, expr).toHaveLength([...expr.matchAll(/_(?:total|bucket|count)\{/g)].length);
      for (const [, around, span] of counters) {
        expect(["rate", "increase"], expr).toContain(around);
        expect(span, expr).toBe(around === "rate" ? "[$__rate_interval]" : "[$__range]");
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

  it("hands Grafana the data source and the folder of the dashboards", () => {
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

  it("has an example of each data source of exact amounts, of the type that its dashboards ask for", () => {
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

  it("scrapes Farebox with its token, at the interval that Grafana is given", () => {
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

  it("starts what it names, from pinned images, for this machine only", () => {
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
