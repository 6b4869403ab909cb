// @module-tag races
import { readFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { committedExact, type SqlPanelFile } from "../../../grafana/read.ts";
import { correctCharge } from "../../../src/admin/corrections.ts";
import { type BudgetWindow } from "../../../src/core/budget.ts";
import { namedScope } from "../../../src/core/scope.ts";
import { parseSignedUsd, usd } from "../../../src/core/money.ts";
import { keyNames } from "../../../src/reporting/names.ts";
import { copyToPostgres } from "../../../src/ledger/copy/copy.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { endDay, startDay } from "../../support/daytime.ts";
import { temporaryFolder } from "../../support/farebox-process.ts";
import { assumed, endAt, holdOf } from "../../support/ledger-fixtures.ts";
import { prepareMixedTraffic } from "../../support/mixed-traffic.ts";
import { newDatabase } from "../../support/shared-postgres.ts";
import { startProxy } from "../../support/running-proxy.ts";

type Row = Readonly<Record<string, unknown>>;

const owned = new AsyncDisposableStack();
const dashboards = committedExact();
const panelsOf = (source: "sqlite" | "postgres") =>
  dashboards
    .filter(({ name }) => name.startsWith(source))
    .flatMap(({ title, panels }) => panels.map((panel) => ({ name: `${title}: ${panel.title}`, panel })));

/** Queries of an earlier version of the dashboards, which users may have imported into Grafana. */
const installed = JSON.parse(readFileSync(new URL("installed-dashboards.json", import.meta.url), "utf8")) as Record<
  "sqlite" | "postgres",
  readonly { readonly panel: string; readonly sql: string }[]
>;

let database: string;
let commands: Harness;
let since: number;
let until: number;
let windows: readonly BudgetWindow[];
let nameOf: (id: string) => string | null;

/** Replaces Grafana's variables in a query by values, as Grafana does. */
function substituted(sql: string, chosen: Readonly<Record<string, readonly string[]>> = {}): string {
  const values: Readonly<Record<string, number>> = { $__from: since, $__to: until, $__interval_ms: 900_000 };
  const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;
  const query = sql
    .replaceAll(/\$\w+/g, (variable) => String(values[variable] ?? variable))
    .replaceAll(/\$\{(\w+):singlequote\}/g, (_, name: string) => chosen[name]?.map(quoted).join(",") ?? "'(all)'");
  expect(query).not.toContain("$");
  return query;
}

const sqlOf = ({ targets: [target] }: SqlPanelFile) => substituted(target?.queryText ?? target?.rawSql ?? "");

/** Runs a query with 64-bit integers, as the plugin does. */
function runSql(sql: string, path = database): Row[] {
  const db = new Database(path, { readonly: true });
  try {
    return db.prepare(sql).safeIntegers().all() as Row[];
  } finally {
    db.close();
  }
}

// The hour must not end between the requests and the copy.
beforeAll(startDay);
afterAll(endDay);

/** Sends mixed traffic, corrects a charge, and copies the ledger while a stream runs. */
beforeAll(async () => {
  const folder = owned.use(await temporaryFolder());
  const proxy = owned.use(await startProxy());
  const traffic = await prepareMixedTraffic(proxy, 3);
  since = Date.now() - 60_000;
  await traffic.round();
  const clock = systemClock();
  const reported = (await proxy.charges()).find(({ source }) => source === "reported");
  const corrected = await correctCharge(
    { ledger: proxy.serving.ledger, clock },
    { id: reported?.id ?? "", amount: "0.000000000007", why: "a test", by: "test" },
  );
  expect(corrected.ok).toBe(true);
  const hold = { ...holdOf("doubted", usd("0.000000000003")), at: Date.now(), caller: { key: "", team: null } };
  await proxy.serving.ledger.hold(hold);
  await proxy.serving.ledger.post(
    hold.id,
    { ...assumed(hold.amount), doubts: ["service_tier", "hosted_tool"] },
    endAt(hold.at),
  );
  database = join(folder.path, "copy.db");
  nameOf = await keyNames(proxy.serving.keys);
  await traffic.whileStreaming(async () => {
    windows = await proxy.serving.ledger.windows(Date.now());
    const db = new Database(proxy.database, { readonly: true });
    await db.backup(database);
    db.close();
  });
  until = Date.now() + 1;
  commands = owned.use(harness());
  commands.env = { FAREBOX_DATABASE: database };
});
afterAll(() => owned.disposeAsync());

interface ReportRow {
  readonly requests: number;
  readonly cost_usd: string;
  readonly list_cost_usd: string;
  readonly saving_usd: string;
  readonly cost_in_doubt_usd: string;
}
type Report = {
  readonly rows: readonly (ReportRow & Readonly<Record<string, string | null>>)[];
  readonly total: ReportRow;
};

const report = (by: string) =>
  commands.json<Report>(
    "report",
    "--by",
    by,
    "--since",
    new Date(since).toISOString(),
    "--until",
    new Date(until).toISOString(),
  );
const exactly = (text: unknown) => parseSignedUsd(String(text));
const figuresOf = ({ requests, cost_usd, list_cost_usd, saving_usd }: ReportRow) => [
  requests,
  ...[cost_usd, list_cost_usd, saving_usd].map(exactly),
];

describe("through the SQLite data source", () => {
  const panels = panelsOf("sqlite");
  const rowsOf = (title: string) =>
    runSql(sqlOf(panels.find(({ panel }) => panel.title === title)?.panel ?? ({ targets: [] } as never)));

  it.each(panels)("$name has data", ({ panel }) => {
    const rows = runSql(sqlOf(panel));
    expect(rows).not.toEqual([]);
    for (const time of panel.targets[0]?.timeColumns ?? []) expect(Object.keys(rows[0] ?? {})).toContain(time);
  });

  it.each(installed.sqlite)("the earlier version of $panel has data", ({ sql }) => {
    expect(runSql(substituted(sql))).not.toEqual([]);
  });

  it.each([
    ["Spent (USD)", "cost_usd"],
    ["List price (USD)", "list_cost_usd"],
    ["Saving (USD)", "saving_usd"],
  ] as const)("%s equals the report to the last digit", async (title, field) => {
    const { total } = await report("model");
    const [row] = rowsOf(title);
    expect(row?.["usd"]).toMatch(/^\d+\.\d{12}$/);
    expect(exactly(row?.["usd"])).toBe(exactly(total[field]));
    expect(exactly(row?.["usd"])).toBeGreaterThan(0n);
    expect(rowsOf("Requests charged")).toEqual([{ requests: BigInt(total.requests) }]);
    expect(rowsOf("In doubt (USD)")).toEqual([{ usd: "0.000000000003" }]);
    expect(exactly(total.cost_in_doubt_usd)).toBe(3n);
  });

  it.each([
    ["By model (USD)", "Model", "model"],
    ["By team (USD)", "Team", "team"],
    ["By key (USD)", "Key", "key"],
    ["By day (USD)", "Day", "day"],
  ])("%s equals the report", async (title, column, by) => {
    const { rows } = await report(by);
    const shown = new Map(
      rowsOf(title).map((row) => [
        row[column],
        [Number(row["Requests"]), ...["Spent", "List price", "Saved"].map((name) => exactly(row[name]))],
      ]),
    );
    // The report also has a row for requests that were all refused, once their refusals are stored.
    const charged = rows.filter((row) => row.requests > 0);
    expect(shown).toEqual(new Map(charged.map((row) => [row[by] ?? `(no ${by})`, figuresOf(row)])));
  });

  it.each([
    ["team", "By team (USD)", "Team", ["research"]],
    ["key", "By key (USD)", "Key", ["bob", "carol"]],
    ["model", "By model (USD)", "Model", ["gpt-4o"]],
  ])("panels filtered by %s equal the report", async (name, title, column, values) => {
    const { rows } = await report(name);
    const names: readonly string[] = values;
    const wanted = rows.filter((row) => names.includes(row[name] ?? ""));
    expect(wanted).toHaveLength(values.length);
    const chosen = { [name]: values };
    const shown = (panelTitle: string) => {
      const { panel } = panels.find((each) => each.panel.title === panelTitle) ?? expect.fail(panelTitle);
      return runSql(substituted(panel.targets[0]?.queryText ?? "", chosen));
    };
    const sum = wanted.reduce((all, row) => all + (exactly(row.cost_usd) ?? 0n), 0n);
    expect(shown("Spent (USD)").map((row) => exactly(row["usd"]))).toEqual([sum]);
    expect(shown(title).map((row) => row[column])).toEqual(expect.arrayContaining([...values]));
    expect(shown(title)).toHaveLength(values.length);
    for (const panelTitle of ["By day (USD)", "By source (USD)", "By model (USD)", "By key (USD)"])
      expect(
        shown(panelTitle).reduce((all, row) => all + (exactly(row["Spent"]) ?? 0n), 0n),
        panelTitle,
      ).toBe(sum);
    const newest = shown("Newest charges (USD)");
    expect(newest.length).toBeGreaterThan(0);
    // The panel has no column for teams.
    if (name !== "team") expect(newest.filter((row) => !names.includes(String(row[column])))).toEqual([]);
  });

  it("the filters offer the teams, keys and models of the ledger", () => {
    const { templating } = dashboards.find(({ name }) => name === "sqlite/spend") ?? expect.fail();
    const offered = Object.fromEntries(
      templating.list
        .filter(({ type }) => type === "query")
        .map(({ name, query }) => [name, runSql(String(query)).map((row) => Object.values(row)[0])]),
    );
    expect(offered["team"]).toEqual(["product", "research"]);
    expect(offered["key"]).toEqual(["alice", "bob", "carol", "dave", "intern"]);
    expect(offered["model"]).toContain("gpt-4o");
  });

  it("windows, holds, overages and corrections equal the ledger", async () => {
    const shown = rowsOf("Windows (USD)").map((row) => [
      row["Scope"],
      row["Period"],
      ...["Limit", "Spent", "Held", "Remaining"].map((name) => exactly(row[name])),
    ]);
    const stated = windows.map(({ budget: { scope, period, limit }, subject, spent, held }) => [
      `${namedScope(scope, nameOf)}${subject === "" ? "" : `=${nameOf(subject)}`}`,
      period,
      limit,
      spent,
      held,
      limit - spent - held,
    ]);
    expect(new Set(shown)).toEqual(new Set(stated));
    expect(shown).toHaveLength(stated.length);
    const [hold] = rowsOf("Pending holds (USD)");
    expect(hold).toMatchObject({ Key: "alice", Model: "gpt-4o", Hold: rowsOf("Held now (USD)")[0]?.["usd"] });
    expect(rowsOf("Corrections (USD)")).toMatchObject([{ Amount: "0.000000000007", Why: "a test", By: "test" }]);
    expect(rowsOf("Overages (USD)")).toMatchObject([{ Key: "dave", Overage: expect.stringMatching(/^0\.00\d*[1-9]/) }]);
  });

  it("sums are the same after retention has deleted the quarter hours", async () => {
    const folder = owned.use(await temporaryFolder());
    const pruned = join(folder.path, "pruned.db");
    const source = new Database(database, { readonly: true });
    await source.backup(pruned);
    source.close();
    const db = new Database(pruned);
    db.prepare("update meta set quarters_from = ?").run(until + 900_000);
    db.close();
    for (const title of ["Spent (USD)", "Requests charged", "By model (USD)", "By key (USD)"]) {
      const { panel } = panels.find((each) => each.panel.title === title) ?? expect.fail(title);
      expect(runSql(sqlOf(panel), pruned), title).toEqual(rowsOf(title));
    }
  });
});

describe("through the PostgreSQL data source", () => {
  let client: Client;
  /** Copies the ledger into the tables that a proxy uses. */
  beforeAll(async () => {
    const { url } = owned.use(await newDatabase());
    client = new Client(url);
    await client.connect();
    owned.defer(() => client.end());
    expect(await copyToPostgres({ path: database, client })).toMatchObject({ ok: true });
  });

  /** Converts a value to a form that both databases share; times in seconds since 1970. */
  const alike = (value: unknown) =>
    value instanceof Date ? value.getTime() / 1000 : typeof value === "bigint" ? String(value) : value;
  const pairs = panelsOf("postgres").map(({ name, panel }, index) => ({
    name,
    panel,
    other: panelsOf("sqlite")[index]?.panel ?? expect.fail(name),
  }));

  it.each(installed.postgres)("the earlier version of $panel has data", async ({ sql }) => {
    expect((await client.query<Row>(substituted(sql))).rows).not.toEqual([]);
  });

  it("the filters offer the same values as through SQLite", async () => {
    const lists = ["postgres/spend", "sqlite/spend"].map((name) =>
      dashboards.find((each) => each.name === name)?.templating.list.filter(({ type }) => type === "query"),
    );
    expect(lists[0]?.map(({ name, query }) => [name, query])).toEqual(
      lists[1]?.map(({ name, query }) => [name, query]),
    );
    for (const { query } of lists[0] ?? [])
      expect((await client.query({ text: String(query), rowMode: "array" })).rows.flat()).toEqual(
        runSql(String(query)).map((row) => Object.values(row)[0]),
      );
  });

  it.each(pairs)("$name, filtered by keys and models, shows the same as through SQLite", async ({ panel, other }) => {
    const chosen = { key: ["bob", "carol"], model: ["gpt-5", "gemini-2.5-flash"] };
    const { rows } = await client.query<Row>(substituted(panel.targets[0]?.rawSql ?? "", chosen));
    const shown = (row: Row) =>
      Object.fromEntries(Object.entries(row).map(([column, value]) => [column, alike(value)]));
    expect(rows.map(shown)).toEqual(runSql(substituted(other.targets[0]?.queryText ?? "", chosen)).map(shown));
  });

  it.each(pairs)("$name shows the same as through SQLite", async ({ panel, other }) => {
    expect(panel.title).toBe(other.title);
    const { rows } = await client.query<Row>(sqlOf(panel));
    const shown = (row: Row) =>
      Object.fromEntries(Object.entries(row).map(([column, value]) => [column, alike(value)]));
    expect(rows.map(shown)).toEqual(runSql(sqlOf(other)).map(shown));
  });
});
