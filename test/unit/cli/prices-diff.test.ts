import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createKey } from "../../../src/admin/key-changes.ts";
import { pricesDiffSchema, type PricesDiffJson } from "../../../src/reporting/shapes/commands.ts";
import { oneModelFile } from "../../support/price-files.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { spend } from "../../support/cli-traffic.ts";

const noon = Date.parse("2026-11-20T12:00:00Z");
const dayMs = 86_400_000;

/** Creates a folder with one file that prices model-a. */
function folderOf(farebox: Harness, name: string, input: string, output: string): string {
  const folder = join(farebox.folder, name);
  mkdirSync(folder);
  writeFileSync(join(folder, "mine.yaml"), oneModelFile("model-a", [{ from: "2026-01-01", input, output }]));
  return folder;
}

async function fill(farebox: Harness): Promise<void> {
  await using store = await farebox.open();
  const created = await createKey({ keys: store.keys, clock: farebox.clock, by: "test" }, { name: "alice" });
  if (!created.ok) throw new Error("no key");
  const key = created.key.id;
  await spend(store.ledger, { id: "now", at: noon - 60_000, key, input: 1000, output: 500 });
  await spend(store.ledger, { id: "before", at: noon - 29 * dayMs, key, input: 1000, output: 500 });
  await spend(store.ledger, { id: "long ago", at: noon - 31 * dayMs, key, input: 1000, output: 500 });
  await spend(store.ledger, { id: "elsewhere", at: noon - dayMs, key, input: 10, output: 10, model: "gone" });
}

const changed = ({ changes }: PricesDiffJson) =>
  changes.filter(({ field }) => field.startsWith("gateway")).map(({ field, before, after }) => [field, before, after]);

describe("prices diff", () => {
  it("lists the changes, and the cost of the last 30 days under each set of prices", async () => {
    using farebox = harness();
    await fill(farebox);
    const [one, two] = [folderOf(farebox, "one", "2", "8"), folderOf(farebox, "two", "3", "8")];
    const diff = pricesDiffSchema.parse(await farebox.json("prices", "diff", one, two));
    expect(changed(diff)).toEqual([["gateway.input", "2.00", "3.00"]]);
    expect(diff.traffic).toMatchObject({
      since: "2026-10-21T12:00:00.000Z",
      rows: [
        {
          model: "gone",
          requests: 1,
          cost_usd: "0.00005",
          before_usd: "0.00005",
          after_usd: "0.00005",
          difference_usd: "0.00",
        },
        {
          model: "model-a",
          requests: 2,
          cost_usd: "0.006",
          before_usd: "0.012",
          after_usd: "0.014",
          difference_usd: "0.002",
        },
      ],
      total: { requests: 3, cost_usd: "0.00605", before_usd: "0.01205", after_usd: "0.01405", difference_usd: "0.002" },
      left_over: {
        before: { not_recomputed: { requests: 1, cost_usd: "0.00005" } },
        after: { newly_priced: { requests: 0 } },
      },
    });
  });

  it("prints two tables, or only the first without a ledger", async () => {
    using farebox = harness();
    const folder = folderOf(farebox, "new", "1", "5");
    const withoutLedger = await farebox.run("prices", "diff", "shipped", folder);
    expect(withoutLedger).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/^the cost of the last 30 days is not compared: there is no ledger at /),
    });
    expect(withoutLedger.stdout).toContain("model-a\tgateway.output\t4.00\t5.00\t2026-01-01\t-\n");
    expect(withoutLedger.stdout).not.toContain("traffic");
    expect(pricesDiffSchema.parse(await farebox.json("prices", "diff", "shipped", folder)).traffic).toBeNull();
    await fill(farebox);
    const { stdout, stderr } = await farebox.run("prices", "diff", "shipped", folder);
    expect(stdout.split("\n\n")[1]?.split("\n")).toEqual([
      "traffic of\trequests\tcost\tunder A\tunder B\tdifference",
      "model-a\t2\t0.006\t0.006\t0.007\t0.001",
      "all models\t3\t0.00605\t0.00605\t0.00705\t0.001",
      "",
    ]);
    expect(stderr).toContain(
      "not recomputed under B: USD 0.00005 of 1 requests (these prices do not include their model)",
    );
  });

  it("compares one folder with the prices in force, including FAREBOX_PRICING", async () => {
    using farebox = harness();
    const folder = folderOf(farebox, "new", "1", "5");
    expect(changed(pricesDiffSchema.parse(await farebox.json("prices", "diff", folder)))).toEqual([
      ["gateway.output", "4.00", "5.00"],
    ]);
    farebox.env["FAREBOX_PRICING"] = folder;
    expect(await farebox.run("prices", "diff", folder)).toMatchObject({ code: 0, stdout: "the prices are the same\n" });
    expect(changed(pricesDiffSchema.parse(await farebox.json("prices", "diff", "shipped")))).toEqual([
      ["gateway.output", "5.00", "4.00"],
    ]);
  });

  it("refuses folders with faults, and lists each fault once", async () => {
    using farebox = harness();
    const folder = folderOf(farebox, "new", "1", "-5");
    expect(await farebox.run("prices", "diff", folder, folder)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(/^farebox: \S+mine\.yaml:\d+:\d+: .*\nfarebox: \S+mine\.yaml:\d+:\d+: .*\n$/),
    });
    expect(await farebox.run("prices", "diff", "shipped", "/nowhere")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("/nowhere"),
    });
  });
});
