import { stripVTControlCharacters } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { roundedUsd } from "../../../src/cli/amounts.ts";
import { harness } from "../../support/cli-harness.ts";
import { spend } from "../../support/cli-traffic.ts";

const farebox = harness();
const longModel = "a-model-whose-name-is-much-longer-than-any-line-of-a-terminal-of-eighty-columns";

beforeAll(async () => {
  await using store = await farebox.open();
  const requests = [
    ["model-a", "2026-11-20T11:00:00Z", 1_000_000, 500_000],
    ["model-b", "2026-11-19T11:00:00Z", 10, 1_000_000],
    ["model-c", "2026-11-16T11:00:00Z", 100, 0],
    [longModel, "2026-11-01T11:00:00Z", 100_000, 0],
    ["model-d", "2026-10-31T11:00:00Z", 1000, 0],
  ] as const;
  for (const [index, [model, at, input, output]] of requests.entries())
    await spend(store.ledger, { id: `r${index}`, at: Date.parse(at), key: "alice", model, input, output });
});
afterAll(() => farebox[Symbol.dispose]());

interface Shown {
  readonly rows: readonly { readonly model: string }[];
  readonly total: { readonly requests: number };
}

async function models(...options: string[]): Promise<string[]> {
  return (await farebox.json<Shown>("report", ...options)).rows.map(({ model }) => model);
}

describe("a report", () => {
  it("sorts by cost by default, or by the given column", async () => {
    expect(await models()).toEqual(["model-b", "model-a", "model-c"]);
    expect(await models("--sort", "tokens")).toEqual(["model-a", "model-b", "model-c"]);
    expect(await models("--sort", "name")).toEqual(["model-a", "model-b", "model-c"]);
    expect(await models("--sort", "saving")).toEqual(["model-b", "model-a", "model-c"]);
    expect((await farebox.run("report", "--sort", "size")).stderr).toContain("cost, saving, requests, tokens, name");
  });

  it("sorts days by time by default", async () => {
    const days = async (...options: string[]) =>
      (await farebox.json<{ rows: { day: string }[] }>("report", "--by", "day", ...options)).rows.map(({ day }) => day);
    expect(await days()).toEqual(["2026-11-16", "2026-11-19", "2026-11-20"]);
    expect(await days("--sort", "cost")).toEqual(["2026-11-19", "2026-11-20", "2026-11-16"]);
  });

  it("limits its rows with --top, but totals all of them", async () => {
    expect(await farebox.json<Shown>("report", "--top", "1")).toMatchObject({
      rows: [{ model: "model-b" }],
      total: { requests: 3 },
    });
    const table = await farebox.run("report", "--top", "2");
    expect(table.stdout.trim().split("\n")).toHaveLength(4);
    expect(table.stderr).toBe("2 of 3 rows; the total includes all rows\n");
    expect((await farebox.run("report", "--top", "1", "--format", "csv")).stdout.trim().split("\r\n")).toHaveLength(2);
    expect((await farebox.run("report", "--top", "0")).stderr).toContain("whole number from 1 to 1000000");
  });

  it.each([
    ["today", 1],
    ["yesterday", 2],
    ["week", 3],
    ["month", 4],
    ["last-month", 5],
  ])("since %s has %i requests", async (since, requests) => {
    expect((await farebox.json<Shown>("report", "--since", since)).total).toMatchObject({ requests });
  });

  it("has named spans that end where the next one begins", async () => {
    expect(await models("--since", "yesterday", "--until", "today")).toEqual(["model-b"]);
    expect(await models("--since", "last-month", "--until", "month")).toEqual(["model-d"]);
  });

  it("fits a terminal of 80 columns by rounding amounts, cutting names and omitting columns", async () => {
    farebox.isTTY = true;
    try {
      const { stdout } = await farebox.run("report", "--since", "month");
      const lines = stripVTControlCharacters(stdout).trimEnd().split("\n");
      expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
      expect(lines[0]).toMatch(/^model +requests +input tokens +output tokens +cost/);
      expect(lines).toContainEqual(expect.stringMatching(/^a-model-whose-name-[a-z-]*… /));
      expect(lines.at(-1)).toMatch(/^total +4 +1100110 +1500000 +7\.10/);
    } finally {
      farebox.isTTY = false;
    }
  });
});

describe("an amount on a terminal", () => {
  it.each([
    ["0.00", "0.00"],
    ["12.345678", "12.35"],
    ["0.1", "0.10"],
    ["0.104999", "0.10"],
    ["0.099999", "0.10"],
    ["0.0123456", "0.0123"],
    ["0.0000012345", "0.00000123"],
    ["0.000000000012", "0.000000000012"],
    ["-3.005", "-3.01"],
    ["1234567.999", "1234568.00"],
  ])("%s is shown as %s", (exact, shown) => {
    expect(roundedUsd(exact)).toBe(shown);
  });
});
