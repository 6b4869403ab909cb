import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createKey } from "../../../src/admin/key-changes.ts";
import { usd } from "../../../src/core/money.ts";
import { whatIfSchema } from "../../../src/reporting/shapes/commands.ts";
import { assumed, endAt, holdOf } from "../../support/ledger-fixtures.ts";
import { oneModelFile } from "../../support/price-files.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { spend } from "../../support/cli-traffic.ts";

let farebox: Harness;
let folder: string;
const noon = Date.parse("2026-11-20T12:00:00Z");

beforeEach(async () => {
  farebox = harness();
  folder = join(farebox.folder, "higher");
  mkdirSync(folder);
  writeFileSync(join(folder, "mine.yaml"), oneModelFile("model-a", [{ from: "2026-01-01", input: "3", output: "12" }]));
  await using store = await farebox.open();
  const created = await createKey({ keys: store.keys, clock: farebox.clock, by: "test" }, { name: "alice" });
  if (!created.ok) throw new Error("no key");
  const key = created.key.id;
  const { ledger } = store;
  await spend(ledger, { id: "one", at: noon - 86_400_000, key, input: 1000, output: 500 });
  await spend(ledger, { id: "two", at: noon - 3_600_000, key, input: 1000, output: 500 });
  await spend(ledger, { id: "old", at: noon - 3_600_000, key, input: 10, output: 10, model: "gone" });
  await ledger.hold(holdOf("lost", usd("0.25"), { at: noon - 1000 }));
  await ledger.post("lost", assumed(usd("0.25")), endAt(noon));
});
afterEach(() => farebox[Symbol.dispose]());

/** Runs `report` with these words and checks its JSON. */
async function whatIf(...words: readonly string[]) {
  return whatIfSchema.parse(await farebox.json("report", ...words));
}

