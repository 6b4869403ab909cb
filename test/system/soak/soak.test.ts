import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { nodeFlags } from "../../support/node-flags.ts";
import { grown, type Resources } from "./memory.ts";

const soak = fileURLToPath(new URL("run.ts", import.meta.url));
const run = (...args: string[]) => promisify(execFile)(process.execPath, [...nodeFlags, soak, ...args]);

interface Figures {
  readonly sent: number;
  readonly answered: Readonly<Record<string, number>>;
  readonly refused: Readonly<Record<string, number>>;
  readonly failed: Readonly<Record<string, number>>;
  readonly quarters: readonly Resources[];
  readonly books: Readonly<Record<string, { readonly ledgerUsd: string; readonly gatewayUsd: string }>>;
  readonly kills: number;
}

/** `npm run soak` runs longer with many more clients. */
const few = ["--minutes", "0.3", "--clients", "8", "--streams", "10"];

describe("npm run soak", { timeout: 240_000 }, () => {
  it.each([
    { ledger: "SQLite", more: [], kills: 0 },
    { ledger: "PostgreSQL, killed in each quarter", more: ["--postgres", "--kill-every", "0.03"], kills: 4 },
  ])("accounts for every request on $ledger", async ({ more, kills }) => {
    const { stdout } = await run(...few, ...more);
    expect(stdout).toMatch(/\nevery request is accounted for\n$/);
    const figures = JSON.parse(stdout.slice(stdout.indexOf("\n{"), stdout.lastIndexOf("\n}") + 2)) as Figures;
    const ends = [figures.answered, figures.refused, figures.failed].flatMap((counts) => Object.values(counts));
    expect(ends.reduce((sum, count) => sum + count, 0)).toBe(figures.sent);
    const kinds = [
      "plain",
      "stream",
      "held",
      "task",
      // In this test the database is away too often for a session to complete.
      ...(kills === 0 ? ["farebox run"] : []),
      "farebox apply",
      "GET /metrics",
      "DELETE /dashboard/session",
    ];
    expect(kinds.filter((kind) => figures.answered[kind] === undefined)).toEqual([]);
    expect(figures.books["reported"]?.ledgerUsd).toBe(figures.books["reported"]?.gatewayUsd);
    expect(figures.quarters).toHaveLength(4);
    expect(figures.kills).toBeGreaterThanOrEqual(kills);
    if (kills > 0) expect(figures.failed["the database was away"]).toBeGreaterThan(0);
  });

  it.each([
    [["--minutes", "none"], "--minutes must be a number above 0 and at most 1440, not 'none'"],
    [["--kill-every", "0"], "--kill-every must be a number above 0 and at most 1440, not '0'"],
    [["--kill-every", "abc"], "--kill-every must be a number above 0 and at most 1440, not 'abc'"],
    [["--kill-every", "2"], "--kill-every needs --postgres, because only PostgreSQL is killed"],
    [["--kill", "2"], "Unknown option '--kill'"],
  ])("reports what is wrong with %j in one sentence and runs nothing", async (options, why) => {
    const failed = { code: 2, stdout: "", stderr: expect.stringContaining(why) };
    await expect(run(...options)).rejects.toMatchObject(failed);
  });
});

describe("the growth rule", () => {
  const quarter = (more: Partial<Resources> = {}): Resources => ({
    heapMb: 50,
    rssMb: 300,
    descriptors: 36,
    kinds: {},
    ...more,
  });

  it.each<[string, Partial<Resources>, readonly string[]]>([
    ["accepts the same figures", {}, []],
    ["accepts growth up to its limits", { heapMb: 59, rssMb: 385, descriptors: 40 }, []],
    ["reports more heap", { heapMb: 59.1 }, ["heapMb grew: 50.0, 50.0, 59.1"]],
    ["reports more resident memory", { rssMb: 386 }, ["rssMb grew: 300.0, 300.0, 386.0"]],
    ["reports more descriptors", { descriptors: 41 }, ["descriptors grew: 36.0, 36.0, 41.0; [{},{}]"]],
    ["reports a missing figure", { heapMb: Number.NaN }, ["heapMb grew: 50.0, 50.0, NaN"]],
  ])("%s", (_, more, found) => {
    expect(grown([quarter(), quarter(), quarter(more)])).toEqual(found);
  });
});