describe("report --what-if", () => {
  it("adds the cost of the same traffic under other prices to each row", async () => {
    const report = await whatIf("--by", "day,model", "--what-if", folder);
    expect(
      report.rows.map(({ day, model, cost_usd, what_if }) => [
        day,
        model,
        cost_usd,
        what_if.cost_usd,
        what_if.difference_usd,
      ]),
    ).toEqual([
      ["2026-11-19", "model-a", "0.003", "0.009", "0.006"],
      ["2026-11-20", "gone", "0.00005", "0.00005", "0.00"],
      ["2026-11-20", "model-a", "0.253", "0.259", "0.006"],
    ]);
    expect(report.total).toMatchObject({
      requests: 4,
      cost_usd: "0.25605",
      what_if: { cost_usd: "0.26805", difference_usd: "0.012", list_cost_usd: "0.2681" },
    });
    expect(report.not_recomputed).toEqual({
      requests: 2,
      cost_usd: "0.25005",
      by_reason: { assumed: { requests: 1, cost_usd: "0.25" }, unknown_model: { requests: 1, cost_usd: "0.00005" } },
    });
    expect(report.newly_priced).toEqual({ requests: 0, cost_usd: "0.00" });
  });

  it("shows no difference under the prices that were charged", async () => {
    const report = await whatIf("--by", "model", "--what-if", "shipped");
    expect(report.rows.map(({ what_if }) => what_if.difference_usd)).toEqual(["0.00", "0.00"]);
    const { rows } = await farebox.json<{ rows: object[] }>("report", "--by", "model");
    // Prices do not change refusals, so only a plain report has them.
    expect(report.rows.map(({ what_if: _whatIf, ...row }) => ({ ...row, refused_requests: 0 }))).toEqual(rows);
  });

  it("is printed as CSV and as a table with notes about requests that were not recomputed", async () => {
    const { stdout, stderr } = await farebox.run("report", "--what-if", folder);
    expect(stdout.split("\n")).toEqual([
      "model\trequests\tinput tokens\toutput tokens\tcost\twhat-if cost\tdifference",
      "model-a\t3\t2000\t1000\t0.256\t0.268\t0.012",
      "gone\t1\t10\t10\t0.00005\t0.00005\t0.00",
      "total\t4\t2010\t1010\t0.25605\t0.26805\t0.012",
      "",
    ]);
    expect(stderr.split("\n")).toEqual([
      "not recomputed: USD 0.25 of 1 requests (the whole hold was charged, so their tokens are unknown)",
      "not recomputed: USD 0.00005 of 1 requests (these prices do not include their model)",
      "",
    ]);
    const csv = (await farebox.run("report", "--what-if", folder, "--format", "csv")).stdout.split("\r\n");
    expect(csv[0]).toMatch(
      /,retries,cost_in_doubt_usd,what_if_cost_usd,what_if_list_cost_usd,difference_usd,not_recomputed_requests,not_recomputed_cost_usd$/,
    );
    expect(csv[1]).toMatch(/^model-a,3,.*,0,0.00,0.268,0.268,0.012,1,0.25$/);
  });

  it("prices requests that had no price when they were charged, and prints - for amounts that are not known", async () => {
    await using store = await farebox.open();
    await store.ledger.hold(holdOf("new", null, { at: noon, model: "new-model" }));
    const posting = {
      ...assumed(null),
      source: "reported",
      tokens: { ...assumed(null).tokens, input: 1000, output: 0 },
    } as const;
    await store.ledger.post("new", posting, endAt(noon));
    writeFileSync(
      join(folder, "new.yaml"),
      oneModelFile("new-model", [{ from: "2026-01-01", input: "1", output: "1" }]),
    );
    await store[Symbol.asyncDispose]();
    farebox.clock.advance(60_000);
    const { stdout, stderr } = await farebox.run("report", "--what-if", folder);
    expect(stdout).toContain("\nnew-model\t1\t1000\t0\t-\t0.001\t0.001\n");
    expect(stderr).toContain("newly priced: USD 0.001 of 1 requests (they had no price when they were charged)");
    const shipped = await farebox.run("report", "--what-if", "shipped");
    expect(shipped.stdout).toContain("\nnew-model\t1\t1000\t0\t-\t-\t-\n");
    const plain = await farebox.run("report");
    expect(plain.stdout).toContain("\nnew-model\t1\t1000\t0\t-\t-\t-\n");
    expect(plain.stdout).toMatch(/\ntotal\t5\t.*\t0\.25605\t/);
    expect(await farebox.json("report")).toMatchObject({
      rows: expect.arrayContaining([
        expect.objectContaining({ model: "new-model", cost_usd: "0.00", unpriced_requests: 1 }),
      ]),
    });
  });

  it.each([
    ["a gateway", 'gateway: { fraction: "1" }', ["0.006", "0.256"]],
    [
      "a group that a change without a day assigns",
      'groups: { all: { fraction: "1" } }\nmodels: { model-a: { change: { group: all } } }',
      ["0.006", "0.256"],
    ],
    [
      "a group that a change assigns from a day",
      'groups: { all: { fraction: "1" } }\nmodels: { model-a: { change: { from: 2026-11-20, group: all } } }',
      ["0.003", "0.256"],
    ],
    [
      "a change from a day",
      'models: { "model-*": { change: { from: 2026-11-20, source: mine, fraction: "1" } } }',
      ["0.003", "0.256"],
    ],
  ])("recomputes past days with %s, while the charges stay", async (_name, text, expected) => {
    writeFileSync(join(folder, "mine.yaml"), `${text}\n`);
    farebox.env["FAREBOX_PRICING"] = folder;
    const report = await whatIf("--by", "day,model", "--what-if", folder);
    const rows = report.rows.filter(({ model }) => model === "model-a");
    // The second day has a charge of 0.25 without tokens, which keeps its amount.
    expect(rows.map(({ what_if }) => what_if.cost_usd)).toEqual(expected);
    expect(rows.map(({ cost_usd }) => cost_usd)).toEqual(["0.003", "0.253"]);
    expect(await farebox.json("verify")).toMatchObject({ differences: [] });
  });

  it("refuses invalid prices or a missing folder, and prints nothing else", async () => {
    writeFileSync(join(folder, "bad.yaml"), "modells: {}");
    expect(await farebox.run("report", "--what-if", folder)).toEqual({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(/bad\.yaml:1:1: unknown field "modells"; did you mean "models"\?\n$/),
    });
    expect(await farebox.run("report", "--what-if", "/nowhere")).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining("does not exist"),
    });
  });
});
